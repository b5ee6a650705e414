import pytest

from gridmath.poly import add, degree, derivative, divide, evaluate, integer_roots, multiply, show, trim


def test_trim():
    assert trim([1, 0, 2, 0, 0]) == [1, 0, 2]
    assert trim([0]) == []


def test_degree():
    assert degree([1, 2, 3]) == 2
    assert degree([0, 0]) == -1


def test_add():
    assert add([1, 2], [3, 4, 5]) == [4, 6, 5]
    assert add([1, 2, 3], [3]) == [4, 2, 3]


def test_add_cancels():
    assert add([1, 2], [0, -2]) == [1]


def test_multiply():
    assert multiply([-1, 1], [1, 1]) == [-1, 0, 1]
    assert multiply([2], [1, 2, 3]) == [2, 4, 6]


def test_multiply_by_zero():
    assert multiply([], [1, 2]) == []
    assert multiply([1, 2], []) == []


def test_evaluate():
    assert evaluate([2, -3, 1], 5) == 12
    assert evaluate([], 3) == 0


def test_derivative():
    assert derivative([5, 3, 2, 1]) == [3, 4, 3]
    assert derivative([7]) == []


def test_derivative_twice():
    assert derivative([5, 3, 2, 1], times=2) == [4, 6]
    assert derivative([5, 3], times=0) == [5, 3]


def test_divide():
    assert divide([2, -3, 1], 1) == ([-2, 1], 0)
    assert divide([2, -3, 1], 3) == ([0, 1], 2)


def test_integer_roots():
    assert integer_roots([2, -3, 1]) == [1, 2]
    assert integer_roots([100, 0, -1]) == [-10, 10]
    assert integer_roots([-12, 1], low=0, high=12) == [12]


@pytest.mark.parametrize(
    ("poly", "text"),
    [
        ([2, -3, 1], "x^2 - 3x + 2"),
        ([], "0"),
        ([0, -1], "-x"),
        ([1, 1], "x + 1"),
        ([-1], "-1"),
        ([0, 0, 0, 4], "4x^3"),
        ([-5, 0, -1], "-x^2 - 5"),
    ],
)
def test_show(poly, text):
    assert show(poly) == text


def test_show_with_name():
    assert show([0, 2], "t") == "2t"
