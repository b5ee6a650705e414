"""Sets of intervals: sorted lists in which no two touch."""

from spans.basic import overlap, touches


def normalise(spans):
    """Sort, and join what overlaps or lies side by side."""
    result = []
    for span in sorted(spans):
        if result and touches(result[-1], span):
            start, end = result[-1]
            result[-1] = (start, max(end, span[1]))
        else:
            result.append(tuple(span))
    return result


def union(first, second):
    return normalise(list(first) + list(second))


def intersection(first, second):
    """Common parts of two sets, in one walk over both."""
    result = []
    i = 0
    j = 0
    while i < len(first) and j < len(second):
        common = overlap(first[i], second[j])
        if common is not None:
            result.append(common)
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return result


def difference(first, second):
    """What is in the first set and not in the second."""
    result = []
    for start, end in first:
        for low, high in second:
            if high <= start or low >= end:
                continue
            if low > start:
                result.append((start, low))
            start = max(start, high)
            if start >= end:
                break
        if start < end:
            result.append((start, end))
    return result


def complement(spans, low=0, high=100):
    """What is missing between `low` and `high`."""
    return difference([(low, high)], spans)


def total(spans):
    """Number of points."""
    return sum(end - start for start, end in normalise(spans))


def find(spans, point):
    """Index of the interval that holds a point, by halving; -1 if there is none."""
    low = 0
    high = len(spans) - 1
    while low <= high:
        middle = (low + high) // 2
        start, end = spans[middle]
        if point < start:
            high = middle - 1
        elif point >= end:
            low = middle + 1
        else:
            return middle
    return -1
