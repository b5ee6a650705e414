"""Shopping tasks: goals over a generated catalogue, or those of the original's files.

Goals, price bounds and splits are made once from one seed and stand in the tasks, so that no worker draws its own. The
splits are disjoint by target product: 60 % of the targets are for training, 15 % for validation, 25 % for testing. The
goals of a split go round its targets, so that the first ones ask for as many different products as there are.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tutelage.envs.shop.catalogue import Catalogue, Item
from tutelage.envs.shop.env import DEFAULT_MAX_STEPS, catalogue_of, task_hash
from tutelage.envs.shop.files import Request, read_requests
from tutelage.envs.shop.goals import (
    MAX_VARIANTS,
    NO_BOUND,
    Goal,
    goals_of_item,
    make_goal,
    nth_choice,
    num_goals_of_item,
    num_option_choices,
    option_values,
    price_bound,
    with_price,
)
from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.base import split_named
from tutelage.types import Split, Task, stable_hash

GOALS: Final = {"generated": ("title", "any"), "files": ("human", "synthetic")}
"""Source of the catalogue -> kinds of goals that it has; the first is the usual one."""

DEFAULT_COUNT: Final = 120
"""Tasks if no number is given."""

SPLIT_ENDS: Final = {Split.TRAIN: 0.60, Split.VALIDATION: 0.75, Split.TEST: 1.0}
"""Where each split ends in the shuffled targets, as a share of them."""


class ShopTasks:
    """Tasks of the shop.

    num_products: size of a generated catalogue (1,000 if not given), or how many records of the files to read (all).
    seed: of the catalogue, the prices, the goals and the splits.
    source: `generated`, or `files` for the original's files in the folder `root`.
    goals: over a generated catalogue `title`, which asks for attributes that titles name, or `any`, which asks for at least
      one that only the Features page names; over files `human` or `synthetic`.
    max_steps: of an episode.
    page_size, strict_search, show_chosen, show_attributes: how the shop behaves; see `pages.Site`.

    Task ids: ``shop-n1000-s0-title-train-000123``, with ``files`` in the place of the size where files are read.
    """

    def __init__(
        self,
        num_products: int | None = None,
        seed: int = 0,
        source: str = "generated",
        root: str | Path | None = None,
        goals: str | None = None,
        max_steps: int = DEFAULT_MAX_STEPS,
        page_size: int = 10,
        strict_search: bool = True,
        show_chosen: bool = False,
        show_attributes: bool = False,
    ) -> None:
        if source not in GOALS:
            raise ConfigError.unknown("shop tasks: source", source, GOALS)
        goals = GOALS[source][0] if goals is None else goals
        if goals not in GOALS[source]:
            raise ConfigError.unknown(f"shop tasks: goals of source '{source}'", goals, GOALS[source])
        if (source == "files") != (root is not None):
            raise ConfigError(
                f"shop tasks: source '{source}' with root {root!r}.\n"
                "  Give a root with source 'files' (where they are), and none with 'generated'."
            )
        for name, value in (("max_steps", max_steps), ("page_size", page_size)):
            if value < 1:
                raise ConfigError(f"shop tasks: {name} is {value}, expected at least 1.")
        if num_products is not None and num_products < 1:
            raise ConfigError(f"shop tasks: num_products is {num_products}, expected at least 1.")
        self.seed = seed
        self.goals = goals
        self.root = None if root is None else Path(root)
        self._world: dict[str, Any] = (
            {"catalogue_seed": seed, "num_products": num_products or 1000}
            if root is None
            else {"root": str(root), "price_seed": seed} | ({"num_products": num_products} if num_products else {})
        )
        size = f"n{num_products or 1000}" if root is None else f"files{num_products or ''}"
        self._label = f"shop-{size}-s{seed}-{goals}"
        site = {
            "page_size": (page_size, 10),
            "strict_search": (strict_search, True),
            "show_chosen": (show_chosen, False),
            "show_attributes": (show_attributes, False),
        }
        self._shared = {"max_steps": max_steps} | {n: value for n, (value, usual) in site.items() if value != usual}

    def load(self, split: Split | str, start: int = 0, count: int | None = None) -> list[Task]:
        """Tasks start, start + 1, ... of a split. There may be fewer than asked for.

        count: None takes 120. Raises FormatError if the split has no goal at all.
        """
        split = split_named(split)
        if start < 0 or (count is not None and count < 1):
            raise ConfigError(
                f"shop tasks: start {start} and count {count}, expected start >= 0 and count >= 1 or none."
            )
        goals = self._goals[split]
        if not goals:
            there = ", ".join(f"{len(found)} of {name.value}" for name, found in self._goals.items() if found)
            raise FormatError(f"{self._label}: no goal of split '{split.value}'; there are {there or 'none'}.")
        end = min(len(goals), start + (DEFAULT_COUNT if count is None else count))
        return [self._task(split, index) for index in range(start, end)]

    def report(self) -> str:
        """What there is, in one line, e.g. ``1000 products; goals: 4710 train, 1180 validation, 1961 test``."""
        goals = ", ".join(f"{len(found)} {split.value}" for split, found in self._goals.items())
        return f"{len(self._catalogue)} products; goals: {goals}"

    def _task(self, split: Split, index: int) -> Task:
        item_id, variant = self._goals[split][index]
        item = self._catalogue[item_id]
        goal = self._goals_of(item)[variant]
        return Task(
            task_id=f"{self._label}-{split.value}-{index:06d}",
            env="shop",
            goal=goal.instruction,
            split=split,
            kind=item.category,
            settings={
                **self._world,
                "goal": goal.to_json(),
                "content_hash": task_hash(self._catalogue, goal),
                **self._shared,
            },
        )

    @cached_property
    def _catalogue(self) -> Catalogue:
        return catalogue_of(self._world)

    @cached_property
    def _requests(self) -> dict[str, list[Request]]:
        """Id of the target -> what the files ask for."""
        assert self.root is not None
        requests = read_requests(self.root, self.goals)
        return {item_id: found for item_id, found in requests.items() if item_id in self._catalogue}

    @cached_property
    def _goals(self) -> dict[Split, list[tuple[str, int]]]:
        """Split -> (target, number of the goal among those of the target), round after round."""
        ids = [item.item_id for item in self._catalogue.items if self.root is None or item.item_id in self._requests]
        targets = sorted(ids, key=lambda item_id: stable_hash("shop split", self.seed, item_id))
        numbers = {item_id: self._num_goals(self._catalogue[item_id]) for item_id in targets}
        goals: dict[Split, list[tuple[str, int]]] = {}
        start = 0
        for split, share in SPLIT_ENDS.items():
            end = round(share * len(targets))
            most = max((numbers[item_id] for item_id in targets[start:end]), default=0)
            goals[split] = [(i, n) for n in range(most) for i in targets[start:end] if n < numbers[i]]
            start = end
        return goals

    def _num_goals(self, item: Item) -> int:
        if self.root is None:
            return num_goals_of_item(item, self.goals)
        return sum(self._num_variants(item, request) for request in self._requests[item.item_id])

    def _goals_of(self, item: Item) -> Sequence[Goal]:
        if self.root is None:
            return goals_of_item(item, self.goals, self.seed)
        return [goal for n, one in enumerate(self._requests[item.item_id]) for goal in self._asked(item, one, n)]

    def _num_variants(self, item: Item, request: Request) -> int:
        return 1 if request.options is not None else min(MAX_VARIANTS, num_option_choices(item))

    def _asked(self, item: Item, request: Request, number: int) -> list[Goal]:
        """The goals of one request: as it stands, or with up to eight different choices of options."""
        rng = random.Random(stable_hash("shop request", self.seed, item.item_id, number))
        if request.options is None:
            chosen = rng.sample(range(num_option_choices(item)), self._num_variants(item, request))
            return [make_goal(item, request.instruction, request.attributes, nth_choice(item, n), rng) for n in chosen]
        bound = price_bound(item.price, rng)
        return [
            Goal(
                item_id=item.item_id,
                instruction=with_price(request.instruction, bound),
                attributes=request.attributes,
                options=option_values(request.options),
                price_upper=NO_BOUND if bound is None else bound,
            )
        ]
