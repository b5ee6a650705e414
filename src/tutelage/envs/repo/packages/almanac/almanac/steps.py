"""From one date to another."""

from almanac.days import day_number, from_number, month_length, weekday


def add_days(date, days=1):
    return from_number(day_number(date) + days)


def add_months(date, months=1):
    """The same day of a later month, or its last day if it is shorter."""
    year, month, day = date
    index = year * 12 + month - 1 + months
    year, month = index // 12, index % 12 + 1
    return (year, month, min(day, month_length(year, month)))


def days_between(first, second):
    return abs(day_number(second) - day_number(first))


def age(born, today):
    """Whole years between two dates."""
    years = today[0] - born[0]
    if today[1:] < born[1:]:
        years -= 1
    return years


def next_weekday(date, wanted, same=False):
    """The next date on a weekday; with `same`, the date itself counts."""
    ahead = (wanted - weekday(date)) % 7
    if ahead == 0 and not same:
        ahead = 7
    return add_days(date, ahead)


def workdays(first, second, holidays=()):
    """Days from first to second, both included, that are no weekend and no holiday."""
    count = 0
    for number in range(day_number(first), day_number(second) + 1):
        if number % 7 < 5 and from_number(number) not in holidays:
            count += 1
    return count


def nth_weekday(year, month, wanted, nth):
    """The nth weekday of a month, counted from its end if negative; None if there is none."""
    if nth == 0:
        raise ValueError("weekdays are counted from 1 or -1")
    days = [day for day in range(1, month_length(year, month) + 1) if weekday((year, month, day)) == wanted]
    index = nth - 1 if nth > 0 else nth
    if index >= len(days) or index < -len(days):
        return None
    return (year, month, days[index])


def every(first, days, count=None, until=None):
    """Dates at equal distances: `count` of them, or up to `until`, which is included."""
    if days < 1 or (count is None) == (until is None):
        raise ValueError("days at least 1, and either count or until")
    dates = []
    date = first
    while (until is None or date <= until) and (count is None or len(dates) < count):
        dates.append(date)
        date = add_days(date, days)
    return dates
