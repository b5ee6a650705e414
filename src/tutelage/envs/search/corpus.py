"""The synthetic corpus: a seeded world of people, films, books, companies, towns and countries, told in short passages.

Every entity has one passage. Further passages only list names, and many names share a word, so that a search brings
more than was sought. Worlds are numbered, without end; those of two splits never have an entity in common.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from tutelage.envs.search.names import TYPES, names
from tutelage.envs.search.passages import Passage, content_hash
from tutelage.envs.search.relations import CLOSED_VALUES, LISTS, MENTION, RELATIONS, Relation, opening
from tutelage.types import Split, stable_hash

SIZES: Final[dict[str, dict[str, int]]] = {
    "small": {"person": 110, "film": 60, "book": 40, "company": 30, "town": 30, "country": 8},
    "large": {"person": 750, "film": 300, "book": 100, "company": 150, "town": 150, "country": 30},
}
"""Size -> entities of each type. The first has about 330 passages, the second about 1,700."""

QUESTIONS: Final = {"small": 60, "large": 3000}
"""Size -> questions that are asked about one world before the next one's turn."""

MOST_LISTED: Final = 6
"""Names in one list."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A question's way: from the entity it names, along relations, to the answer."""

    start: str
    start_type: str
    relations: tuple[Relation, ...]
    path: tuple[str, ...]
    """The entities whose passages state each relation; the first is `start`."""
    answer: str


@dataclass(frozen=True)
class World:
    """Entities and what holds of them."""

    size: str
    split: Split
    seed: int
    number: int
    types: dict[str, str]
    """Entity -> type, in the order of names."""
    facts: dict[tuple[str, str], str]
    """(entity, name of a relation) -> value."""

    @cached_property
    def passages(self) -> tuple[Passage, ...]:
        """Sorted by title."""
        rng = self._rng("passages")
        told = [Passage(name, self._tell(name, rng)) for name in self.types]
        return tuple(sorted([*told, *self._lists()], key=lambda passage: passage.title))

    @cached_property
    def content_hash(self) -> str:
        return content_hash(self.passages)

    def chains(self, hops: int) -> tuple[Chain, ...]:
        """All chains of that length, in a drawn order. No entity comes twice, so that no hop undoes another."""
        if hops not in self._chains:
            found = [
                Chain(name, entity_type, relations, path[:-1], path[-1])
                for name, entity_type in self.types.items()
                for relations, path in self._walks((name,), hops)
            ]
            self._rng("chains", hops).shuffle(found)
            self._chains[hops] = tuple(found)
        return self._chains[hops]

    @cached_property
    def _chains(self) -> dict[int, tuple[Chain, ...]]:
        return {}

    def _rng(self, *purpose: object) -> random.Random:
        return random.Random(stable_hash("search", self.size, self.split, self.seed, self.number, *purpose))

    def _walks(self, path: tuple[str, ...], hops: int) -> Iterator[tuple[tuple[Relation, ...], tuple[str, ...]]]:
        if hops == 0:
            yield (), path
            return
        for relation in RELATIONS[self.types[path[-1]]]:
            value = self.facts[path[-1], relation.name]
            if value not in path and (hops == 1 or relation.hops_on):
                for relations, whole in self._walks((*path, value), hops - 1):
                    yield (relation, *relations), whole

    def _tell(self, name: str, rng: random.Random) -> str:
        first, *others = RELATIONS[self.types[name]]
        rng.shuffle(others)
        return " ".join(
            rng.choice(relation.sentences).format(e=name, v=self.facts[name, relation.name])
            for relation in (first, *others)
        )

    def _lists(self) -> Iterator[Passage]:
        for (entity_type, relation), (title, sentence) in LISTS.items():
            listed: dict[str, list[str]] = {}
            for name, its_type in self.types.items():
                if its_type == entity_type:
                    listed.setdefault(self.facts[name, relation], []).append(name)
            for value, found in listed.items():
                # One name makes no list.
                if len(found) > 1:
                    text = sentence.format(names=_enumerate(found[:MOST_LISTED]), v=value)
                    yield Passage(title.format(v=value), text)


def question_of(chain: Chain, rng: random.Random) -> str:
    """The chain as a question; `rng` draws among the phrases.

    Example: ``Who is the spouse of the director of the film Silent Harbor?``
    """
    phrase = MENTION[chain.start_type].format(chain.start)
    for relation in chain.relations:
        phrase = rng.choice(relation.phrases).format(phrase)
    return f"{opening(chain.relations[-1])} {phrase}?"


# A small world with its passages and chains takes about 2 MB, a large one about 11 MB.
@lru_cache(maxsize=16)
def world_of(size: str, split: Split, seed: int, number: int) -> World:
    """A world by size, split, seed and number; kept, so that all episodes of a process share it."""
    rng = random.Random(stable_hash("search", size, split, seed, number, "world"))
    of_type = {
        entity_type: sorted(rng.sample(names(entity_type, split), SIZES[size][entity_type])) for entity_type in TYPES
    }
    facts: dict[tuple[str, str], str] = {}
    for entity_type in TYPES:
        for name in of_type[entity_type]:
            for relation in RELATIONS[entity_type]:
                choices = of_type[relation.to] if relation.hops_on else CLOSED_VALUES[relation.to]
                facts[name, relation.name] = rng.choice([value for value in choices if value != name])
    _marry(of_type["person"], facts, rng)
    _lay_out(of_type["town"], of_type["country"], facts, rng)
    types = {name: entity_type for entity_type, found in of_type.items() for name in found}
    return World(size, split, seed, number, types, facts)


def _marry(people: list[str], facts: dict[tuple[str, str], str], rng: random.Random) -> None:
    """Being married holds both ways."""
    pairs = rng.sample(people, len(people))
    for one, other in zip(pairs[::2], pairs[1::2], strict=True):
        facts[one, "spouse"], facts[other, "spouse"] = other, one


def _lay_out(towns: list[str], countries: list[str], facts: dict[tuple[str, str], str], rng: random.Random) -> None:
    """Every country has a town, and its capital lies in it."""
    for index, town in enumerate(rng.sample(towns, len(towns))):
        country = countries[index % len(countries)]
        facts[town, "country"] = country
        if index < len(countries):
            facts[country, "capital"] = town


def _enumerate(found: Sequence[str]) -> str:
    *most, last = found
    return f"{', '.join(most)} and {last}"
