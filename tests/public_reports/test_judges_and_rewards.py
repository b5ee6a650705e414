"""Reports about judges and rewards: answers that are no score and were read as 0, and rewards that nobody had to earn."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.cli.main import main
from tutelage.envs.registry import environment_names, make_env
from tutelage.errors import ConfigError, MissingExtra
from tutelage.evaluation.judge.base import judge_all, unscored_counts
from tutelage.evaluation.judge.endpoint import MORE_TRIES, EndpointJudge, ask_strictly
from tutelage.evaluation.judge.parse import Parsed, Unscored, parse_category, parse_score
from tutelage.rollout.episode import Limits, run_episode
from tutelage.rollout.switch import Never
from tutelage.store import RecordStore, read_records
from tutelage.tasks.registry import load_tasks
from tutelage.testing import ScriptedPolicy, make_trajectory
from tutelage.types import Actor, FailureCategory, StopReason, UnscoredReason


@dataclass(frozen=True)
class Answer:
    text: str
    finish_reason: str | None = "stop"


@dataclass
class Script:
    """A chat that gives one answer for ever, and keeps what it was asked."""

    text: str
    finish_reason: str | None = "stop"
    asked: list[list[dict[str, Any]]] = field(default_factory=list)

    def chat(self, messages: list[dict[str, Any]], *, response_format: Any = None, **draw: str) -> Answer:
        self.asked.append(list(messages))
        return Answer(self.text, self.finish_reason)


@pytest.fixture(scope="module")
def answers(fixtures: Path) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((fixtures / "judge" / "answers.json").read_text())
    assert len(loaded) == 12
    return loaded


def test_j1_an_answer_is_a_score_or_unscored_with_a_reason(answers: list[dict[str, Any]]) -> None:
    """openflipbook PR #142, vllm-omni PR #7317, agentv#480, smithers PR #378, benchflow PR #655, water#57: read as 0."""
    for answer in answers:
        script = Script(answer["text"])
        asked = ask_strictly(script, [], lambda text, reason: parse_score(text, low=0, high=10, finish_reason=reason))
        if "score" in answer:
            assert asked.result == Parsed(value=answer["score"]), answer["name"]
            assert len(asked.raw_answers) == 1
            continue
        assert isinstance(asked.result, Unscored), answer["name"]
        assert asked.result.reason == answer["reason"], answer["name"]
        # Asked again with the error shown, and then no more.
        assert len(script.asked) == len(asked.raw_answers) == 1 + MORE_TRIES
        assert f"This answer could not be used: {asked.result.detail}." in script.asked[-1][-1]["content"]


def test_j1_an_answer_cut_off_by_its_length_is_not_read(answers: list[dict[str, Any]]) -> None:
    """smithers PR #378, benchflow PR #655: finish reason 'length', and what stood there so far was taken."""
    good = next(answer for answer in answers if answer["name"] == "good")
    cut = parse_score(good["text"], low=0, high=10, finish_reason="length")
    assert isinstance(cut, Unscored)
    assert cut.reason is UnscoredReason.TRUNCATED


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.text(alphabet='{}[]":,0123456789.e-score \n`', max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["score", "a"]), inner, max_size=2)
            ),
            max_leaves=6,
        ).map(lambda value: json.dumps(value)),
    )
)
def test_j1_no_text_becomes_a_score_that_it_does_not_say(text: str) -> None:
    """agentv#480, water#57: whatever could not be read was 0; here a score stands in the text, or there is none."""
    got = parse_score(text, low=0, high=10)
    if isinstance(got, Parsed):
        assert '"score"' in text
        assert 0 <= got.value <= 10
    category = parse_category(text)
    assert isinstance(category, Unscored) or category.value in set(FailureCategory)


