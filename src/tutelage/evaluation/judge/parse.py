"""A judge's raw answer in, a value or a reason out. Nothing is guessed: no default class, no 0 for what is not there.

JSON is looked for in three places, in order: the whole text; the only fenced block; the last object in the text. An
object that does not end is `truncated`, and nothing is read out of its inside.

    {"explanation": "...", "category": "tool_error"}      tool_error
    ```json ... ```                                       the same
    Here it is: {"category": "tool_error"} Regards        the same
    "tool_error"   ["tool_error"]   null                  schema
    {"category": "bad luck"}                              out_of_range
    {"explanation": "It looked, then                      truncated
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tutelage.types import FailureCategory, UnscoredReason

CATEGORY: Final = "category"
EXPLANATION: Final = "explanation"

_FENCE: Final = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
_DESCRIPTION: Final = re.compile(r"<description>(.*?)</description>", re.DOTALL | re.IGNORECASE)
_DANGLING: Final = re.compile(r",(\s*[}\]])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """What was read out of an answer: a category or a score."""

    value: Any
    explanation: str = ""
    repaired: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Unscored:
    """Why nothing was."""

    reason: UnscoredReason
    detail: str
    """In words that can be shown to the judge."""


def parse_category(text: str, *, finish_reason: str | None = None, repair: bool = False) -> Parsed | Unscored:
    """The answer form ``json``: one object with ``category`` (a key of the taxonomy) and ``explanation``.

    finish_reason: as the server gave it; ``length``, ``content_filter`` and ``refusal`` decide before the text does.
    repair: mend missing brackets and dangling commas where nothing can be read otherwise.
    """
    found = parse_object(text, finish_reason=finish_reason, repair=repair)
    if isinstance(found, Unscored):
        return found
    category = found.value.get(CATEGORY)
    if not isinstance(category, str):
        return _wrong_type(found.value, CATEGORY, "one of the categories as a string")
    label = _label(category)
    if label is None:
        return _unscored(UnscoredReason.OUT_OF_RANGE, f"{category!r:.80} is no category; expected {_known()}")
    return replace(found, value=label)


def parse_line(text: str, *, finish_reason: str | None = None) -> Parsed | Unscored:
    """The answer form ``line``: an explanation in description tags, the category alone on the last line that is not
    empty.

    Example: ``...\\nWrong_Solution `` -> wrong_solution; ``the category is wrong_solution`` -> schema
    """
    ended = _ended(finish_reason)
    if ended is not None:
        return ended
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return _unscored(UnscoredReason.SCHEMA, f"the answer is empty; expected a last line with {_known()}")
    label = _label(lines[-1])
    if label is None:
        one_word = re.fullmatch(r"\w+", lines[-1]) is not None
        return _unscored(
            UnscoredReason.OUT_OF_RANGE if one_word else UnscoredReason.SCHEMA,
            f"the last line is {lines[-1]!r:.80}; expected it to be {_known()}, and nothing else",
        )
    described = _DESCRIPTION.search(text)
    return Parsed(value=label, explanation=described[1].strip() if described else "")


def parse_score(
    text: str, *, low: float, high: float, key: str = "score", finish_reason: str | None = None, repair: bool = False
) -> Parsed | Unscored:
    """A number from `low` to `high`, both included, under `key` of one JSON object.

    Example, 0 to 10: ``{"score": 7}`` -> 7.0; ``{"score": "4/5"}`` -> schema; ``{"score": 11}`` -> out_of_range
    """
    found = parse_object(text, finish_reason=finish_reason, repair=repair)
    if isinstance(found, Unscored):
        return found
    score = found.value.get(key)
    if isinstance(score, bool) or not isinstance(score, int | float):
        return _wrong_type(found.value, key, f"a number from {low:g} to {high:g}")
    if not low <= score <= high:
        return _unscored(UnscoredReason.OUT_OF_RANGE, f"{key} is {score}, expected {low:g} to {high:g}")
    return replace(found, value=float(score))


def parse_object(text: str, *, finish_reason: str | None = None, repair: bool = False) -> Parsed | Unscored:
    """The one JSON object of an answer as `value`, its ``explanation`` taken along."""
    ended = _ended(finish_reason)
    if ended is not None and not (repair and ended.reason is UnscoredReason.TRUNCATED):
        return ended
    found = _find(text.strip())
    if repair and isinstance(found, Unscored) and found.reason is not UnscoredReason.SCHEMA:
        mended = _mended(text.strip())
        found = found if mended is None else Parsed(value=mended, repaired=True)
    if isinstance(found, Parsed):
        said = found.value.get(EXPLANATION)
        return replace(found, explanation=said.strip() if isinstance(said, str) else "")
    return found


def _ended(finish_reason: str | None) -> Unscored | None:
    """What the way an answer ended says before anybody reads it."""
    if finish_reason == "length":
        return _unscored(UnscoredReason.TRUNCATED, "the answer was cut off at the limit of tokens; answer more briefly")
    if finish_reason in ("content_filter", "refusal"):
        return _unscored(UnscoredReason.REFUSED, "the model or its server would not answer")
    return None


def _find(text: str) -> Parsed | Unscored:
    blocks = _FENCE.findall(text)
    for candidate in [text, *(blocks if len(blocks) == 1 else [])]:
        try:
            value = _load(candidate)
        except _NotJson:
            continue
        if isinstance(value, dict):
            return Parsed(value=value)
        return _unscored(UnscoredReason.SCHEMA, f"the JSON value is {_kind(value)}; expected one object")
    return _last_object(text)


def _last_object(text: str) -> Parsed | Unscored:
    last: dict[str, Any] | None = None
    trouble = "there is no JSON object in the answer"
    start = text.find("{")
    while start >= 0:
        end = _end_of_object(text, start)
        if end is None:
            return _unscored(UnscoredReason.TRUNCATED, "a JSON object begins in the answer and does not end")
        try:
            last = _load(text[start:end])
        except _NotJson as error:
            trouble = f"what stands in braces is no valid JSON ({error})"  # Or it is prose, or another language.
        start = text.find("{", end)
    if last is None:
        return _unscored(UnscoredReason.NO_JSON, f"{trouble}; expected one object and nothing else")
    return Parsed(value=last)


def _end_of_object(text: str, start: int) -> int | None:
    """One past the brace that closes the one at `start`, strings passed over. None: nothing closes it."""
    depth, in_string, index = 0, False, start
    while index < len(text):
        char = text[index]
        if in_string:
            index += char == "\\"  # The next character is escaped.
            in_string = char != '"'
        elif char == '"':
            in_string = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
            if depth == 0:
                return index + 1
        index += 1
    return None


class _NotJson(ValueError):
    pass


def _load(text: str) -> Any:
    """Strict JSON: no NaN, no key twice."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _NotJson(str(error)) from None


