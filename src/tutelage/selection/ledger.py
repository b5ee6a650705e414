"""Filters in a row, and where every trajectory went: counts in = kept + dropped by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tutelage.errors import ConfigError
from tutelage.selection.filters import Filter, NoRepetition, Scope, verdict
from tutelage.types import Trajectory, Verdict

BUCKETS: tuple[tuple[int, int], ...] = ((0, 0), (1, 5), (6, 10), (11, 15), (16, 20), (21, 25), (26, 30))
"""First and last K of each row of the table, both included; beyond 30 one row more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bucket:
    """What became of the episodes whose rule drew K in a range."""

    label: str
    """``1-5``; ``31+``."""
    drawn: int
    """Episodes with a drawn K in this range."""
    realised: int
    """Episodes, of any draw, whose switch_index is in this range: no longer uniform, since some end before K."""
    solved: int
    """Of `drawn`: reward of at least 1."""
    kept: int
    """Of `drawn`."""
    expert_steps: int
    """Of `drawn`, kept or not: what the expert was asked for."""

    @property
    def kept_fraction(self) -> float | None:
        """None: nothing was drawn."""
        return self.kept / self.drawn if self.drawn else None

    @property
    def expert_steps_per_kept(self) -> float | None:
        return self.expert_steps / self.kept if self.kept else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Where every trajectory went."""

    num_in: int
    num_kept: int
    dropped: Mapping[str, int]
    """Reason -> trajectories, in the order of the filters."""
    filters: tuple[str, ...]
    k_zero: int
    """Episodes with a drawn K of 0: the same as imitation, counted apart."""
    repetition_drops: Mapping[Scope, int]
    """How many the repetition filter drops under either scope, of those that came to it. Empty: no such filter."""
    buckets: tuple[Bucket, ...]
    """Empty: no episode had a drawn K."""

    def __post_init__(self) -> None:
        assert self.num_in == self.num_kept + sum(self.dropped.values()), self

    def to_json(self) -> dict[str, Any]:
        """The account as plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        """Lines to read aloud, e.g. ``600 in  512 kept  60 not_successful  28 no_expert_steps``."""
        parts = [f"{self.num_in} in", f"{self.num_kept} kept"]
        lines = ["  ".join(parts + [f"{count} {reason}" for reason, count in self.dropped.items()])]
        if self.repetition_drops:
            counts = ", ".join(f"{count} in scope {scope}" for scope, count in self.repetition_drops.items())
            lines.append(f"repetition filter drops {counts}")
        if self.buckets:
            lines.append(f"k_zero {self.k_zero}")
            lines.append(
                f"{'K':>6} {'drawn':>6} {'switched':>9} {'solved':>7} {'kept':>5} {'kept %':>7} {'expert steps/kept':>18}"
            )
        for bucket in self.buckets:
            share = "-" if bucket.kept_fraction is None else f"{100 * bucket.kept_fraction:.1f}"
            cost = "-" if bucket.expert_steps_per_kept is None else f"{bucket.expert_steps_per_kept:.1f}"
            lines.append(
                f"{bucket.label:>6} {bucket.drawn:>6} {bucket.realised:>9} {bucket.solved:>7} {bucket.kept:>5} "
                f"{share:>7} {cost:>18}"
            )
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What was kept, the verdict on each trajectory, and the account."""

    kept: tuple[Trajectory, ...]
    verdicts: tuple[Verdict, ...]
    """One per trajectory, in order: of the filter that dropped it, or of ``all``."""
    ledger: Ledger


def select(trajectories: Iterable[Trajectory], filters: Sequence[Filter]) -> Selection:
    """Pass trajectories through the filters in order; each sees what the ones before kept.

    An attempt that was played again (after a failure, an interruption) is dropped first, as ``superseded``.
    Raises `ConfigError` if a trajectory id is there twice.
    """
    everything = list(trajectories)
    verdicts = _superseded(everything)
    left = [one for one in everything if one.trajectory_id not in verdicts]
    current = list(left)
    repetition: dict[Scope, int] = {}
    for one_filter in filters:
        if isinstance(one_filter, NoRepetition):
            repetition = {scope: _num_drops(replace(one_filter, scope=scope), left) for scope in ("all", "trained")}
        judged = one_filter.judge_all(left)
        assert [one.trajectory_id for one in judged] == [one.trajectory_id for one in left]
        verdicts |= {one.trajectory_id: one for one in judged if not one.keep}
        left = [one for one, judgement in zip(left, judged, strict=True) if judgement.keep]
    verdicts |= {one.trajectory_id: verdict(one, "all") for one in left}
    in_order = tuple(verdicts[one.trajectory_id] for one in everything)
    order = ["superseded", *(one.name for one in filters)]
    dropped = sorted((one for one in in_order if not one.keep), key=lambda one: order.index(one.filter))
    ledger = Ledger(
        num_in=len(everything),
        num_kept=len(left),
        dropped=dict(Counter(one.reason for one in dropped)),
        filters=tuple(one.name for one in filters),
        k_zero=sum(one.drawn_switch == 0 for one in current),
        repetition_drops=repetition,
        buckets=switch_buckets(current, [one.trajectory_id for one in left]),
    )
    return Selection(kept=tuple(left), verdicts=in_order, ledger=ledger)


def switch_buckets(trajectories: Sequence[Trajectory], kept_ids: Iterable[str]) -> tuple[Bucket, ...]:
    """The table of drawn K. Empty if no trajectory has a drawn K."""
    kept = set(kept_ids)
    drawn = [one for one in trajectories if one.drawn_switch is not None]
    if not drawn:
        return ()
    highest = max(max(one.drawn_switch or 0, one.switch_index or 0) for one in drawn)
    ranges = [*BUCKETS, (BUCKETS[-1][1] + 1, highest)] if highest > BUCKETS[-1][1] else list(BUCKETS)
    rows = []
    for low, high in ranges:
        inside = [one for one in drawn if low <= (one.drawn_switch or 0) <= high]
        label = f"{low}+" if low > BUCKETS[-1][1] else str(low) if low == high else f"{low}-{high}"
        rows.append(
            Bucket(
                label=label,
                drawn=len(inside),
                realised=sum(one.switch_index is not None and low <= one.switch_index <= high for one in drawn),
                solved=sum(one.reward is not None and one.reward >= 1.0 for one in inside),
                kept=sum(one.trajectory_id in kept for one in inside),
                expert_steps=sum(one.num_expert_steps for one in inside),
            )
        )
    return tuple(rows)


def _num_drops(one_filter: Filter, trajectories: Sequence[Trajectory]) -> int:
    return sum(not judgement.keep for judgement in one_filter.judge_all(trajectories))


def _superseded(trajectories: Sequence[Trajectory]) -> dict[str, Verdict]:
    """Verdicts on attempts that were played again."""
    latest: dict[tuple[object, ...], Trajectory] = {}
    seen: set[str] = set()
    found: dict[str, Verdict] = {}
    for one in trajectories:
        if one.trajectory_id in seen:
            raise ConfigError(f"selection: trajectory {one.trajectory_id} is there twice; give each round its own seed")
        seen.add(one.trajectory_id)
        key = (one.task_id, one.switch_rule, one.seed, one.sample_index, one.parent_id, one.fork_index)
        other = latest.setdefault(key, one)
        if other is not one:
            older, latest[key] = sorted((other, one), key=lambda attempt: attempt.attempt)
            found[older.trajectory_id] = verdict(older, "superseded", "superseded")
    return found
