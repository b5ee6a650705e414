"""Is the student that was told more a better policy than the plain one? Only then can it teach.

    found = compare_privileged(student, Plan("shortest"), validation_tasks)
    print(found)
    # privileged (plan) against plain 0.412 on 204 episodes: from the start 0.936, +0.525 [+0.456, +0.593], p 2.2e-28;
    # taking over from it 0.770, +0.358 [+0.294, +0.426], p 1.1e-18

A teacher scores the student's own states. A model that plays well from the start may still be lost in them, if it has only
seen episodes that went by its plan; so it also takes over from the plain student, at a random step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tutelage.evaluation.compare import Comparison
from tutelage.evaluation.run import EvaluationResult, compare, evaluate, result_of
from tutelage.policies.base import Policy
from tutelage.policies.privileged import PrivilegedContext, PrivilegedPolicy
from tutelage.rollout.episode import Limits
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import SwitchRule, UniformStep
from tutelage.types import Actor, Task, Trajectory


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivilegeComparison:
    """The privileged student against the plain one on the same tasks, seeds and temperature."""

    context: str
    plain: EvaluationResult
    privileged: EvaluationResult
    """The privileged student from the start."""
    comparison: Comparison
    """A is the plain student, B the privileged one from the start."""
    takes_over: EvaluationResult
    """The plain student first, then the privileged one to the end."""
    takeover: Comparison
    """A is the plain student alone, B the one that the privileged student takes over from. Both make the same steps
    until then, so only what follows differs."""
    num_untold: int
    """Episodes from the start for which the context had nothing to tell; both played them plainly."""

    @property
    def is_better(self) -> bool:
        """The intervals of both differences lie above 0."""
        return self.comparison.difference.low > 0.0 and self.takeover.difference.low > 0.0

    def __str__(self) -> str:
        line = (
            f"privileged ({self.context}) against plain {self.plain.overall.success.estimate:.3f} on "
            f"{self.comparison.num_pairs} episodes: from the start {_gain(self.privileged, self.comparison)}; "
            f"taking over from it {_gain(self.takes_over, self.takeover)}"
        )
        if self.num_untold:
            line += f"; {self.num_untold} episodes had no privileged text"
        return line if self.is_better else f"{line}; NOT shown to be better, so not fit to teach"


def _gain(result: EvaluationResult, found: Comparison) -> str:
    gain = found.difference
    return (
        f"{result.overall.success.estimate:.3f}, {gain.estimate:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], "
        f"p {found.p_value:.2g}"
    )


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
    handover: SwitchRule = UniformStep(0, 20),
) -> PrivilegeComparison:
    """Play the tasks three times and compare pair by pair: plain; told from the start; told from a handover on.

    groups: task id -> trajectories that contexts of peers draw from. handover: when the told student takes over.
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
    num_untold = told.num_plain
    played = run_rollouts(
        make_jobs(tasks, seed=seed, samples_per_task=samples_per_task),
        policies={Actor.STUDENT: student, Actor.EXPERT: told},
        rule=handover,
        limits=limits or Limits(),
        concurrency=concurrency,
    )
    takes_over = result_of(played.trajectories, name="takes over", policy_version=told.version)
    return PrivilegeComparison(
        context=context.name,
        plain=plain,
        privileged=privileged,
        comparison=compare(plain, privileged),
        takes_over=takes_over,
        takeover=compare(plain, takes_over),
        num_untold=num_untold,
    )
