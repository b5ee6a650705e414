"""An expert with native tools takes over from a student with tags, live; the training data are in the student's tags."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from tutelage.envs.action_formats import ThinkActionFormat, call_of, command_of, reasoning_of, text_in
from tutelage.envs.registry import action_format_for, make_env
from tutelage.envs.repo.env import shared_sandbox
from tutelage.errors import ConfigError
from tutelage.policies.base import PartialTrajectory, Policy, SingleActPolicy
from tutelage.policies.chat_view import ChatView
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.experts.python import PythonExpert
from tutelage.policies.experts.repo import RepoExpert
from tutelage.policies.experts.search import SearchExpert
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rendering.role_tokens import RoleTokenRenderer
from tutelage.rollout.episode import Limits, run_episode
from tutelage.rollout.replay import replay
from tutelage.rollout.switch import AtStep
from tutelage.students import student_path
from tutelage.supervision.samples import build_samples
from tutelage.supervision.step_masks import expert_steps
from tutelage.tasks.registry import load_tasks
from tutelage.types import Action, Actor, StopReason, Task, Trajectory

CONTENT = "I go on from here."


class NativeExpert(SingleActPolicy):
    """Acts as another expert does, but through messages and tool calls, as one behind a server."""

    name = "native"
    version = "native-1"

    def __init__(self, mind: Policy) -> None:
        self.mind = mind
        self.view = ChatView(style="native")
        self.requests: list[list[dict[str, Any]]] = []

    def act(self, so_far: PartialTrajectory) -> Action:
        self.requests.append(self.view.messages(so_far))
        call = call_of(self.mind.act(so_far))
        assert call is not None
        # As models write: a newline at the end of code, and a content beside the call now and then.
        arguments = {name: f"{value}\n" if name == "code" else value for name, value in call.arguments.items()}
        function = {"name": call.name, "arguments": json.dumps(arguments)}
        message = {"role": "assistant", "content": CONTENT if len(so_far.steps) % 2 else None}
        tool_call = {"id": f"chatcmpl-tool-{len(so_far.steps)}", "type": "function", "function": function}
        return self.view.read(message | {"tool_calls": [tool_call]}, so_far.task)


def hand_over(task: Task, student: Sequence[str], mind: Policy) -> tuple[Trajectory, NativeExpert]:
    expert = NativeExpert(mind)
    policies: dict[Actor, Policy] = {Actor.STUDENT: ScriptedPolicy(student), Actor.EXPERT: expert}
    limits = Limits(parse_retries=0, on_student_limit="switch")
    return run_episode(task, make_env(task), policies, AtStep(len(student)), limits, seed=0), expert


def trained_texts(trajectory: Trajectory, renderer: RoleTokenRenderer) -> list[str]:
    """What a student with this renderer is trained to say, action by action."""
    samples = build_samples(trajectory, expert_steps(trajectory), renderer, layout="per_step")
    texts = []
    for sample in samples:
        ids = [token for token, mask in zip(sample.token_ids, sample.loss_mask, strict=True) if mask]
        texts.append(renderer.decode(ids))
    return texts


STUDENTS = {
    "search": ("<think>I look around.</think> <search>films</search> and more", "<search>x</search>", "I <search>know"),
    "python": ("I try. <python>\nprint(1)\n</python>", "<python>print('<\\/answer>' * 2)</python>", "No idea."),
    "repo": (
        "First.\n<function=bash><parameter=command>echo '\"'\"'; ls</parameter></function> done",
        "<function=edit>\n<parameter=command>\nview\n</parameter>\n<parameter=path>\n.\n</parameter>\n</function>",
        "ls",
    ),
}
"""Two actions and a reply without one."""

MINDS = {"search": SearchExpert, "python": PythonExpert, "repo": RepoExpert}


@pytest.fixture(scope="module")
def renderer_folder() -> Any:
    return student_path("builtin:household_tiny")


@pytest.mark.parametrize("env_name", list(STUDENTS))
def test_a_native_expert_takes_over_from_a_student_with_tags(env_name: str, renderer_folder: Any):
    if env_name != "search":
        try:
            shared_sandbox("auto", False)
        except ConfigError as error:
            pytest.skip(f"no sandbox works here: {error}")
    options: dict[str, Any] = {"max_steps": 12} if env_name == "search" else {}
    (task,) = load_tasks(env_name, "train", start=1, count=1, **options)
    env_format = action_format_for(task)
    assert env_format is not None
    student = STUDENTS[env_name]
    trajectory, expert = hand_over(task, student, MINDS[env_name]())
    assert (trajectory.stop_reason, trajectory.reward) == (StopReason.COMPLETED, 1.0)
    assert trajectory.switch_index == 3
    assert [step.action.text for step in trajectory.steps[:3]] == list(student)

    # What the expert was asked at the switch: the student's steps in the expert's own way to act.
    request = expert.requests[0]
    roles = [message["role"] for message in request]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant", "user"]
    for index in (0, 1):
        said, answer = request[2 + 2 * index : 4 + 2 * index]
        call = trajectory.steps[index].action.call
        assert call is not None
        assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == dict(call.arguments)
        assert said["tool_calls"][0]["id"] == answer["tool_call_id"] == f"call_{index}"
        assert answer["content"] == trajectory.steps[index + 1].observation.text
    assert request[6:] == [
        {"role": "assistant", "content": student[2]},
        {"role": "user", "content": env_format.help},
    ]
    assert request[2]["content"] == {"search": "I look around.", "python": "I try.", "repo": "First."}[env_name]

    # What is recorded: the environment's own command, the call as the environment's format has it, the message as it came.
    for step in trajectory.steps[3:]:
        action = step.action
        assert action.call is not None
        assert action.raw is not None
        assert env_format.fit(action.call) == action.call
        assert action.command == env_format.apply(Action.of(text_in(env_format, action))).command
        if env_name == "repo":
            assert action.command == command_of(action.call)
        assert action.raw["tool_calls"][0]["id"].startswith("chatcmpl-tool-")
        assert action.text == (action.raw["content"] or "")

    # What the student is trained on: the expert's calls in its tags, with the reasoning before them.
    renderer = RoleTokenRenderer.from_folder(renderer_folder, text_of=partial(text_in, env_format))
    texts = trained_texts(trajectory, renderer)
    assert len(texts) == len(trajectory.steps) - 3
    for text, step in zip(texts, trajectory.steps[3:], strict=True):
        said = text.removesuffix("<|end|>")
        assert text == f"{said}<|end|>"
        assert env_format.apply(Action.of(said)).call == step.action.call
        assert env_format.thought(said) == reasoning_of(step.action) == step.action.text

    # The record can be acted again: nothing depends on who wrote the actions.
    assert replay(trajectory, task, make_env).difference is None


def test_a_native_expert_takes_over_where_actions_are_plain_commands(renderer_folder: Any):
    (task,) = load_tasks("household", "train", start=0, count=1)
    trajectory, expert = hand_over(task, ("look", "inventory"), HouseholdExpert())
    assert (trajectory.stop_reason, trajectory.reward) == (StopReason.COMPLETED, 1.0)
    assert expert.requests[0][2]["tool_calls"][0]["function"] == {"name": "act", "arguments": '{"command": "look"}'}
    assert all(step.action.call is None for step in trajectory.steps)
    commands = [step.action.command for step in trajectory.steps[2:]]
    assert trained_texts(trajectory, RoleTokenRenderer.from_folder(renderer_folder)) == [
        f"{command}<|end|>" for command in commands
    ]
    think = RoleTokenRenderer.from_folder(renderer_folder, text_of=partial(text_in, ThinkActionFormat()))
    expected = [
        (f"<think>{CONTENT}</think>\n" if step % 2 else "") + f"<action>{command}</action><|end|>"
        for step, command in enumerate(commands, start=2)
    ]
    assert trained_texts(trajectory, think) == expected
