"""Is the student that was told more a better policy than the plain one? Only then can it teach.

found = compare_privileged(student, Plan(), validation_tasks)
print(found)       # privileged (plan) 0.720 against plain 0.310 on 100 tasks: +0.410 [+0.310, +0.510], p 1.2e-10
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutelage.evaluation.compare import Comparison
from tutelage.evaluation.run import EvaluationResult, compare, evaluate
from tutelage.policies.base import Policy
from tutelage.policies.privileged import PrivilegedContext, PrivilegedPolicy
from tutelage.rollout.episode import Limits
from tutelage.types import Task, Trajectory


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivilegeComparison:
    """The privileged student against the plain one on the same tasks, seeds and temperature."""

    context: str
    plain: EvaluationResult
    privileged: EvaluationResult
    comparison: Comparison
    """A is the plain student, B the privileged one."""
    num_untold: int
    """Episodes for which the context had nothing to tell; both played them plainly."""

    @property
    def is_better(self) -> bool:
        """The interval of the difference lies above 0."""
        return self.comparison.difference.low > 0.0

    def __str__(self) -> str:
        found = self.comparison
        gain = found.difference
        line = (
            f"privileged ({self.context}) {self.privileged.overall.success.estimate:.3f} against plain "
            f"{self.plain.overall.success.estimate:.3f} on {found.num_pairs} tasks: {gain.estimate:+.3f} "
            f"[{gain.low:+.3f}, {gain.high:+.3f}], p {found.p_value:.2g}"
        )
        if self.num_untold:
            line += f"; {self.num_untold} episodes had no privileged text"
        return line if self.is_better else f"{line}; NOT shown to be better, so not fit to teach"


def compare_privileged(
    student: Policy,
    context: PrivilegedContext,
    tasks: Sequence[Task],
    *,
    limits: Limits | None = None,
    seed: int = 0,
    samples_per_task: int = 1,
    concurrency: int = 64,
    groups: Mapping[str, Sequence[Trajectory]] | None = None,
) -> PrivilegeComparison:
    """Play the tasks with the student, plain and then told, and compare pair by pair.

    groups: task id -> trajectories that contexts of peers draw from.
    """
    told = PrivilegedPolicy(student, context, groups=groups)
    plain, privileged = (
        evaluate(
            policy,
            tasks,
            name=name,
            limits=limits,
            seed=seed,
            samples_per_task=samples_per_task,
            concurrency=concurrency,
        )[0]
        for policy, name in ((student, "plain"), (told, "privileged"))
    )
    return PrivilegeComparison(
        context=context.name,
        plain=plain,
        privileged=privileged,
        comparison=compare(plain, privileged),
        num_untold=told.num_plain,
    )
