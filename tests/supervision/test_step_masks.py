"""Step masks over tiny trajectories, with the whole mask spelled out."""

from __future__ import annotations

import pytest

from tutelage.errors import SupervisionError
from tutelage.supervision.step_masks import (
    STEP_MASKS,
    agrees,
    all_steps,
    expert_labels,
    expert_steps,
    student_steps,
)
from tutelage.types import (
    Action,
    Actor,
    LossComponent,
    Observation,
    ParsedCall,
    Step,
    StopReason,
    Target,
    Trajectory,
)


def make_trajectory(actors: str, labels: str | None = None) -> Trajectory:
    """One step per letter; the executed commands are A, B, C, ... and the labels are given as letters."""
    steps = tuple(
        Step(
            observation=Observation.of(f"o{index}"),
            action=Action.of(chr(ord("A") + index)),
            actor=Actor.STUDENT if letter == "s" else Actor.EXPERT,
            expert_action=None if labels is None else Action.of(labels[index]),
        )
        for index, letter in enumerate(actors)
    )
    return Trajectory(
        trajectory_id="t", task_id="t", env="test", steps=steps, final_observation=None,
        stop_reason=StopReason.COMPLETED, reward=1.0, seed=0,
    )  # fmt: skip


def test_expert_steps_after_one_switch() -> None:
    supervision = expert_steps(make_trajectory("ssee"))
    assert supervision.step_mask == (False, False, True, True)
    assert supervision.step_weights == {LossComponent.SFT: (0.0, 0.0, 1.0, 1.0)}
    assert supervision.source == "expert_steps"
    assert supervision.target is Target.EXECUTED


def test_t32_mask_follows_the_author_through_several_switches() -> None:
    assert expert_steps(make_trajectory("sseesee")).step_mask == (False, False, True, True, False, True, True)


def test_student_steps_and_all_steps() -> None:
    assert student_steps(make_trajectory("ssee")).step_mask == (True, True, False, False)
    assert all_steps(make_trajectory("ssee")).step_mask == (True, True, True, True)


def test_student_only_episode_has_no_expert_step() -> None:
    assert expert_steps(make_trajectory("sss")).step_mask == (False, False, False)


def test_t31_labels_are_learnt_at_every_state() -> None:
    supervision = expert_labels(make_trajectory("sss", labels="AXC"))
    assert supervision.step_mask == (True, True, True)
    assert supervision.target is Target.EXPERT_LABEL


def test_t31_disagree_keeps_the_states_where_the_label_differs() -> None:
    trajectory = make_trajectory("sss", labels="AXC")
    assert [agrees(step) for step in trajectory.steps] == [True, False, True]
    supervision = expert_labels(trajectory, train_on="disagree")
    assert supervision.step_mask == (False, True, False)
    assert supervision.source == "expert_labels_disagree"
    assert STEP_MASKS["expert_labels_disagree"](trajectory) == supervision


def test_a_step_without_label_is_refused() -> None:
    with pytest.raises(SupervisionError, match="trajectory t, step 0: no expert_action, expected one at every step"):
        expert_labels(make_trajectory("se"))


@pytest.mark.parametrize(
    ("executed", "label", "equal"),
    [
        (Action.of("look"), Action.of(" look "), True),
        (Action.of("look"), Action.of("Look"), False),
        (
            Action(text="a", command="a", call=ParsedCall(name="edit", arguments={"path": "/a ", "line": 3})),
            Action(text="b", command="b", call=ParsedCall(name="edit", arguments={"line": 3, "path": "/a"})),
            True,
        ),
        (
            Action(text="a", command="a", call=ParsedCall(name="edit", arguments={"line": 3})),
            Action(text="a", command="a", call=ParsedCall(name="edit", arguments={"line": 4})),
            False,
        ),
    ],
)
def test_agreement_is_by_parsed_call(executed: Action, label: Action, equal: bool) -> None:
    step = Step(observation=Observation.of("o"), action=executed, actor=Actor.STUDENT, expert_action=label)
    assert agrees(step) is equal
