"""Episodes played by a model behind a server: chat and ids, cut replies, full contexts, ids that are kept or counted."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import ConfigError, EndpointRefused
from tutelage.policies.endpoint import EndpointConfig, EndpointPolicy
from tutelage.policies.local import LocalPolicy
from tutelage.policies.registry import make_expert, shortest_commands
from tutelage.rollout.episode import Limits
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import make_rule
from tutelage.store import RecordStore
from tutelage.tasks.registry import load_tasks
from tutelage.testing.fault_server import FaultServer
from tutelage.types import Actor, ParseOutcome, StopReason, Task, Trajectory

TINY = "builtin:household_tiny"


@pytest.fixture(scope="module")
def task() -> Task:
    return load_tasks("household", "train", start=0, count=1, size="small")[0]


def policy_of(at: FaultServer, name: str = "expert", **options: Any) -> EndpointPolicy:
    settings = {"model": "fake", "max_tries": 2, "first_delay": 0.0, "longest_delay": 0.0, **options}
    keep = settings.pop("keep_token_ids", True)
    return EndpointPolicy(EndpointConfig(name="smol", url=at.url, **settings), name=name, keep_token_ids=keep)


def play(task: Task, policy: EndpointPolicy, role: Actor = Actor.EXPERT, **limits: Any) -> Trajectory:
    rule = make_rule("expert_only") if role is Actor.EXPERT else make_rule("never")
    summary = run_rollouts(
        make_jobs([task]), policies={role: policy}, rule=rule, limits=Limits(**limits), retries=0
    )  # fmt: skip
    policy.close()
    [trajectory] = summary.trajectories
    return trajectory


def next_of(plan: list[str]) -> Any:
    return lambda body: plan[sum(message["role"] == "assistant" for message in body["messages"])]


def test_an_expert_by_chat_solves_a_task(task: Task):
    plan = shortest_commands(task)
    assert plan is not None
    with FaultServer(reply=next_of(plan)) as server:
        played = play(task, policy_of(server))
    assert (played.stop_reason, played.reward) == (StopReason.COMPLETED, 1.0)
    assert [step.action.command for step in played.steps] == plan
    assert {step.policy_version for step in played.steps} == {"smol:fake"}
    assert played.steps[0].action.raw == {"role": "assistant", "content": plan[0]}
    assert played.steps[0].action.token_ids is None
    roles = [message["role"] for message in server.bodies[2]["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "seed" not in server.bodies[0]  # greedy


def test_native_calls_take_over_from_a_student(task: Task):
    plan = shortest_commands(task)
    assert plan is not None

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        command = plan[sum(message["role"] == "assistant" for message in body["messages"])]
        call = {
            "id": "x1",
            "type": "function",
            "function": {"name": "act", "arguments": json.dumps({"command": command})},
        }
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    with FaultServer(message=reply) as server:
        policy = policy_of(server, style="native")
        summary = run_rollouts(
            make_jobs([task]),
            policies={Actor.STUDENT: make_expert("household_planner"), Actor.EXPERT: policy},
            rule=make_rule("at_step", k=1),
        )
        policy.close()
    [played] = summary.trajectories
    assert played.reward == 1.0
    assert played.switch_index == 1
    first = server.bodies[0]
    assert [tool["function"]["name"] for tool in first["tools"]] == ["act"]
    assert [message["role"] for message in first["messages"]] == ["system", "user", "assistant", "tool"]
    assert first["messages"][2]["tool_calls"][0]["id"] == "call_0"


def test_a_reply_cut_off_is_never_a_whole_one(task: Task):
    with FaultServer(reply=lambda body: "look", finish_reason="length") as server:
        played = play(task, policy_of(server))
    assert played.stop_reason is StopReason.MAX_TOKENS
    action = played.steps[0].action
    assert (action.command, action.parse) == ("look", ParseOutcome.ENDED_WITHOUT_STOP)
    assert action.raw is not None
    assert action.raw["finish_reason"] == "length"


def test_a_refusal_is_malformed_and_says_why(task: Task):
    with FaultServer(reply=lambda body: "", finish_reason="content_filter") as server:
        played = play(task, policy_of(server), parse_retries=1)
    assert played.stop_reason is StopReason.PARSE_ERROR
    action = played.steps[0].action
    assert len(action.attempts) == 1
    assert action.raw is not None
    assert action.raw["finish_reason"] == "content_filter"


def test_a_context_that_is_too_long_ends_the_episode_and_not_as_an_error(task: Task):
    message = "This model's maximum context length is 10 tokens."
    with FaultServer(status=(400, {"error": {"message": message}})) as server:
        played = play(task, policy_of(server))
    assert (played.stop_reason, played.reward) == (StopReason.CONTEXT_OVERFLOW, 0.0)
    with FaultServer() as server:
        played = play(task, policy_of(server, api="completions", tokenizer=TINY, max_context=40, max_tokens=24))
    assert played.stop_reason is StopReason.CONTEXT_OVERFLOW
    assert not server.seen


def test_a_failing_server_is_a_policy_error_with_its_reason(task: Task):
    with FaultServer(faults={"500": 1.0}) as server:
        played = play(task, policy_of(server))
    assert (played.stop_reason, played.reward) == (StopReason.POLICY_ERROR, None)
    assert "server: " in str(played.error)


def test_a_server_that_hangs_does_not_outlive_the_episodes_time(task: Task):
    with FaultServer(faults={"hang": 1.0}) as server:
        began = time.monotonic()
        policy = policy_of(server, try_seconds=0.8)
        summary = run_rollouts(
            make_jobs([task]), policies={Actor.EXPERT: policy}, rule=make_rule("expert_only"), retries=0,
            limits=Limits(episode_seconds=0.3),
        )  # fmt: skip
        assert time.monotonic() - began < 0.7
        policy.close()
    [played] = summary.trajectories
    assert (played.stop_reason, played.reward) == (StopReason.TIMEOUT, None)
    assert [seen.played for seen in server.seen.values()] == [{0: "hang"}]  # called off, so not tried again


@pytest.mark.parametrize(("status", "reason"), [(401, "auth"), (404, "not_found"), (402, "quota")])
def test_what_the_user_must_mend_ends_the_run_and_is_asked_once(task: Task, tmp_path: Path, status: int, reason: str):
    store: RecordStore = RecordStore(tmp_path / "trajectories.jsonl", "trajectory")
    with FaultServer(status=(status, {"error": {"message": "no"}})) as server:
        policy = policy_of(server)
        with pytest.raises(EndpointRefused, match=f"endpoint 'smol': {reason}: .*HTTP {status}"):
            run_rollouts(make_jobs([task]), policies={Actor.EXPERT: policy}, rule=make_rule("expert_only"), store=store)
        policy.close()
    assert [one.stop_reason for one in store] == [StopReason.INTERRUPTED]
    assert len(server.seen) == 1


def test_ctrl_c_keeps_what_was_played(task: Task, tmp_path: Path):
    plan = shortest_commands(task)
    assert plan is not None

    def reply(body: dict[str, Any]) -> str:
        number = sum(message["role"] == "assistant" for message in body["messages"])
        if number == 2:
            server.faults = {"hang": 1.0}
            os.kill(os.getpid(), signal.SIGINT)
        return plan[number]

    store: RecordStore = RecordStore(tmp_path / "trajectories.jsonl", "trajectory")
    with FaultServer(reply=reply) as server:
        policy = policy_of(server, try_seconds=0.5)
        with pytest.raises(KeyboardInterrupt):
            run_rollouts(make_jobs([task]), policies={Actor.EXPERT: policy}, rule=make_rule("expert_only"), store=store)
        policy.close()
    [played] = store
    assert played.stop_reason is StopReason.INTERRUPTED
    assert len(played.steps) in (2, 3)  # The third answer may come just before the signal.
    assert [step.action.command for step in played.steps] == plan[: len(played.steps)]


@pytest.mark.parametrize("server_kind", ["vllm", "sglang"])
def test_ids_in_ids_out_as_the_policy_in_this_process_has_them(task: Task, server_kind: str):
    local = LocalPolicy(TINY, temperature=0.0, max_action_tokens=24)

    def sample(ids: list[int]) -> tuple[list[int], list[float]]:
        return greedy(local, ids)

    with FaultServer(sample=sample) as server:
        policy = policy_of(server, "student", api="completions", server=server_kind, tokenizer=TINY, max_tokens=24)
        played = play(task, policy, Actor.STUDENT, max_steps=5)
    mine = run_rollouts(
        make_jobs([task]), policies={Actor.STUDENT: local}, rule=make_rule("never"), limits=Limits(max_steps=5)
    )
    [expected] = mine.trajectories
    assert [step.action.token_ids for step in played.steps] == [step.action.token_ids for step in expected.steps]
    assert [step.action.command for step in played.steps] == [step.action.command for step in expected.steps]
    for a, b in zip(played.steps, expected.steps, strict=True):
        assert a.action.rollout_logprobs == pytest.approx(b.action.rollout_logprobs, abs=1e-4)
    assert policy.num_retokenised == 0


def greedy(local: LocalPolicy, ids: list[int]) -> tuple[list[int], list[float]]:
    """What the model says after these ids, one id at a time, without kept keys and values."""
    import torch

    sampled: list[int] = []
    numbers: list[float] = []
    while len(sampled) < 24 and (not sampled or sampled[-1] not in local.renderer.stop_token_ids):
        with torch.no_grad():
            from tutelage.policies.scorer import scoring_mode

            with scoring_mode(local.model, "padded"):
                logits = local.model(input_ids=torch.tensor([ids + sampled]), use_cache=False).logits[0, -1]
        chosen = int(logits.argmax())
        numbers.append(float(logits.double().log_softmax(-1)[chosen]))
        sampled.append(chosen)
    return sampled, numbers


def test_ids_of_an_expert_are_not_kept_and_missing_ids_of_a_student_are_counted(task: Task):
    with FaultServer(sample=lambda ids: ([7, 5], [-0.1, -0.2])) as server:
        expert = policy_of(server, api="completions", server="vllm", tokenizer=TINY, keep_token_ids=False)
        played = play(task, expert, max_steps=1)
        assert played.steps[0].action.token_ids is None
        assert played.steps[0].action.text
        student = policy_of(server, "student", tokenizer=TINY)  # chat without ids
        play(task, student, Actor.STUDENT, max_steps=2)
    assert expert.num_retokenised == 0
    assert student.num_retokenised == 2


def test_another_action_format_is_named_in_the_config(task: Task):
    with FaultServer(reply=lambda body: "<think>Hm.</think><action>look</action>") as server:
        played = play(task, policy_of(server, action_format="think_action"), max_steps=1)
    assert (played.steps[0].action.command, played.steps[0].action.parse) == ("look", ParseOutcome.CLEAN)
    call = {"name": "act", "arguments": {"command": "look"}}
    with FaultServer(reply=lambda body: json.dumps(call)) as server:
        played = play(task, policy_of(server, action_format="json"), max_steps=1)
        assert '"name": "act"' in server.bodies[0]["messages"][0]["content"]
    assert (played.steps[0].action.command, played.steps[0].action.parse) == ("look", ParseOutcome.CLEAN)
    with pytest.raises(ConfigError, match="Did you mean 'think_action'"):
        EndpointPolicy(EndpointConfig(url="http://h", model="m", action_format="think_actions"))


def test_an_expert_by_its_name(task: Task):
    plan = shortest_commands(task)
    assert plan is not None
    with FaultServer(reply=next_of(plan)) as server:
        policy = make_expert("endpoint", url=server.url, model="fake")
        assert isinstance(policy, EndpointPolicy)
        assert not policy.keep_token_ids
        assert play(task, policy).reward == 1.0
