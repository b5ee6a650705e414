"""Equal budgets: what each kind of data cost, and subsets that cost the same.

Corrections have fewer trained steps than expert episodes, so equal numbers of trajectories are not equal budgets; a
comparison names which budget is equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tutelage.errors import ConfigError
from tutelage.selection.ledger import Selection
from tutelage.types import Action, Actor, Trajectory, stable_hash


def expert_calls(trajectory: Trajectory) -> int:
    """Queries to the expert: its steps, its labels of the student's steps, and replies that were asked for again."""
    calls = 0
    for step in trajectory.steps:
        if step.actor is Actor.EXPERT:
            calls += _calls(step.action)
        elif step.expert_action is not None:
            calls += _calls(step.expert_action)
    return calls


def student_calls(trajectory: Trajectory) -> int:
    """Queries to the student: its steps, and replies that were asked for again."""
    return sum(_calls(step.action) for step in trajectory.steps if step.actor is Actor.STUDENT)


def _calls(action: Action) -> int:
    return 1 + len(action.attempts)


COSTS: dict[str, Callable[[Trajectory], float]] = {
    "trajectories": lambda trajectory: 1,
    "expert_calls": expert_calls,
    "expert_steps": lambda trajectory: trajectory.num_expert_steps,
    "student_calls": student_calls,
    "student_steps": lambda trajectory: trajectory.num_student_steps,
    "env_steps": lambda trajectory: len(trajectory.steps),
}
"""Budget -> what a trajectory takes of it. Others (``trained_tokens``, ``money``) need `costs`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """What one kind of data took and gave. Costs are of all episodes that were drawn, kept or not."""

    kind: str
    """``expert_only``, ``switch_once``, ``student_only`` or a name of the study's own."""
    drawn: int
    """Episodes played, every attempt counted."""
    kept: int
    dropped: Mapping[str, int]
    k_zero: int
    expert_calls: int
    student_calls: int
    env_steps: int
    trained_steps: int
    """Of the kept episodes, steps of the trained actors."""
    trained_tokens: int | None = None
    """None: no samples have been built yet."""
    updates: int | None = None
    device_seconds: float | None = None


def account(
    kind: str,
    trajectories: Iterable[Trajectory],
    selection: Selection,
    *,
    trained: Iterable[Actor] = (Actor.EXPERT,),
    trained_tokens: int | None = None,
    updates: int | None = None,
    device_seconds: float | None = None,
) -> Account:
    """The row of one kind of data in an equal-budget table.

    Example, student and expert steps (6,4), (2,8), (0,10): expert_calls 22, trained_steps 22, env_steps 30
    """
    everything = list(trajectories)
    actors = set(trained)
    return Account(
        kind=kind,
        drawn=len(everything),
        kept=selection.ledger.num_kept,
        dropped=selection.ledger.dropped,
        k_zero=selection.ledger.k_zero,
        expert_calls=sum(map(expert_calls, everything)),
        student_calls=sum(map(student_calls, everything)),
        env_steps=sum(len(one.steps) for one in everything),
        trained_steps=sum(step.actor in actors for one in selection.kept for step in one.steps),
        trained_tokens=trained_tokens,
        updates=updates,
        device_seconds=device_seconds,
    )


def match_budget(
    trajectories: Sequence[Trajectory],
    budget: str,
    amount: float,
    *,
    seed: int | None,
    costs: Mapping[str, float] | None = None,
) -> list[Trajectory]:
    """Take trajectories, shuffled by `seed` (None: as given), until `amount` of the budget is reached.

    The last one is taken iff that brings the total nearer to `amount`; at a tie it is not. `costs`, by trajectory id,
    are for budgets that a trajectory does not tell, as ``trained_tokens``. The shuffle depends on ids alone, not on the
    order given. Raises `ConfigError` if all together do not reach `amount`: data is never repeated.

    Example, costs 4, 8, 10 and amount 12 -> the first two; costs 10, 10, 10 and amount 12 -> the first
    """
    if costs is None and budget not in COSTS:
        raise ConfigError.unknown("budget (without costs)", budget, COSTS)
    cost_of = COSTS[budget] if costs is None else lambda trajectory: costs[trajectory.trajectory_id]
    order = list(trajectories)
    if seed is not None:
        order.sort(key=lambda trajectory: stable_hash("budget", seed, trajectory.trajectory_id))
    taken: list[Trajectory] = []
    total = 0.0
    for trajectory in order:
        if total >= amount:
            return taken
        cost = cost_of(trajectory)
        if total + cost > amount and total + cost - amount >= amount - total:
            return taken
        taken.append(trajectory)
        total += cost
    if total < amount:
        raise ConfigError(
            f"budget {budget}: {len(order)} trajectories make {total:g}, expected {amount:g}. "
            "Collect more, or lower the budget of all arms."
        )
    return taken
