"""Rooms and meetings."""

from spans.sets import complement, normalise


def rooms_needed(meetings):
    """Most meetings at one moment; one that ends frees its room for one that begins."""
    changes = []
    for start, end in meetings:
        changes.append((start, 1))
        changes.append((end, -1))
    most = 0
    now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def most_meetings(meetings):
    """Largest set of meetings that one person can attend: always the one that ends first."""
    chosen = []
    free_from = None
    for start, end in sorted(meetings, key=lambda meeting: (meeting[1], meeting[0])):
        if free_from is None or start >= free_from:
            chosen.append((start, end))
            free_from = end
    return chosen


def free_slots(busy, low, high, shortest=1):
    """Gaps between `low` and `high` of at least `shortest` points."""
    return [(start, end) for start, end in complement(normalise(busy), low, high) if end - start >= shortest]


def first_free(busy, size, low=0):
    """Earliest start at or after `low` of a free stretch of `size` points."""
    start = low
    for begin, end in normalise(busy):
        if begin - start >= size:
            return start
        if end > start:
            start = end
    return start


def clashes(meetings):
    """Pairs of indices of meetings that overlap."""
    pairs = []
    for i in range(len(meetings)):
        for j in range(i + 1, len(meetings)):
            if meetings[i][0] < meetings[j][1] and meetings[j][0] < meetings[i][1]:
                pairs.append((i, j))
    return pairs


def coverage(spans, low, high):
    """Percentage of [low, high) that is covered, rounded down."""
    size = high - low
    if size <= 0:
        return 0
    missing = sum(end - start for start, end in complement(normalise(spans), low, high))
    return (size - missing) * 100 // size
