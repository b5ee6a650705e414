"""Names in one case and another."""


def words_of(name):
    """The words of a name, lower case: HttpServer2Go, http_server and http-server all split."""
    words = []
    current = ""
    for index, char in enumerate(name):
        if char in "_- ":
            if current:
                words.append(current)
            current = ""
            continue
        previous = name[index - 1] if index > 0 else ""
        if char.isupper() and previous and not previous.isupper():
            if current:
                words.append(current)
            current = ""
        current += char.lower()
    if current:
        words.append(current)
    return words


def snake_case(name):
    return "_".join(words_of(name))


def kebab_case(name):
    return "-".join(words_of(name))


def camel_case(name, upper_first=False):
    """camelCase, or CamelCase with `upper_first`."""
    words = words_of(name)
    if not words:
        return ""
    first = words[0].capitalize() if upper_first else words[0]
    return first + "".join(word.capitalize() for word in words[1:])


def title_case(text, small=("a", "an", "and", "of", "the")):
    """Capital letters for all words but the small ones; the first word always gets one."""
    titled = []
    for index, word in enumerate(text.split()):
        if index > 0 and word.lower() in small:
            titled.append(word.lower())
        else:
            titled.append(word[:1].upper() + word[1:].lower())
    return " ".join(titled)


def slug(text, limit=40):
    """Letters and digits joined by single dashes, cut at a dash where the limit allows."""
    parts = []
    current = ""
    for char in text.lower():
        if char.isalnum():
            current += char
        elif current:
            parts.append(current)
            current = ""
    if current:
        parts.append(current)
    result = ""
    for part in parts:
        longer = part if not result else result + "-" + part
        if len(longer) > limit:
            break
        result = longer
    if not result and parts:
        result = parts[0][:limit]
    return result
