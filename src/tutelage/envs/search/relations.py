"""What the synthetic corpus says of things: relations, the sentences that state them, the phrases that ask for them.

Out: `RELATIONS` by type of entity. A sentence states one relation; `{e}` is the entity that its passage is about, `{v}` the
value. A phrase names a value within a question; phrases nest.

Example: ``the spouse of {}`` on ``the director of {}`` on ``the film Silent Harbor`` asks over two hops
  the spouse of the director of the film Silent Harbor
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tutelage.envs.search.names import TYPES, words

CLOSED_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "early_year": tuple(str(year) for year in range(1900, 1940)),
    "late_year": tuple(str(year) for year in range(1950, 2000)),
    "profession": words(
        "banker baker carpenter chemist dancer doctor farmer gardener judge lawyer miner nurse painter pilot poet reporter "
        "sailor sculptor singer surgeon tailor weaver"
    ),
    "river": words("Arda Belva Corin Dreva Elbra Fessa Garon Horva Isen Jarna Kolma Lenta Morava Nera Orva Pruta"),
    "currency": words("crown dinar dollar florin franc krona lira mark peseta pound ruble schilling taler zloty"),
}
"""Values without a passage of their own. All splits share them."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Something that is said of every entity of one type."""

    name: str
    to: str
    """Type of entity, or kind of closed value."""
    sentences: tuple[str, ...]
    phrases: tuple[str, ...]

    @property
    def hops_on(self) -> bool:
        """Whether the value has a passage, from which a chain goes on."""
        return self.to in TYPES


RELATIONS: Final[dict[str, tuple[Relation, ...]]] = {
    "film": (
        Relation(
            "director",
            "person",
            ("{e} is a film directed by {v}.", "{e} is a film that {v} directed."),
            ("the director of {}", "the person who directed {}"),
        ),
        Relation(
            "star",
            "person",
            ("It stars {v}.", "{v} plays the main part."),
            ("the star of {}", "the person who plays the main part in {}"),
        ),
        Relation(
            "release",
            "late_year",
            ("It came out in {v}.", "It was first shown in {v}."),
            ("the year when {} came out", "the release year of {}"),
        ),
    ),
    "book": (
        Relation(
            "author",
            "person",
            ("{e} is a book written by {v}.", "{e} is a book that {v} wrote."),
            ("the author of {}", "the person who wrote {}"),
        ),
        Relation(
            "publication",
            "late_year",
            ("It was published in {v}.", "It was first printed in {v}."),
            ("the year when {} was published", "the publication year of {}"),
        ),
    ),
    "company": (
        Relation(
            "founder",
            "person",
            ("{e} is a company founded by {v}.", "{e} is a company that {v} founded."),
            ("the founder of {}", "the person who founded {}"),
        ),
        Relation(
            "seat",
            "town",
            ("Its seat is in {v}.", "It works from {v}."),
            ("the seat of {}", "the town where {} has its seat"),
        ),
        Relation(
            "founding",
            "late_year",
            ("It was founded in {v}.", "It began in {v}."),
            ("the year when {} was founded", "the founding year of {}"),
        ),
    ),
    "person": (
        Relation(
            "profession",
            "profession",
            ("{e} is a {v}.", "{e} works as a {v}."),
            ("the profession of {}", "the work of {}"),
        ),
        Relation(
            "birthplace",
            "town",
            ("{e} was born in {v}.", "The birthplace of {e} is {v}."),
            ("the birthplace of {}", "the town where {} was born"),
        ),
        Relation(
            "birth",
            "early_year",
            ("{e} was born in the year {v}.", "The birth year of {e} is {v}."),
            ("the birth year of {}", "the year when {} was born"),
        ),
        Relation(
            "spouse",
            "person",
            ("{e} is married to {v}.", "The spouse of {e} is {v}."),
            ("the spouse of {}", "the person married to {}"),
        ),
        Relation(
            "teacher",
            "person",
            ("{e} was taught by {v}.", "The teacher of {e} was {v}."),
            ("the teacher of {}", "the person who taught {}"),
        ),
    ),
    "town": (
        Relation(
            "country",
            "country",
            ("{e} is a town in {v}.", "{e} is a town that lies in {v}."),
            ("the country of {}", "the country where {} lies"),
        ),
        Relation(
            "mayor",
            "person",
            ("Its mayor is {v}.", "{v} is its mayor."),
            ("the mayor of {}", "the person who leads {}"),
        ),
        Relation(
            "river",
            "river",
            ("It lies on the river {v}.", "The river {v} flows through it."),
            ("the river of {}", "the river that flows through {}"),
        ),
    ),
    "country": (
        Relation(
            "capital",
            "town",
            ("{e} is a country with the capital {v}.", "{e} is a country that is led from {v}."),
            ("the capital of {}", "the capital town of {}"),
        ),
        Relation(
            "currency",
            "currency",
            ("Its money is the {v}.", "People pay there with the {v}."),
            ("the money of {}", "the currency of {}"),
        ),
    ),
}
"""Type of entity -> its relations. The first one's sentence opens the passage and says of what type the thing is."""

MENTION: Final[dict[str, str]] = {
    entity_type: "{}" if entity_type == "person" else f"the {entity_type} {{}}" for entity_type in TYPES
}
"""Type of entity -> how a question names it. Example: ``the film Silent Harbor``"""

LISTS: Final[dict[tuple[str, str], tuple[str, str]]] = {
    ("film", "release"): ("Films of {v}", "{names} came out in {v}."),
    ("book", "publication"): ("Books of {v}", "{names} came to the shops in {v}."),
    ("person", "birthplace"): ("People of {v}", "{names} were born in {v}."),
}
"""(type, relation) -> title and sentence of passages that only list names: they share words with many queries."""


def opening(relation: Relation) -> str:
    """How a question for this relation begins."""
    return "Who is" if relation.to == "person" else "What is"


def read_value(relation: Relation, title: str, text: str) -> str | None:
    """What a passage about `title` states of the relation. None: it does not say.

    Example: ``spouse``, ``Ada Kell``, ``Ada Kell is married to Leo Lund.`` -> ``Leo Lund``
    """
    for pattern in _patterns(relation):
        if match := re.search(pattern.replace("TITLE", re.escape(title)), text):
            return match[1]
    return None


@lru_cache(maxsize=64)
def _patterns(relation: Relation) -> tuple[str, ...]:
    """The relation's sentences as patterns with one group; TITLE stands for the escaped title."""
    if relation.hops_on:
        value = r"([A-Z]\w+ [A-Z]\w+)"
    else:
        value = "({})".format("|".join(CLOSED_VALUES[relation.to]))
    return tuple(
        re.escape(sentence).replace(re.escape("{e}"), "TITLE").replace(re.escape("{v}"), value)
        for sentence in relation.sentences
    )
