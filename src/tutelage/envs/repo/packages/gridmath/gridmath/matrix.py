"""Matrices as lists of rows."""


def identity(size):
    return [[1 if row == column else 0 for column in range(size)] for row in range(size)]


def transpose(matrix):
    return [list(column) for column in zip(*matrix)]


def product(first, second):
    if len(first[0]) != len(second):
        raise ValueError("the sizes do not fit")
    columns = transpose(second)
    return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in first]


def power(matrix, exponent):
    """By repeated squaring."""
    result = identity(len(matrix))
    while exponent > 0:
        if exponent % 2 == 1:
            result = product(result, matrix)
        matrix = product(matrix, matrix)
        exponent //= 2
    return result


def minor(matrix, row, column):
    """Without one row and one column."""
    return [line[:column] + line[column + 1 :] for index, line in enumerate(matrix) if index != row]


def determinant(matrix):
    """By the first row."""
    if len(matrix) == 1:
        return matrix[0][0]
    total = 0
    for column, value in enumerate(matrix[0]):
        sign = -1 if column % 2 == 1 else 1
        total += sign * value * determinant(minor(matrix, 0, column))
    return total


def rotate(matrix, turns=1):
    """Turned to the right by quarter turns."""
    for _ in range(turns % 4):
        matrix = [list(row) for row in zip(*matrix[::-1])]
    return matrix


def spiral(matrix):
    """All values, from the outside in, clockwise from the top left."""
    values = []
    top, left = 0, 0
    bottom, right = len(matrix) - 1, len(matrix[0]) - 1
    while top <= bottom and left <= right:
        values += [matrix[top][column] for column in range(left, right + 1)]
        values += [matrix[row][right] for row in range(top + 1, bottom + 1)]
        if top < bottom and left < right:
            values += [matrix[bottom][column] for column in range(right - 1, left - 1, -1)]
            values += [matrix[row][left] for row in range(bottom - 1, top, -1)]
        top += 1
        left += 1
        bottom -= 1
        right -= 1
    return values


def neighbours(matrix, row, column, corners=False):
    """Values beside a place, in the order of reading."""
    found = []
    for i in range(row - 1, row + 2):
        for j in range(column - 1, column + 2):
            inside = 0 <= i < len(matrix) and 0 <= j < len(matrix[0])
            straight = i == row or j == column
            if inside and (i, j) != (row, column) and (corners or straight):
                found.append(matrix[i][j])
    return found
