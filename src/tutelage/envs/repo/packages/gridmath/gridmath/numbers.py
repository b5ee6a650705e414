"""Whole numbers."""


def gcd(first, second):
    while second:
        first, second = second, first % second
    return abs(first)


def lcm(first, second):
    if first == 0 or second == 0:
        return 0
    return abs(first * second) // gcd(first, second)


def is_prime(number):
    if number < 2:
        return False
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 1
    return True


def factors(number):
    """Prime factors, smallest first: 12 is [2, 2, 3]."""
    if number < 1:
        raise ValueError("factors of a number below 1")
    found = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    if number > 1:
        found.append(number)
    return found


def divisors(number):
    low = []
    high = []
    divisor = 1
    while divisor * divisor <= number:
        if number % divisor == 0:
            low.append(divisor)
            if divisor != number // divisor:
                high.append(number // divisor)
        divisor += 1
    return low + high[::-1]


def root(number, degree=2):
    """Largest whole number whose power is not above `number`, by halving."""
    if number < 0:
        raise ValueError("root of a negative number")
    low = 0
    high = number + 1
    while high - low > 1:
        middle = (low + high) // 2
        if middle**degree <= number:
            low = middle
        else:
            high = middle
    return low


def digits(number, base=10):
    """Digits of a number, the highest first."""
    if number == 0:
        return [0]
    found = []
    number = abs(number)
    while number > 0:
        number, digit = divmod(number, base)
        found.append(digit)
    return found[::-1]


def collatz(number, most=1000):
    """Steps down to 1; -1 if there are more than `most`."""
    steps = 0
    while number != 1:
        if steps == most:
            return -1
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def binomial(total, chosen):
    if chosen < 0 or chosen > total:
        return 0
    result = 1
    for index in range(chosen):
        result = result * (total - index) // (index + 1)
    return result
