"""Two intervals."""


def check(span):
    """The span itself; ValueError if it is empty or reversed."""
    start, end = span
    if start >= end:
        raise ValueError("an interval needs start < end")
    return (start, end)


def length(span):
    return span[1] - span[0]


def contains(span, point):
    return span[0] <= point < span[1]


def encloses(outer, inner):
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def overlap(first, second):
    """The common part, or None."""
    start = max(first[0], second[0])
    end = min(first[1], second[1])
    if start < end:
        return (start, end)
    return None


def touches(first, second):
    """Whether two intervals overlap or lie side by side."""
    return first[0] <= second[1] and second[0] <= first[1]


def gap(first, second):
    """Number of points between two intervals; 0 if they touch."""
    if first[0] > second[0]:
        first, second = second, first
    return max(0, second[0] - first[1])


def shift(span, offset, low=0):
    """Moved by an offset, but never below `low`."""
    start = max(low, span[0] + offset)
    return (start, start + span[1] - span[0])


def split(span, size):
    """Pieces of at most `size` points, from the left."""
    if size < 1:
        raise ValueError("size must be at least 1")
    start, end = span
    pieces = []
    while start < end:
        stop = min(start + size, end)
        pieces.append((start, stop))
        start = stop
    return pieces
