import pytest

from gridmath.matrix import determinant, identity, minor, neighbours, power, product, rotate, spiral, transpose

GRID = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_identity():
    assert identity(2) == [[1, 0], [0, 1]]


def test_transpose():
    assert transpose([[1, 2, 3], [4, 5, 6]]) == [[1, 4], [2, 5], [3, 6]]


def test_product():
    assert product([[1, 2], [3, 4]], [[5, 6], [7, 8]]) == [[19, 22], [43, 50]]


def test_product_of_other_sizes():
    assert product([[1, 2, 3]], [[1], [1], [1]]) == [[6]]


def test_product_refuses():
    with pytest.raises(ValueError):
        product([[1, 2]], [[1, 2]])


@pytest.mark.parametrize(("exponent", "number"), [(0, 0), (1, 1), (2, 1), (5, 5), (10, 55)])
def test_power_gives_fibonacci_numbers(exponent, number):
    assert power([[1, 1], [1, 0]], exponent)[0][1] == number


def test_minor():
    assert minor(GRID, 0, 1) == [[4, 6], [7, 9]]
    assert minor(GRID, 2, 2) == [[1, 2], [4, 5]]


def test_determinant():
    assert determinant([[7]]) == 7
    assert determinant([[1, 2], [3, 4]]) == -2
    assert determinant([[2, 0, 1], [1, 3, 2], [1, 1, 4]]) == 18


def test_rotate():
    assert rotate([[1, 2], [3, 4]]) == [[3, 1], [4, 2]]
    assert rotate([[1, 2, 3]]) == [[1], [2], [3]]


def test_rotate_often():
    assert rotate([[1, 2], [3, 4]], 2) == [[4, 3], [2, 1]]
    assert rotate([[1, 2], [3, 4]], 4) == [[1, 2], [3, 4]]
    assert rotate([[1, 2], [3, 4]], -1) == [[2, 4], [1, 3]]


def test_spiral():
    assert spiral(GRID) == [1, 2, 3, 6, 9, 8, 7, 4, 5]


def test_spiral_of_a_row_and_a_column():
    assert spiral([[1, 2, 3]]) == [1, 2, 3]
    assert spiral([[1], [2], [3]]) == [1, 2, 3]


def test_spiral_of_a_rectangle():
    assert spiral([[1, 2], [3, 4], [5, 6], [7, 8]]) == [1, 2, 4, 6, 8, 7, 5, 3]


def test_spiral_of_two_rows():
    assert spiral([[1, 2, 3, 4], [5, 6, 7, 8]]) == [1, 2, 3, 4, 8, 7, 6, 5]


def test_neighbours():
    assert neighbours(GRID, 1, 1) == [2, 4, 6, 8]
    assert neighbours(GRID, 0, 0) == [2, 4]
    assert neighbours(GRID, 2, 2) == [6, 8]


def test_neighbours_with_corners():
    assert neighbours(GRID, 1, 1, corners=True) == [1, 2, 3, 4, 6, 7, 8, 9]
    assert neighbours(GRID, 0, 2, corners=True) == [2, 5, 6]