def test_j1_rates_by_reason_over_many_judgements(answers: list[dict[str, Any]], tmp_path: Path) -> None:
    """vllm-omni PR #7317, agentv#480: the share of unscored ones could be seen nowhere."""
    words = {'"score": 7': '"category": "tool_error"', '"score": 11': '"category": "bad luck"'}
    texts = [answer["text"] for answer in answers]
    for score, category in words.items():
        texts = [text.replace(score, category) for text in texts]
    store: RecordStore = RecordStore(tmp_path / "judgements.jsonl", "judgement")
    trajectories = [
        make_trajectory("s", [f"try {index}"], reward=0.0, sample_index=index) for index in range(len(texts))
    ]
    for trajectory, text in zip(trajectories, texts, strict=True):
        judge_all(
            [trajectory], EndpointJudge(chat=Script(text), model="script"), store, source=trajectory.trajectory_id
        )
    judgements = read_records(store.path, "judgement")
    assert len(judgements) == 12
    counts = unscored_counts(judgements)
    expected = Counter(one["reason"] for one in answers if "reason" in one)
    expected["schema"] += 1  # The good one with a score of 0, which names no category.
    assert {reason.value: count for reason, count in counts.items()} == dict(expected)
    assert [one.category for one in judgements if one.category is not None] == [FailureCategory.TOOL_ERROR] * 2
    assert all((one.category is None) != (one.reason is None) for one in judgements)


@contextmanager
def judging_server(texts: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """A chat server that answers text i to whoever asks about ``try i``; its URL, and how often each was asked."""
    asked = [0] * len(texts)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            index = next(index for index in range(len(texts)) if f"try {index}." in body)
            asked[index] += 1
            choice = {"index": 0, "message": {"role": "assistant", "content": texts[index]}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1}
            answer = json.dumps({"id": "a", "model": "script", "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_j1_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """openflipbook PR #142, agentv#480, benchflow PR #655: a verb that asks a server, and tells what it could not read."""
    texts = ['{"category": "tool_error"}', "null", '{"thought": "it was', '{"category": "bad luck"}', "no idea"]
    path = tmp_path / "trajectories.jsonl"
    store: RecordStore = RecordStore(path, "trajectory")
    for index in range(len(texts)):
        store.append(make_trajectory("s", [f"try {index}."], reward=0.0, sample_index=index))
    with judging_server(texts) as (url, asked):
        arguments = ["judge", str(path), "--judge", "endpoint", "--url", url, "--model", "script", "--json"]
        assert main(arguments) == 0
        [part] = json.loads(capsys.readouterr().out)["parts"]
        assert asked == [1, 3, 3, 3, 3]
        # What is stored is not asked again.
        assert main(arguments) == 0
        assert asked == [1, 3, 3, 3, 3]
    assert (part["failed"], part["asked"]) == (5, 5)
    judgements = read_records(tmp_path / "judgements.jsonl", "judgement")
    assert {one.trajectory_id: one.category or one.reason for one in judgements} == dict(
        zip(store.ids, ["tool_error", "schema", "truncated", "out_of_range", "no_json"], strict=True)
    )
    assert part["unscored"] == {"truncated": 1, "no_json": 1, "schema": 1, "out_of_range": 1}


def noop() -> ScriptedPolicy:
    return ScriptedPolicy([], then="wait and see")


@pytest.mark.parametrize("name", environment_names())
def test_j3_doing_nothing_is_not_rewarded(name: str) -> None:
    """R2E-Gym#27, R2E-Gym#5, AgentGym#50: tests that passed before anything was done paid for nothing."""
    try:
        [task] = load_tasks(name, "train", 0, 1)
        env = make_env(task)
        played = run_episode(task, env, {Actor.STUDENT: noop()}, Never(), Limits(max_steps=2), seed=0)
    except (MissingExtra, ConfigError) as error:
        pytest.skip(str(error).splitlines()[0])
    assert played.stop_reason in (StopReason.MAX_STEPS, StopReason.PARSE_ERROR)
    assert played.reward == 0.0


@pytest.mark.parametrize(
    ("fault", "found"),
    [("pays_for_nothing", "reward 0.5"), ("pays_everybody", "reward 1.0")],
)
def test_j3_the_check_of_environments_finds_it(
    counter_worlds: None, capsys: pytest.CaptureFixture[str], fault: str, found: str
) -> None:
    """R2E-Gym#27, AgentGym#50: no-op, random and oracle policies play, and a reward that is constant fails, exit code 1."""
    check: Callable[..., int] = main
    assert check(["env", "check", "counter_worlds", "--set", f"fault={fault}", "--episodes", "5", "--tasks", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    failed = [line.split()[1] for line in lines if line.startswith("FAIL")]
    assert failed == ["reward"]
    assert any(found in line for line in lines), lines
    assert any("no-op" in line for line in lines), lines
