"""How much two texts have in common."""


def distance(first, second):
    """Least number of inserted, removed and replaced characters between two texts."""
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, start=1):
        above = row[0]
        row[0] = i
        for j, right in enumerate(second, start=1):
            cost = 0 if left == right else 1
            best = min(above + cost, row[j] + 1, row[j - 1] + 1)
            above = row[j]
            row[j] = best
    return row[len(second)]


def common_prefix(texts):
    if not texts:
        return ""
    shortest = min(texts, key=len)
    for index, char in enumerate(shortest):
        for text in texts:
            if text[index] != char:
                return shortest[:index]
    return shortest


def is_palindrome(text):
    """Whether letters and digits read the same from both ends; nothing else counts."""
    chars = [char.lower() for char in text if char.isalnum()]
    low = 0
    high = len(chars) - 1
    while low < high:
        if chars[low] != chars[high]:
            return False
        low += 1
        high -= 1
    return True


def runs(text):
    """Run lengths: aaab is [("a", 3), ("b", 1)]."""
    result = []
    for char in text:
        if result and result[-1][0] == char:
            result[-1] = (char, result[-1][1] + 1)
        else:
            result.append((char, 1))
    return result


def count_overlapping(text, part):
    """How often a part occurs, overlaps included."""
    if not part:
        return 0
    found = 0
    start = text.find(part)
    while start != -1:
        found += 1
        start = text.find(part, start + 1)
    return found


def closest(word, words, limit=2):
    """The word within `limit` edits that is nearest; the first of equals, None if there is none."""
    best = None
    best_distance = limit + 1
    for candidate in words:
        steps = distance(word, candidate)
        if steps < best_distance:
            best = candidate
            best_distance = steps
    return best
