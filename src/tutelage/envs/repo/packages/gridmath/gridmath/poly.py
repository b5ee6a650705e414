"""Polynomials as lists of coefficients, the constant first, no zero at the end."""


def trim(coefficients):
    result = list(coefficients)
    while result and result[-1] == 0:
        result.pop()
    return result


def degree(poly):
    """-1 for the zero polynomial."""
    return len(trim(poly)) - 1


def add(first, second):
    size = max(len(first), len(second))
    result = []
    for index in range(size):
        left = first[index] if index < len(first) else 0
        right = second[index] if index < len(second) else 0
        result.append(left + right)
    return trim(result)


def multiply(first, second):
    if not first or not second:
        return []
    result = [0] * (len(first) + len(second) - 1)
    for i, left in enumerate(first):
        for j, right in enumerate(second):
            result[i + j] += left * right
    return trim(result)


def evaluate(poly, x):
    """By Horner's rule."""
    value = 0
    for coefficient in reversed(poly):
        value = value * x + coefficient
    return value


def derivative(poly, times=1):
    for _ in range(times):
        poly = [index * coefficient for index, coefficient in enumerate(poly)][1:]
    return trim(poly)


def divide(poly, root):
    """Quotient and remainder of the division by (x - root)."""
    carried = 0
    result = []
    for coefficient in reversed(poly):
        carried = carried * root + coefficient
        result.insert(0, carried)
    return result[1:], carried


def integer_roots(poly, low=-10, high=10):
    """Whole numbers between low and high, both included, at which a polynomial is 0."""
    return [x for x in range(low, high + 1) if evaluate(poly, x) == 0]


def show(poly, name="x"):
    """x^2 - 3x + 2"""
    text = ""
    for power in range(len(poly) - 1, -1, -1):
        value = poly[power]
        if value == 0:
            continue
        if text:
            text += " - " if value < 0 else " + "
        elif value < 0:
            text += "-"
        size = abs(value)
        if size != 1 or power == 0:
            text += str(size)
        if power >= 1:
            text += name
        if power > 1:
            text += "^" + str(power)
    return text or "0"
