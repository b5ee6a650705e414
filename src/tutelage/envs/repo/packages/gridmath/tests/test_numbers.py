import pytest

from gridmath.numbers import binomial, collatz, digits, divisors, factors, gcd, is_prime, lcm, root


def test_gcd():
    assert gcd(12, 18) == 6
    assert gcd(7, 0) == 7
    assert gcd(-4, 6) == 2


def test_lcm():
    assert lcm(4, 6) == 12
    assert lcm(-4, 6) == 12
    assert lcm(0, 5) == 0
    assert lcm(5, 0) == 0


def test_primes_below_thirty():
    assert [number for number in range(-2, 30) if is_prime(number)] == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]


@pytest.mark.parametrize(
    ("number", "found"), [(1, []), (2, [2]), (12, [2, 2, 3]), (49, [7, 7]), (97, [97]), (360, [2, 2, 2, 3, 3, 5])]
)
def test_factors(number, found):
    assert factors(number) == found


def test_factors_refuses():
    with pytest.raises(ValueError):
        factors(0)


def test_divisors():
    assert divisors(12) == [1, 2, 3, 4, 6, 12]
    assert divisors(16) == [1, 2, 4, 8, 16]
    assert divisors(1) == [1]


@pytest.mark.parametrize(("number", "expected"), [(0, 0), (1, 1), (3, 1), (4, 2), (99, 9), (100, 10)])
def test_root(number, expected):
    assert root(number) == expected


def test_cube_root():
    assert root(27, degree=3) == 3
    assert root(26, degree=3) == 2


def test_root_refuses():
    with pytest.raises(ValueError):
        root(-1)


def test_digits():
    assert digits(1905) == [1, 9, 0, 5]
    assert digits(-12) == [1, 2]
    assert digits(0) == [0]


def test_digits_in_binary():
    assert digits(10, base=2) == [1, 0, 1, 0]


def test_collatz():
    assert collatz(1) == 0
    assert collatz(6) == 8
    assert collatz(27) == 111


def test_collatz_gives_up():
    assert collatz(27, most=110) == -1
    assert collatz(27, most=111) == 111


@pytest.mark.parametrize(("total", "chosen", "number"), [(5, 2, 10), (5, 0, 1), (5, 5, 1), (5, 6, 0), (5, -1, 0), (10, 3, 120)])
def test_binomial(total, chosen, number):
    assert binomial(total, chosen) == number
