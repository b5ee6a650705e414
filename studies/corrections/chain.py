"""The arms of one setting and seed, each as a model folder with the account of what it was trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab import ARM_LEARNING_RATE, DRAW_FACTOR, LEARNING_RATE, START, Data, Lab, filters, take

from tutelage.rendering.load import load_renderer
from tutelage.rollout.switch import Never, UniformStep
from tutelage.selection.budget import match_budget
from tutelage.selection.ledger import select
from tutelage.students import student_path
from tutelage.types import Actor, Trajectory

STRICT_DRAW_FACTOR = 3
"""Games drawn, over N, for the filter over all steps, which drops every episode in which the student got stuck."""

GAMES_PER_ROUND = 5
"""Games, over N, after which the next round of corrections begins."""

MATCHED_DRAW_FACTOR = 4
"""Games drawn, over N, for corrections that hold as many expert steps as N imitation episodes."""


class Chain:
    """The arms of one setting and seed. N imitation games come first; every arm adds N trajectories of the next games."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.n: int = lab.setting.num_episodes
        self.before: Chain | None = None
        if lab.setting.rounds_before:
            earlier = replace(lab.setting, rounds_before=lab.setting.rounds_before - 1)
            self.before = Chain(Lab(earlier, lab.seed, lab.cache))
        self.next_game: int = self.n + lab.setting.rounds_before * GAMES_PER_ROUND * self.n
        self._first: Data | None = None
        self._second: Data | None = None

    def arm(self, name: str) -> tuple[Path, dict[str, Any]]:
        makers: dict[str, Callable[[], tuple[Path, dict[str, Any]]]] = {
            "imitation": self.student,
            "more_training": lambda: self.go_on(name, []),
            "double": lambda: self.go_on(name, [self.second]),
            "corrections": lambda: self.corrected(name, "trained"),
            "corrections_filter_all": lambda: self.corrected(name, "all"),
            "corrections_no_filter": lambda: self.corrected(name, None),
            "corrections_no_mask": lambda: self.corrected(name, "trained", mask="all_steps"),
            "self_rollouts": lambda: self.self_rollouts(name),
            "double_equal_steps": lambda: self.double_equal_steps(name),
            "corrections_equal_steps": lambda: self.corrections_matched(name, "expert_steps"),
            "corrections_equal_tokens": lambda: self.corrections_matched(name, "trained_tokens"),
            "three_rounds": lambda: self.three_rounds(name),
            "scratch_double": lambda: self.from_scratch(name, self.second),
            "scratch_corrections": lambda: self.from_scratch(name, self.corrections("trained")[0]),
        }
        return makers[name]()

    # Data

    @property
    def first(self) -> Data:
        """The N expert episodes that the student imitates."""
        if self._first is None:
            self._first = self.lab.imitation(0, self.n)
        return self._first

    @property
    def second(self) -> Data:
        """N more expert episodes, on the games that the corrections are collected on."""
        if self._second is None:
            self._second = self.lab.imitation(self.next_game, self.n)
        return self._second

    @property
    def behind(self) -> list[Data]:
        """What the student has learnt from: the imitation, and the corrections of the rounds before."""
        if self.before is None:
            return [self.first]
        return [*self.before.behind, self.before.corrections("trained")[0]]

    def draws(self, count: int) -> list[Trajectory]:
        """Corrections, not yet filtered."""
        setting = self.lab.setting
        rule = UniformStep(0, setting.switch_high)
        name = f"corrections-high{setting.switch_high}-t{setting.temperature:g}"
        return self.lab.draw(self.student()[0], rule, self.next_game, count, name)

    def corrections(self, scope: str | None) -> tuple[Data, dict[str, Any]]:
        factor = STRICT_DRAW_FACTOR if scope == "all" else DRAW_FACTOR
        return take(self.draws(int(self.n * factor)), self.n, scope, "corrections")

    # Arms

    def student(self) -> tuple[Path, dict[str, Any]]:
        """Imitation of N expert episodes, from the warmed-up model, or that and rounds of corrections. Arms go on from here."""
        if self.before is not None:
            return self.before.arm("corrections")
        out = self.lab.shared / "student"
        account = self.lab.train(student_path(START), [self.first], self.lab.setting.student_tokens, out, LEARNING_RATE)
        return out, account

    def go_on(
        self, name: str, parts: list[Data], out: Path | None = None, tokens: int | None = None
    ) -> tuple[Path, dict[str, Any]]:
        setting = self.lab.setting
        variant = (
            f"high{setting.switch_high}-t{setting.temperature:g}" if "correct" in name or "round" in name else "any"
        )
        out = out or self.lab.own / variant / name
        account = self.lab.train(
            self.student()[0], [*self.behind, *parts], tokens or setting.arm_tokens, out, ARM_LEARNING_RATE
        )
        return out, account

    def corrected(self, name: str, scope: str | None, mask: str = "expert_steps") -> tuple[Path, dict[str, Any]]:
        data, collection = self.corrections(scope)
        out, account = self.go_on(name, [Data(data.trajectories, mask)])
        return out, {**account, "collection": collection}

    def self_rollouts(self, name: str) -> tuple[Path, dict[str, Any]]:
        """The student's own successful episodes on new games, all steps trained."""
        # A weak student wins few games, so many are drawn; the first N wins are used.
        draws = self.lab.draw(
            self.student()[0], Never(), self.next_game, 5 * self.n, f"self-t{self.lab.setting.temperature:g}"
        )
        data, collection = take(draws, self.n, "trained", "self_rollouts")
        out, account = self.go_on(name, [data])
        return out, {**account, "collection": collection}

    def double_equal_steps(self, name: str) -> tuple[Path, dict[str, Any]]:
        """Fewer imitation episodes: as many expert steps as the N corrections hold."""
        amount = self.corrections("trained")[0].num_expert_steps
        fewer = match_budget(self.second.trajectories, "expert_steps", amount, seed=None)
        return self.go_on(f"{name}-to-corrections", [Data(tuple(fewer))])

    def corrections_matched(self, name: str, unit: str) -> tuple[Path, dict[str, Any]]:
        """More corrections: as many expert steps, or trained tokens, as N imitation episodes hold."""
        renderer = load_renderer(self.student()[0])

        def cost(one: Trajectory) -> int:
            expert = [step for step in one.steps if step.actor is Actor.EXPERT]
            return (
                sum(len(renderer.action_ids(step.action)) for step in expert)
                if unit == "trained_tokens"
                else len(expert)
            )

        drawn = self.draws(int(self.n * MATCHED_DRAW_FACTOR))
        kept = select(drawn, filters("trained", author=Actor.EXPERT)).kept
        amount = sum(map(cost, self.second.trajectories))
        costs = {one.trajectory_id: float(cost(one)) for one in kept}
        chosen = match_budget(kept, unit, amount, seed=None, costs=costs)
        _, collection = take(drawn, len(chosen), "trained", "corrections")
        out, account = self.go_on(name, [Data(tuple(chosen))])
        return out, {**account, "collection": collection}

    def three_rounds(self, name: str) -> tuple[Path, dict[str, Any]]:
        """N / 3 corrections in each of three rounds, collected by the newest student; each trains from the first one."""
        setting = self.lab.setting
        model = self.student()[0]
        gathered: list[Trajectory] = []
        share = self.n // 3
        account: dict[str, Any] = {}
        for index in range(3):
            rule = UniformStep(0, setting.switch_high)
            wanted = share if index < 2 else self.n - 2 * share
            start = self.next_game + index * int(share * DRAW_FACTOR)
            drawn = self.lab.draw(
                model, rule, start, int(wanted * DRAW_FACTOR), f"round{index}-high{setting.switch_high}"
            )
            data, _ = take(drawn, wanted, "trained", "corrections")
            gathered += data.trajectories
            last = index == 2
            out = None if last else self.lab.own / "rounds" / f"round{index}"
            model, account = self.go_on(name, [Data(tuple(gathered))], out, None if last else setting.arm_tokens // 2)
        return model, account

    def from_scratch(self, name: str, data: Data) -> tuple[Path, dict[str, Any]]:
        """From the warmed-up model on all 2N trajectories, with the tokens of the student and of an arm together."""
        setting = self.lab.setting
        out = self.lab.own / "scratch" / name
        tokens = setting.student_tokens + setting.arm_tokens
        return out, self.lab.train(student_path(START), [self.first, data], tokens, out, LEARNING_RATE)
