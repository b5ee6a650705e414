"""The search expert: a scripted policy that answers the questions of the synthetic corpus, from any state.

In: the texts of the trajectory so far (question and passages shown) and the step limit. Out: one action. It knows how the
corpus words things (`envs.search.relations`), and nothing of its world. Because it only uses what was shown, whoever
searched before, a handover in mid-episode is no different from its own play; only the steps that are left count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tutelage.envs.action_formats import action_of
from tutelage.envs.search.env import ACTION_FORMAT, DEFAULT_MAX_STEPS
from tutelage.envs.search.relations import MENTION, RELATIONS, Relation, read_value
from tutelage.envs.search.results import read_results
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.types import Action, ParsedCall

AT_A_LOSS: Final = "unknown"
"""Answered to a question that is not of the synthetic corpus."""


class SearchExpert(SingleActPolicy):
    """Follows the chain of a generated question, one name a search.

    think: begin each reply with what was found, in think tags; else replies are the bare action.
    """

    def __init__(self, think: bool = False) -> None:
        self.name = "search_expert"
        self.version = f"search_expert-1{'/think' if think else ''}"
        self.think = think

    def act(self, so_far: PartialTrajectory) -> Action:
        first = so_far.steps[0].observation if so_far.steps else so_far.observation
        asked = read_question(first.text.removeprefix("Question: "))
        if asked is None:
            return self._action("answer", AT_A_LOSS, "I cannot read this question.")
        seen = [*(step.observation.text for step in so_far.steps), so_far.observation.text]
        texts = {passage.title: passage.text for text in seen for passage in read_results(text)}
        reached, relation = _follow(asked, texts)
        thought = f"I start from {reached}." if reached == asked.start else f"That leads to {reached}."
        if relation is None:
            return self._action("answer", reached, thought)
        # The last step is worth nothing without an answer; a name that was reached may be it, by a shorter way.
        limit = int(so_far.task.settings.get("max_steps", DEFAULT_MAX_STEPS))
        if len(so_far.steps) >= limit - 1:
            return self._action("answer", reached, f"{thought} There is no step left to look further.")
        query = next(query for query in _queries(reached, relation) if query not in _searched(so_far))
        return self._action("search", query, f"{thought} I need its {relation.name}.")

    def _action(self, tag: str, content: str, thought: str) -> Action:
        call = ParsedCall(name=tag, arguments={ACTION_FORMAT.tags[tag]: content})
        return action_of(ACTION_FORMAT, call, f"<think>{thought}</think>" if self.think else "")


@dataclass(frozen=True, slots=True)
class Asked:
    """A question taken apart."""

    start: str
    relations: tuple[Relation, ...]
    """From `start` to the answer."""


@lru_cache(maxsize=4096)
def read_question(question: str) -> Asked | None:
    """The chain that a question of the corpus asks for. None: it is not worded like one.

    Example: ``Who is the spouse of the director of the film Silent Harbor?`` -> Silent Harbor, (director, spouse)
    """
    match = re.fullmatch(r"(?:Who|What) is (.+)\?", question.strip())
    readings = (asked for asked, _ in _readings(match[1]) if asked.relations) if match else iter(())
    return next(readings, None)


def _readings(phrase: str) -> Iterator[tuple[Asked, str]]:
    """All ways to read a phrase, each with the type of thing that it names."""
    for entity_type, mention in MENTION.items():
        if match := re.fullmatch(re.escape(mention).replace(re.escape("{}"), r"([A-Z]\w+ [A-Z]\w+)"), phrase):
            yield Asked(match[1], ()), entity_type
    for entity_type, relations in RELATIONS.items():
        for relation in relations:
            for wording in relation.phrases:
                before, _, after = wording.partition("{}")
                if phrase.startswith(before) and phrase.endswith(after) and len(phrase) > len(before) + len(after):
                    inner = phrase[len(before) : len(phrase) - len(after)]
                    for asked, named in _readings(inner):
                        if named == entity_type:
                            yield Asked(asked.start, (*asked.relations, relation)), relation.to


def _follow(asked: Asked, texts: dict[str, str]) -> tuple[str, Relation | None]:
    """How far the passages lead: the name or value reached, and the relation that is still to be looked up."""
    reached = asked.start
    for relation in asked.relations:
        value = read_value(relation, reached, texts[reached]) if reached in texts else None
        if value is None:
            return reached, relation
        reached = value
    return reached, None


def _queries(name: str, relation: Relation) -> Iterator[str]:
    """What to search for, the plainest first; without end."""
    yield name
    yield f"{name} {relation.name}"
    repeated = name
    while True:
        repeated = f"{repeated} {name}"
        yield repeated


def _searched(so_far: PartialTrajectory) -> set[str]:
    return {
        str(step.action.call.arguments.get("query", ""))
        for step in so_far.steps
        if step.action.call is not None and step.action.call.name == "search"
    }
