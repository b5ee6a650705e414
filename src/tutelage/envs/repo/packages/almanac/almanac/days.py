"""Single dates."""

LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def is_leap(year):
    if year % 400 == 0:
        return True
    return year % 4 == 0 and year % 100 != 0


def month_length(year, month):
    if not 1 <= month <= 12:
        raise ValueError("a month is 1 to 12")
    if month == 2 and is_leap(year):
        return 29
    return LENGTHS[month - 1]


def is_valid(date):
    year, month, day = date
    if year < 1 or not 1 <= month <= 12:
        return False
    return 1 <= day <= month_length(year, month)


def day_of_year(date):
    """1 for the first of January."""
    year, month, day = date
    for earlier in range(1, month):
        day += month_length(year, earlier)
    return day


def day_number(date):
    """Days since the first of January of year 1, which is day 0."""
    before = date[0] - 1
    leaps = before // 4 - before // 100 + before // 400
    return before * 365 + leaps + day_of_year(date) - 1


def from_number(number):
    """The date of a day number."""
    year = number // 366 + 1
    while day_number((year + 1, 1, 1)) <= number:
        year += 1
    rest = number - day_number((year, 1, 1))
    month = 1
    while rest >= month_length(year, month):
        rest -= month_length(year, month)
        month += 1
    return (year, month, rest + 1)


def weekday(date):
    """0 for Monday to 6 for Sunday."""
    return day_number(date) % 7


def weekday_name(date, letters=None):
    name = NAMES[weekday(date)]
    return name if letters is None else name[:letters]