def _refuse_constant(name: str) -> Any:
    raise _NotJson(f"{name} is no JSON")


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _NotJson(f"key {key!r} twice")
        found[key] = value
    return found


def _mended(text: str) -> dict[str, Any] | None:
    """The text from its first brace on, with what is open closed and commas before a bracket gone, if that is JSON."""
    start = text.find("{")
    if start < 0:
        return None
    text = text[start:].removesuffix("```").rstrip()
    open_brackets: list[str] = []
    in_string, index = False, 0
    while index < len(text):
        char = text[index]
        if in_string:
            index += char == "\\"
            in_string = char != '"'
        elif char == '"':
            in_string = True
        elif char in "{[":
            open_brackets.append("}" if char == "{" else "]")
        elif char in "}]" and open_brackets:
            open_brackets.pop()
        index += 1
    closed = text + ('"' if in_string else "") + "".join(reversed(open_brackets))
    try:
        value = _load(_DANGLING.sub(r"\1", closed))
    except _NotJson:
        return None
    return value if isinstance(value, dict) else None


def _label(text: str) -> FailureCategory | None:
    try:
        return FailureCategory(text.strip().lower())
    except ValueError:
        return None


def _known() -> str:
    return f"one of: {', '.join(FailureCategory)}"


def _wrong_type(found: Mapping[str, Any], key: str, expected: str) -> Unscored:
    if key not in found:
        return _unscored(UnscoredReason.SCHEMA, f"the object has no {key!r}; expected {expected}")
    return _unscored(UnscoredReason.SCHEMA, f"{key!r} is {_kind(found[key])}; expected {expected}")


def _kind(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "no finite number"
    names = {str: "a string", list: "an array", dict: "an object", bool: "true or false", type(None): "null"}
    return f"{names.get(type(value), 'a number')} ({json.dumps(value)[:60]})"


def _unscored(reason: UnscoredReason, detail: str) -> Unscored:
    return Unscored(reason=reason, detail=detail)
