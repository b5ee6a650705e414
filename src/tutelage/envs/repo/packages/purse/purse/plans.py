"""Savings, loans, discounts."""

from purse.amounts import half_even


def grow(cents, rate, years=1):
    """Balance after years of interest, `rate` in percent, rounded every year."""
    for _ in range(years):
        cents += half_even(cents * rate, 100)
    return cents


def years_to(cents, goal, rate, most=100):
    """Years until a balance reaches a goal, or None if it takes more than `most`."""
    years = 0
    while cents < goal:
        if years >= most:
            return None
        cents += half_even(cents * rate, 100)
        years += 1
    return years


def repay(debt, rate, payment):
    """Debts at the end of each year until it is paid: interest first, then the payment."""
    rows = []
    while debt > 0:
        interest = half_even(debt * rate, 100)
        if payment <= interest:
            raise ValueError("the payment does not cover the interest")
        debt = max(0, debt + interest - payment)
        rows.append(debt)
    return rows


def discount(cents, number, steps=((10, 5), (50, 10), (100, 20))):
    """Price of a number of things; from each step (number, percent) on, all are cheaper."""
    off = 0
    for least, percent in steps:
        if number >= least:
            off = percent
    whole = cents * number
    return whole - half_even(whole * off, 100)


def tax(income, bands=((10_000, 0), (20_000, 10), (None, 30))):
    """Tax of an income: each band (upper end, percent) is taxed at its own rate."""
    owed = 0
    low = 0
    for high, percent in bands:
        top = income if high is None else min(income, high)
        if top > low:
            owed += half_even((top - low) * percent, 100)
        if high is None or income <= high:
            break
        low = high
    return owed


def average(entries, digits=0):
    """Mean of amounts, in cents with `digits` more digits."""
    if not entries:
        return None
    return half_even(sum(entries) * 10**digits, len(entries))


def running(entries, start=0):
    """Balance after each entry."""
    balances = []
    for cents in entries:
        start += cents
        balances.append(start)
    return balances


def lowest(entries, start=0):
    """The lowest balance on the way, the start included, and after how many entries."""
    best = (start, 0)
    for index, balance in enumerate(running(entries, start)):
        if balance < best[0]:
            best = (balance, index + 1)
    return best
