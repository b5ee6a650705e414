"""Durations in seconds."""


def seconds_of(text):
    """Seconds of 1h 5m 30s, 90m or 45."""
    units = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
    total = 0
    number = ""
    for char in text.replace(" ", ""):
        if char.isdigit():
            number += char
        elif char in units and number:
            total += int(number) * units[char]
            number = ""
        else:
            raise ValueError("no duration: " + text)
    if number:
        total += int(number)
    return total


def show(seconds, parts=2):
    """The largest `parts` units that are not zero: 1h 5m."""
    if seconds < 0:
        return "-" + show(-seconds, parts)
    shown = []
    for name, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        number, seconds = divmod(seconds, size)
        if number > 0 and len(shown) < parts:
            shown.append(str(number) + name)
    return " ".join(shown) or "0s"


def clock(minutes, twelve=False):
    """Minutes after midnight as 17:05, or 5:05 pm."""
    hour, minute = divmod(minutes % 1440, 60)
    if not twelve:
        return f"{hour:02d}:{minute:02d}"
    half = "am" if hour < 12 else "pm"
    return f"{(hour - 1) % 12 + 1}:{minute:02d} {half}"


def minutes_of(text):
    """Minutes after midnight of 17:05 or 5:05 pm."""
    time, _, half = text.strip().partition(" ")
    hour, minute = (int(part) for part in time.split(":"))
    if half:
        if not 1 <= hour <= 12:
            raise ValueError("no time: " + text)
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59:
        raise ValueError("no time: " + text)
    return hour * 60 + minute


def round_to(minutes, step=15):
    """To the nearest step; halves go up."""
    return (2 * minutes + step) // (2 * step) * step


def night_minutes(start, end, low=1320, high=360):
    """Minutes of a shift that lie between `low` in the evening and `high` in the morning."""
    if end <= start:
        end += 1440
    return sum(1 for minute in range(start, end) if minute % 1440 >= low or minute % 1440 < high)
