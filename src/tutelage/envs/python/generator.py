"""Generated problems: level, seed and split in, a problem with its answer out."""

from __future__ import annotations

import random
from typing import Final

from tutelage.envs.python.problems import Problem
from tutelage.envs.python.templates import LEVELS, TEMPLATES, WORD_SLOTS, Template
from tutelage.errors import ConfigError
from tutelage.types import Split, stable_hash

SHARES: Final = {Split.TRAIN: range(8), Split.VALIDATION: range(8, 9), Split.TEST: range(9, 10)}
"""Split -> which tenths of all calculations it draws from. The numbers decide, not the names in the story, so that a
calculation of one split stands in no other."""


def generate_problem(level: str, seed: int, split: Split) -> Problem:
    """The problem of that level, seed and split. Same arguments, same problem, in every process."""
    if level not in LEVELS:
        raise ConfigError.unknown("python problems: level", level, LEVELS)
    templates = [template for template in TEMPLATES if template.level == level]
    rng = random.Random(stable_hash("python problem", level, split.value, seed))
    while True:
        template = rng.choice(templates)
        slots = _draw(template, rng)
        if _tenth(template, slots) not in SHARES[split]:
            continue
        results = template.solve(slots)
        if min(results) >= 0:
            return Problem(text=template.fill(slots), answer=str(results[-1]), judge="integer", kind=level)


def _draw(template: Template, rng: random.Random) -> dict[str, str]:
    slots = {slot: rng.choice(WORD_SLOTS[slot]) for slot in template.word_slots if slot != "other"}
    if "other" in template.word_slots:
        slots["other"] = rng.choice([name for name in WORD_SLOTS["other"] if name != slots["name"]])
    return slots | {slot: str(rng.randint(*bounds)) for slot, bounds in template.ranges.items()}


def _tenth(template: Template, slots: dict[str, str]) -> int:
    return stable_hash(template.text, *(slots[slot] for slot in template.ranges)) % 10
