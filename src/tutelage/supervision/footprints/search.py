"""Footprints of search episodes from their texts alone.

In: a stored trajectory. Out: keys read and written per step. A step is its thought and its action, merged.

  query_token:w        w was searched for; stop words are left out
  retrieved_passages   a search brought passages
  passage_entity:e     a passage brought named e: its title, a name in its text, a year or other number
  reasoning_state      the agent thought: there is text before the action
  answer_candidate     an answer was given

A thought reads `retrieved_passages` and `reasoning_state`, a search reads `reasoning_state`, the known entities that occur
in the query and the words searched before; an answer reads both states, and the entities and words that occur in it. A
state is read only once it is known. A search that brings nothing writes no more than its words, and its thought.

Example, each with a thought:
  search "directed film alpha" -> names Jane Doe     reads -
  search "jane doe birthplace" -> names Springfield  reads reasoning_state retrieved_passages passage_entity:jane doe
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tutelage.envs.search.bm25 import STOP_WORDS
from tutelage.envs.search.env import ACTION_FORMAT
from tutelage.envs.search.passages import Passage
from tutelage.envs.search.results import read_results
from tutelage.types import Action, Effect, Footprint, ParsedCall, Trajectory

RETRIEVED: Final = "retrieved_passages"
REASONING: Final = "reasoning_state"
ANSWER: Final = "answer_candidate"
ENTITY: Final = "passage_entity:"
TOKEN: Final = "query_token:"

_WORD: Final = re.compile(r"[^\W_]+")
_OPENING: Final = re.compile("|".join(f"<{tag}>" for tag in ACTION_FORMAT.tags))
_INSIDE_NAMES: Final = frozenset(
    {"al", "bin", "da", "de", "del", "der", "di", "du", "el", "la", "le", "of", "the", "van", "von"}
)
"""Words in small letters that join two parts of one name."""
_OPENERS: Final = STOP_WORDS | {
    "after", "also", "although", "as", "before", "but", "during", "he", "her", "his", "if", "it", "its", "one", "she", "since",
    "that", "their", "then", "there", "these", "they", "this", "those", "two", "until", "while",
}  # fmt: skip
"""Words that have a capital because a sentence begins with them."""
_SHORTENED: Final = frozenset({"dr", "jr", "mr", "mrs", "ms", "sr", "st"})


def search_footprints(trajectory: Trajectory) -> tuple[Footprint, ...]:
    """One footprint per step of a search trajectory. No text makes it raise.

    The effect is `CHANGED` if something was written, `MALFORMED` without an action, else `NO_EFFECT`: a search for stop
    words alone, without a thought, that brought nothing. The reply to the last step is the final observation.
    """
    steps, final = trajectory.steps, trajectory.final_observation
    replies = [step.observation.text for step in steps[1:]] + [final.text if final else ""]
    known: set[str] = set()
    footprints = []
    for index, (step, reply) in enumerate(zip(steps, replies, strict=False)):
        call = _call_of(step.action)
        reads: set[str] = set()
        writes: set[str] = set()
        if call is not None:
            reads, writes = _keys(step.action, call, reply, known)
            known |= writes
        footprints.append(
            Footprint(
                trajectory_id=trajectory.trajectory_id,
                step_index=index,
                reads=frozenset(reads),
                writes=frozenset(writes),
                effect=Effect.MALFORMED if call is None else Effect.CHANGED if writes else Effect.NO_EFFECT,
            )
        )
    return tuple(footprints)


def _keys(action: Action, call: ParsedCall, reply: str, known: set[str]) -> tuple[set[str], set[str]]:
    """What a step reads and writes, given the keys that earlier steps wrote."""
    said = str(next(iter(call.arguments.values()), ""))
    tokens = {TOKEN + word for word in _words(said) if word not in STOP_WORDS}
    thinks = _thinks(action)
    reads = (tokens & known) | _mentioned(said, known) | ({REASONING} & known)
    writes = {REASONING} if thinks else set()
    if thinks or call.name == "answer":
        reads |= {RETRIEVED} & known
    if call.name == "answer":
        return reads, writes | {ANSWER}
    found = read_results(reply)
    writes |= tokens
    if found:
        writes |= {RETRIEVED} | {ENTITY + entity for passage in found for entity in entities_of(passage)}
    return reads, writes


def _call_of(action: Action) -> ParsedCall | None:
    """The call, read from the reply or else from the command alone. None: there is none."""
    if action.command is None:
        return None
    return ACTION_FORMAT.apply(action).call or ACTION_FORMAT.apply(Action.of(action.command)).call


def _thinks(action: Action) -> bool:
    """Whether the reply says something before its action."""
    before = _OPENING.split(action.text, maxsplit=1)[0]
    return bool(re.sub(r"</?think>", "", before).strip())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _mentioned(text: str, known: set[str]) -> set[str]:
    """Keys of the known entities whose words stand in the text, next to each other."""
    entities = {key.removeprefix(ENTITY) for key in known if key.startswith(ENTITY)}
    longest = max((entity.count(" ") + 1 for entity in entities), default=0)
    words = _words(text)
    spans = {" ".join(words[start : start + length]) for start in range(len(words)) for length in range(1, longest + 1)}
    return {ENTITY + entity for entity in spans & entities}


def entities_of(passage: Passage) -> set[str]:
    """Names in a passage, in lower case without punctuation: its title (also without a part in brackets), runs of words
    with a capital, numbers.

    Example: (Emma (novel), It was written by Jane Austen in 1815.) -> emma novel, emma, jane austen, 1815
    """
    titles = {passage.title, re.sub(r"\s*\([^()]*\)\s*$", "", passage.title)}
    found = {" ".join(_words(title)) for title in titles} | set(_names(passage.text))
    return found - {""}


def _names(text: str) -> Iterator[str]:
    run: list[str] = []
    joining: list[str] = []
    """Small words that belong to the name if another part of it follows."""
    end = 0
    for match in _WORD.finditer(text):
        word, between, end = match[0], text[end : match.start()], match.end()
        if not _joins(between, run, word):
            yield from _closed(run)
            run, joining = [], []
        if word[0].isdigit():
            yield from _closed(run)
            run, joining = [], []
            yield word.lower()
        elif word[0].isupper():
            run += [*joining, word.lower()]
            joining = []
        elif run and (word in _INSIDE_NAMES or between in ("'", "’")):
            joining.append(word)
        else:
            yield from _closed(run)
            run, joining = [], []
    yield from _closed(run)


def _joins(between: str, run: list[str], word: str) -> bool:
    """Whether what stands between a run and the next word lets them be one name."""
    if between.strip() in ("", "-", "'", "’"):
        return True
    shortened = bool(run) and (len(run[-1]) == 1 or run[-1] in _SHORTENED)
    return between.strip() == "." and shortened and word.lower() not in _OPENERS


def _closed(run: list[str]) -> Iterator[str]:
    """The finished run as one name, without the words that only open a sentence."""
    start = next((index for index, word in enumerate(run) if word not in _OPENERS), len(run))
    if run[start:]:
        yield " ".join(run[start:])
