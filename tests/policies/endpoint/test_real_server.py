"""A real server: transformers' own, with the small student of the package. Its greedy play is that of this process."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tutelage.envs.household.instructions import INSTRUCTIONS
from tutelage.policies.endpoint import EndpointClient, EndpointConfig, EndpointPolicy
from tutelage.policies.endpoint.probe import probe
from tutelage.policies.local import LocalPolicy
from tutelage.rendering.load import load_renderer
from tutelage.rollout.episode import Limits
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import make_rule
from tutelage.students import student_path
from tutelage.tasks.registry import load_tasks
from tutelage.types import Actor, StopReason

TINY = "builtin:household_tiny"
NEEDED = ("fastapi", "uvicorn", "openai")
START_SECONDS = 60.0


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, str]]:
    """Address and model name of a server of the small student."""
    with serving(str(student_path(TINY))) as found:
        yield found


@contextmanager
def serving(model: str) -> Iterator[tuple[str, str]]:
    """Address and model name of a running `transformers serve`."""
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    command = Path(sys.executable).parent / "transformers"
    if lacking or not command.is_file():
        pytest.skip(f"transformers serve cannot run: {', '.join(lacking) or command} is not installed")
    with socket.socket() as probe_socket:
        probe_socket.bind(("127.0.0.1", 0))
        port = probe_socket.getsockname()[1]
    server = subprocess.Popen(
        [command, "serve", model, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )
    try:
        until = time.monotonic() + START_SECONDS
        while not answers(port):
            if server.poll() is not None or time.monotonic() > until:
                pytest.skip(f"transformers serve did not start (exit code {server.poll()})")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1", model
    finally:
        server.terminate()
        try:
            server.wait(5.0)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1.0):
            return True
    except OSError:
        return False


def test_an_episode_of_a_real_server_is_the_episode_of_this_process(served: tuple[str, str], tmp_path: Path):
    url, model = served
    config = EndpointConfig(
        name="tiny", url=url, model=model, server="transformers", api="completions", tokenizer=TINY, max_tokens=24
    )
    tasks = load_tasks("household", "train", start=0, count=2, size="small")
    rule, limits = make_rule("never"), Limits(max_steps=6)
    behind = EndpointPolicy(config, name="student", folder=tmp_path)
    played = run_rollouts(make_jobs(tasks), policies={Actor.STUDENT: behind}, rule=rule, limits=limits)
    usage = behind.client.usage()
    behind.close()
    local = LocalPolicy(TINY, temperature=0.0, max_action_tokens=24)
    here = run_rollouts(make_jobs(tasks), policies={Actor.STUDENT: local}, rule=rule, limits=limits)
    commands = [[step.action.command for step in one.steps] for one in played.trajectories]
    assert commands == [[step.action.command for step in one.steps] for one in here.trajectories]
    assert [one.stop_reason for one in played.trajectories] == [one.stop_reason for one in here.trajectories]
    assert sum(map(len, commands)) == usage.requests == usage.answered
    assert usage.estimated == 0
    assert usage.prompt_tokens > 0
    assert behind.num_retokenised == usage.requests


def test_a_real_server_as_the_expert_by_chat(served: tuple[str, str]):
    url, model = served
    config = EndpointConfig(name="tiny", url=url, model=model, server="transformers", max_tokens=24)
    expert = EndpointPolicy(config, keep_token_ids=False)
    student = LocalPolicy(TINY, temperature=0.0, max_action_tokens=24)
    tasks = load_tasks("household", "train", start=0, count=1, size="small")
    summary = run_rollouts(
        make_jobs(tasks),
        policies={Actor.STUDENT: student, Actor.EXPERT: expert},
        rule=make_rule("at_step", k=2),
        limits=Limits(max_steps=4, parse_retries=0),
    )
    expert.close()
    [played] = summary.trajectories
    assert played.stop_reason in (StopReason.MAX_STEPS, StopReason.MAX_TOKENS, StopReason.PARSE_ERROR)
    assert played.switch_index == 2
    assert played.steps[2].policy_version == f"tiny:{model}"


def test_what_a_real_server_can_do_is_found_out(served: tuple[str, str]):
    url, model = served
    found = {one.name: one.works for one in probe(EndpointConfig(url=url, model=""))}
    assert found["models"]
    assert found["chat"]
    assert found["completions of text"]
    assert not found["completions of ids"]
    assert not any(works for name, works in found.items() if name.startswith("log-probabilities"))
    client = EndpointClient(EndpointConfig(url=url, model=model))
    assert client.get("/v1/models", lambda data: data["data"][0]["id"]) == model
    client.close()


def test_smollm2_behind_a_real_server_acts_as_in_this_process(smollm2: Path):
    """As student by prompts, greedy: the same commands. By chat it answers a question."""
    tasks = load_tasks("household", "train", start=0, count=1, size="small")
    rule, limits = make_rule("never"), Limits(max_steps=2, on_student_limit="end")
    renderer = load_renderer(smollm2, instructions=INSTRUCTIONS)
    local = LocalPolicy(smollm2, temperature=0.0, max_action_tokens=12, renderer=renderer)
    here = run_rollouts(make_jobs(tasks), policies={Actor.STUDENT: local}, rule=rule, limits=limits)
    with serving(str(smollm2)) as (url, model):
        config = EndpointConfig(
            url=url, model=model, server="transformers", api="completions", tokenizer=str(smollm2), max_tokens=12
        )
        behind = EndpointPolicy(config, name="student", renderer=renderer)
        played = run_rollouts(make_jobs(tasks), policies={Actor.STUDENT: behind}, rule=rule, limits=limits)
        behind.close()
        client = EndpointClient(EndpointConfig(url=url, model=model, server="transformers", max_tokens=16))
        completion = client.chat([{"role": "user", "content": "What is the capital of France?"}])
        client.close()
    assert [[step.action.text for step in one.steps] for one in played.trajectories] == [
        [step.action.text for step in one.steps] for one in here.trajectories
    ]
    assert (completion.text, completion.finish_reason) == ("The capital of France is Paris.", "stop")
    assert (completion.prompt_tokens, completion.completion_tokens) == (37, 8)
