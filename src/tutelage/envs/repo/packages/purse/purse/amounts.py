"""Amounts: reading, writing, rounding, sharing."""


def parse(text):
    """Cents of a text such as 12, 12.5, -3.07 or 1,200.00."""
    text = text.strip().replace(",", "")
    sign = 1
    if text.startswith("-"):
        sign = -1
        text = text[1:]
    whole, dot, part = text.partition(".")
    if len(part) > 2 or not (whole + part).isdigit():
        raise ValueError("no amount: " + text)
    cents = int(whole or "0") * 100
    if dot:
        cents += int(part.ljust(2, "0"))
    return sign * cents


def show(cents, symbol="$"):
    """$12.05, -$0.30"""
    sign = "-" if cents < 0 else ""
    whole, part = divmod(abs(cents), 100)
    return f"{sign}{symbol}{whole}.{part:02d}"


def half_even(numerator, denominator):
    """A quotient rounded to the nearest whole number; a half goes to the even one."""
    quotient, rest = divmod(numerator, denominator)
    double = 2 * rest
    if double > denominator or (double == denominator and quotient % 2 == 1):
        quotient += 1
    return quotient


def share(cents, weights):
    """Split an amount in proportion to weights, without losing a cent; the first ones get what is left."""
    whole = sum(weights)
    if whole <= 0:
        raise ValueError("weights must have a sum above 0")
    parts = [cents * weight // whole for weight in weights]
    left = cents - sum(parts)
    for index in range(left):
        parts[index] += 1
    return parts


def percent(cents, rate, base=100):
    """`rate` of `base` parts of an amount, rounded half to even."""
    return half_even(cents * rate, base)


def change(cents, coins=(200, 100, 50, 20, 10, 5, 2, 1)):
    """Fewest coins for an amount, largest first: {coin: number}."""
    if cents < 0:
        raise ValueError("change of a negative amount")
    result = {}
    for coin in coins:
        number, cents = divmod(cents, coin)
        if number > 0:
            result[coin] = number
    return result
