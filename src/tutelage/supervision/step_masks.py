"""Which steps of a trajectory learn by imitation: one function per mask, Trajectory -> StepSupervision.

Masks come from who acted (`Step.actor`), never from text. All weights belong to the component `sft`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from tutelage.errors import SupervisionError
from tutelage.types import Action, Actor, LossComponent, Step, StepSupervision, Target, Trajectory

StepMask = Callable[[Trajectory], StepSupervision]
"""A producer of step supervision."""


def expert_steps(trajectory: Trajectory) -> StepSupervision:
    """Learn what the expert did, nothing else.

    Example, N=4, switch at 2:
      actor               student student expert expert
      step_mask           0       0       1      1
      step_weights[sft]   0       0       1      1
    """
    mask = [step.actor is Actor.EXPERT for step in trajectory.steps]
    return _uniform(trajectory, mask, "expert_steps")


def student_steps(trajectory: Trajectory) -> StepSupervision:
    """Learn what the student did itself (rejection-sampled fine-tuning of its own episodes).

    Example, N=4, switch at 2:
      actor               student student expert expert
      step_mask           1       1       0      0
    """
    mask = [step.actor is Actor.STUDENT for step in trajectory.steps]
    return _uniform(trajectory, mask, "student_steps")


def all_steps(trajectory: Trajectory) -> StepSupervision:
    """Learn every step, whoever acted: the ablation of the author mask.

    Example, N=4, switch at 2:
      actor               student student expert expert
      step_mask           1       1       1      1
    """
    return _uniform(trajectory, [True] * len(trajectory.steps), "all_steps")


def expert_labels(trajectory: Trajectory, *, train_on: Literal["all", "disagree"] = "all") -> StepSupervision:
    """Learn the expert's label at every visited state, whoever acted there (DAgger). The history stays as executed.

    `train_on="disagree"` leaves out the steps whose executed action equals the label.

    Example, N=3, executed A B C, labels A X C:
      learnt   A X C   step_mask 1 1 1 (disagree: 0 1 0); the context of step 2 holds B, not X

    Raises:
        SupervisionError: a step has no label.
    """
    for index, step in enumerate(trajectory.steps):
        if step.expert_action is None:
            raise SupervisionError(
                f"trajectory {trajectory.trajectory_id}, step {index}: no expert_action, expected one at every step. "
                "Collect with a rule that asks the expert everywhere (mix), or train on expert_steps."
            )
    mask = [train_on == "all" or not agrees(step) for step in trajectory.steps]
    source = "expert_labels" if train_on == "all" else "expert_labels_disagree"
    return _uniform(trajectory, mask, source, Target.EXPERT_LABEL)


def expert_labels_disagree(trajectory: Trajectory) -> StepSupervision:
    """`expert_labels` only where the executed action differs from the label.

    Example, N=3, executed A B C, labels A X C:
      step_mask   0 1 0
    """
    return expert_labels(trajectory, train_on="disagree")


STEP_MASKS: Final[dict[str, StepMask]] = {
    "expert_steps": expert_steps,
    "student_steps": student_steps,
    "all_steps": all_steps,
    "expert_labels": expert_labels,
    "expert_labels_disagree": expert_labels_disagree,
}
"""Name in recipes -> mask."""


def agrees(step: Step) -> bool:
    """Whether the executed action is the one the expert would have taken; False without a label."""
    return step.expert_action is not None and _identity(step.action) == _identity(step.expert_action)


def _identity(action: Action) -> object:
    """Equal parsed calls are equal actions; without a call the command counts, without a command the reply."""
    if action.call is not None:
        return action.call.name, {key: _stripped(value) for key, value in action.call.arguments.items()}
    return (action.text if action.command is None else action.command).strip()


def _stripped(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


def _uniform(
    trajectory: Trajectory, mask: Sequence[bool], source: str, target: Target = Target.EXECUTED
) -> StepSupervision:
    """Weight 1 for `sft` inside the mask."""
    return StepSupervision(
        trajectory_id=trajectory.trajectory_id,
        step_mask=tuple(mask),
        step_weights={LossComponent.SFT: tuple(float(trained) for trained in mask)},
        source=source,
        target=target,
    )
