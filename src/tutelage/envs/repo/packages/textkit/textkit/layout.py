"""Lines of a given width."""


def wrap(text, width=20):
    """Break a text between words so that no line is longer than `width`; longer words are broken."""
    if width < 1:
        raise ValueError("width must be at least 1")
    lines = []
    line = ""
    for word in text.split():
        while len(word) > width:
            if line:
                lines.append(line)
                line = ""
            lines.append(word[:width])
            word = word[width:]
        if not word:
            continue
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line = line + " " + word
        else:
            lines.append(line)
            line = word
    if line:
        lines.append(line)
    return lines


def justify(words, width):
    """One line of exactly `width` characters; spare spaces go to the left gaps first."""
    letters = sum(len(word) for word in words)
    if len(words) == 1:
        return words[0] + " " * (width - letters)
    gaps = len(words) - 1
    spaces = width - letters
    if spaces < gaps:
        raise ValueError("the words do not fit")
    each, spare = divmod(spaces, gaps)
    line = words[0]
    for index, word in enumerate(words[1:]):
        extra = 1 if index < spare else 0
        line += " " * (each + extra) + word
    return line


def center(text, width, fill=" "):
    """Text in the middle; a spare character goes to the right."""
    missing = width - len(text)
    if missing <= 0:
        return text
    left = missing // 2
    return fill * left + text + fill * (missing - left)


def columns(items, count=2, gap=2):
    """Items in `count` columns, filled line by line, each column as wide as its widest item."""
    widths = [0] * count
    for index, item in enumerate(items):
        widths[index % count] = max(widths[index % count], len(item))
    lines = []
    for start in range(0, len(items), count):
        row = items[start : start + count]
        cells = [item.ljust(widths[index]) for index, item in enumerate(row)]
        lines.append((" " * gap).join(cells).rstrip())
    return lines


def indent_of(line, tab=4):
    """Width of the white space at the beginning of a line; a tab goes to the next multiple of `tab`."""
    width = 0
    for char in line:
        if char == " ":
            width += 1
        elif char == "\t":
            width += tab - width % tab
        else:
            break
    return width


def dedent(lines):
    """Remove the indent that all lines share; empty lines do not count."""
    indents = [indent_of(line) for line in lines if line.strip()]
    common = min(indents) if indents else 0
    return [line[common:] if line.strip() else "" for line in lines]
