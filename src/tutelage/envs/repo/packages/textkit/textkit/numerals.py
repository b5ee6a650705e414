"""Numbers in words and letters."""

ROMAN = (
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
)


def to_roman(number):
    """Roman numeral of 1 to 3999."""
    if not 1 <= number <= 3999:
        raise ValueError("a Roman numeral stands for 1 to 3999")
    letters = ""
    for value, symbol in ROMAN:
        while number >= value:
            letters += symbol
            number -= value
    return letters


def from_roman(letters):
    """The number of a Roman numeral in its usual spelling."""
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
    total = 0
    previous = 0
    for letter in reversed(letters.upper()):
        if letter not in values:
            raise ValueError("no Roman digit: " + letter)
        value = values[letter]
        if value < previous:
            total -= value
        else:
            total += value
            previous = value
    if total < 1 or to_roman(total) != letters.upper():
        raise ValueError("no Roman numeral: " + letters)
    return total


def ordinal(number):
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    last_two = abs(number) % 100
    if 11 <= last_two <= 13:
        ending = "th"
    else:
        ending = {1: "st", 2: "nd", 3: "rd"}.get(last_two % 10, "th")
    return str(number) + ending


def column_name(index):
    """Names of spreadsheet columns: 1 is A, 26 is Z, 27 is AA."""
    if index < 1:
        raise ValueError("columns are counted from 1")
    name = ""
    while index > 0:
        index, rest = divmod(index - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def group_digits(number, size=3, mark=","):
    """12345 is 12,345."""
    digits = str(abs(number))
    groups = []
    while len(digits) > size:
        groups.insert(0, digits[-size:])
        digits = digits[:-size]
    groups.insert(0, digits)
    sign = "-" if number < 0 else ""
    return sign + mark.join(groups)
