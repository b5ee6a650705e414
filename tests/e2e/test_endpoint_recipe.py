"""A recipe whose expert and players are behind a server: run, account, budget, resume, and a key that is nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tutelage.cli.main import main
from tutelage.errors import ConfigError, RunBudgetSpent
from tutelage.pipeline.run import run
from tutelage.policies.registry import shortest_commands
from tutelage.recipe import Recipe, check_recipe
from tutelage.reports.html import write_report
from tutelage.store import read_records
from tutelage.tasks.registry import load_tasks
from tutelage.testing.fault_server import FaultServer
from tutelage.types import Split, StopReason

SECRET = "sk-test-0123456789abcdefghij"


class Oracle:
    """Knows a shortest plan for each task by its first message, and says the command that is next."""

    def __init__(self) -> None:
        self.plans: dict[str, list[str]] = {}
        for split, count in ((Split.TRAIN, 4), (Split.TEST, 3)):
            for task in load_tasks("household", split, start=0, count=count, size="small"):
                plan = shortest_commands(task)
                assert plan is not None
                self.plans[task.goal] = plan

    def __call__(self, body: dict[str, Any]) -> str:
        told = next(message["content"] for message in body["messages"] if message["role"] == "user")
        plan = next(plan for goal, plan in self.plans.items() if goal in told)
        return plan[sum(message["role"] == "assistant" for message in body["messages"])]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    monkeypatch.setenv("TUTELAGE_TEST_KEY", SECRET)
    with FaultServer(reply=Oracle(), key=SECRET, faults={"429": 0.1, "cut": 0.05}) as running:
        yield running


def recipe_of(url: str, **endpoint: Any) -> dict[str, Any]:
    settings = {"url": url, "model": "fake", "api_key_env": "TUTELAGE_TEST_KEY", "first_delay": 0.001, "max_tokens": 24}
    return {
        "name": "endpoints",
        "workers": 1,
        "env": {"name": "household", "size": "small", "max_steps": 30},
        "endpoints": {"oracle": {**settings, "price_prompt": 1.0, "price_completion": 5.0, **endpoint}},
        "expert": {"name": "endpoint", "endpoint": "oracle"},
        "rollouts": {
            "shown": {"switch": {"name": "expert_only"}, "tasks": {"split": "train", "count": 4}},
            "corrected": {
                "switch": {"name": "at_step", "k": 1},
                "student": "endpoint:oracle",
                "tasks": {"split": "train", "count": 2},
            },
        },
        "evaluate": {"tasks": {"split": "test", "count": 3}, "models": ["expert", "endpoint:oracle"]},
    }


def checked(url: str, **endpoint: Any) -> Recipe:
    return check_recipe(recipe_of(url, **endpoint))


def test_a_run_with_its_account_and_without_its_key(server: FaultServer, tmp_path: Path):
    finished = run(checked(server.url), tmp_path / "run")
    shown = read_records(tmp_path / "run/rollouts/shown/trajectories.jsonl", "trajectory")
    corrected = read_records(tmp_path / "run/rollouts/corrected/trajectories.jsonl", "trajectory")
    assert [one.reward for one in shown] == [1.0] * 4
    assert [(one.reward, one.switch_index) for one in corrected] == [(1.0, 1)] * 2
    assert {step.policy_version for one in shown for step in one.steps} == {"oracle:fake"}
    steps = sum(len(one.steps) for one in (*shown, *corrected))
    played = [json.loads(line) for arm in ("expert", "endpoint:oracle")
              for line in (tmp_path / f"run/evaluations/{arm}/trajectories.jsonl").read_text().splitlines()[1:]]  # fmt: skip
    steps += sum(len(one["steps"]) for one in played)
    line = finished.table().splitlines()[-1]
    assert line.startswith(f"endpoint oracle  {steps} requests ({steps} answered), ")
    assert "cost 0.0" in line
    assert sum(server.answered.values()) == len(server.answered) == steps
    page = write_report(tmp_path / "run").read_text()
    assert "<h2>Endpoints</h2>" in page
    assert f"<td>oracle</td><td>{steps}</td><td>{steps}</td><td>none</td>" in page
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_a_spent_budget_stops_the_run_and_more_of_it_goes_on_without_paying_twice(server: FaultServer, tmp_path: Path):
    with pytest.raises(RunBudgetSpent, match="max_run_requests is 12"):
        run(checked(server.url, max_run_requests=12), tmp_path / "run")
    assert sum(server.answered.values()) in (11, 12)  # The last one may have met a fault, and was not tried again.
    stored = read_records(tmp_path / "run/rollouts/shown/trajectories.jsonl", "trajectory")
    assert any(one.stop_reason is StopReason.INTERRUPTED for one in stored)
    run(checked(server.url, max_run_requests=1000), tmp_path / "run")
    assert set(server.answered.values()) == {1}  # Each request was answered once, before or after the stop.
    again = read_records(tmp_path / "run/rollouts/shown/trajectories.jsonl", "trajectory")
    solved = {one.task_id for one in again if one.reward == 1.0}
    assert len(solved) == 4
    before = len(server.answered)
    run(checked(server.url, max_run_requests=1000), tmp_path / "run")
    assert len(server.answered) == before


def test_an_episodes_budget_ends_it_as_a_limit_and_says_so(server: FaultServer, tmp_path: Path):
    run(checked(server.url, max_episode_requests=2), tmp_path / "run")
    shown = read_records(tmp_path / "run/rollouts/shown/trajectories.jsonl", "trajectory")
    assert [(one.stop_reason, len(one.steps), one.reward) for one in shown] == [(StopReason.MAX_STEPS, 2, 0.0)] * 4
    assert all("2 requests, max_episode_requests is 2" in str(one.error) for one in shown)


def test_the_command_line_ends_with_2_and_one_paragraph(server: FaultServer, tmp_path: Path, capsys: Any):
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe_of(server.url, max_run_requests=2)))
    assert main(["run", str(path), "--out", str(tmp_path / "run"), "--quiet"]) == 2
    said = capsys.readouterr().err
    assert "endpoint 'oracle': the budget of the run is spent: " in said
    assert "max_run_requests is 2." in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"expert": {"name": "endpoint", "endpoint": "orcle"}}, "expert.endpoint, endpoint: unknown 'orcle'. Did you mean 'oracle'?"),
        ({"expert": {"name": "endpoint"}}, "does not say which. Write endpoint: NAME"),
        ({"expert": {"name": "endpoint", "endpoint": "oracle", "search": 1}}, "unknown key 'expert.search'"),
        ({"endpoints": {"oracle": {"url": "http://h", "model": "m", "modle": 1}}}, "unknown key 'endpoints.oracle.modle'"),
        ({"endpoints": {"oracle": {"url": "http://h", "model": "m", "api_key": SECRET}}}, "unknown key 'endpoints.oracle.api_key'"),
        ({"endpoints": {"oracle": {"url": "http://h", "model": "m", "api_key_env": SECRET}}}, "name of an environment variable"),
        ({"endpoints": {"oracle": {"url": f"http://u:{SECRET}@h", "model": "m"}}}, "url holds a user or password"),
        ({"endpoints": {"oracle": {"url": "http://h", "model": "m", "api": "completions"}}}, "needs the folder of its tokenizer"),
        ({"endpoints": {}}, "no endpoint 'oracle'; this recipe has no section endpoints"),
        ({"evaluate": {"tasks": {"split": "test", "count": 3}, "models": ["endpoint:other"]}}, "unknown 'other'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_at_once(change: dict, words: str):
    with pytest.raises(ConfigError) as error:
        check_recipe({**recipe_of("http://127.0.0.1:1"), **change})
    assert words in str(error.value)
    assert SECRET not in str(error.value)


def test_a_teacher_behind_an_endpoint_must_score_prompts(tmp_path: Path):
    def with_teacher(teacher: dict[str, Any], **endpoint: Any) -> dict[str, Any]:
        rl = {
            "tasks": {"split": "train", "start": 10, "count": 2},
            "teacher": {"source": "model", "model": "endpoint:oracle", **teacher},
        }
        models = {"taught": {"start": "start", "rl": rl, "train": {"temperature": 1.0}}}
        return {**recipe_of("http://h", **endpoint), "models": models}

    good = {"server": "vllm", "tokenizer": "builtin:household_tiny"}
    check_recipe(with_teacher({"divergence": {"name": "k1"}}, **good))
    for teacher, endpoint, words in (
        ({}, {}, "gives log-probabilities of prompts"),
        ({}, {"server": "vllm"}, "the folder of its tokenizer"),
        ({}, good, "Choose one of: k3, abs_gap, k1"),
        ({"divergence": {"name": "k1"}, "loss": {"name": "jsd"}}, good, "Choose one of: k1_pg, k1_direct, k3"),
    ):
        with pytest.raises(ConfigError, match=words):
            check_recipe(with_teacher(teacher, **endpoint))


def test_a_teacher_behind_an_endpoint_finds_what_the_student_sampled_as_probable_as_the_student(tmp_path: Path):
    import numpy as np

    from tutelage.policies.base import ScoreRequest, TokenScores
    from tutelage.policies.endpoint.config import EndpointConfig
    from tutelage.policies.endpoint.tokenizer import renderer_of
    from tutelage.policies.scorer import LocalScorer

    tiny = "builtin:household_tiny"
    local = LocalScorer(tiny)

    def logprobs(ids: Sequence[int]) -> list[float | None]:
        request = ScoreRequest(request_id="r", token_ids=np.array(ids), positions=np.arange(1, len(ids)))
        [scored] = local.score([request])
        assert isinstance(scored, TokenScores)
        return [None, *scored.logprobs.astype(float).tolist()]

    decode = renderer_of(EndpointConfig(url="http://h", model="m", tokenizer=tiny)).decode
    with FaultServer(logprobs=logprobs, decode=decode, faults={"429": 0.2, "wrong_length": 0.2}) as server:
        teacher = {"source": "model", "model": "endpoint:big", "divergence": {"name": "k1"}, "loss": {"name": "k1_pg"}}
        rounds = {
            "temperature": 1.0,
            "num_rounds": 1,
            "group_size": 2,
            "tasks_per_round": 2,
            "distill_coefficient": 0.1,
        }
        endpoint = {"url": server.url, "model": "fake", "server": "vllm", "tokenizer": tiny, "first_delay": 0.001}
        recipe = {
            "name": "taught",
            "workers": 1,
            "env": {"name": "household", "size": "small", "max_steps": 8},
            "student": {"start": tiny, "temperature": 1.0},
            "endpoints": {"big": {**endpoint, "max_tries": 12, "longest_delay": 0.01}},
            "models": {
                "taught": {
                    "start": "start",
                    "rl": {"tasks": {"split": "train", "count": 4}, "teacher": teacher},
                    "train": rounds,
                }
            },
        }
        run(check_recipe(recipe), tmp_path / "run")
        assert server.fault_counts
    [first, *_] = (tmp_path / "run/models/taught/metrics.jsonl").read_text().splitlines()
    values = json.loads(first)["values"]
    assert values["teacher/scored_steps"] == 4 * 8
    assert values["teacher/failed_steps"] == 0
    assert abs(values["distill/gap"]) < 1e-4  # the same weights, so the same opinion
    assert values["distill/share"] > 0.0


def test_the_recipe_of_the_documentation_loads():
    text = (Path(__file__).parents[2] / "docs/endpoints.md").read_text()
    written = yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])
    recipe = check_recipe({"name": "documented", "env": {"name": "household"}, **written})
    assert recipe.endpoint("gpt").max_run_cost == 300.0
    assert recipe.endpoint("small").name == "small"
