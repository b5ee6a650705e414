"""The verb `judge`: on a file, on a run, with a model behind a server, and against labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tutelage.cli.main import main
from tutelage.recipe import load_recipe
from tutelage.store import RecordStore, read_records
from tutelage.testing import make_trajectory
from tutelage.testing.fault_server import FaultServer
from tutelage.types import StopReason, Trajectory

NOTHING = "You are in the middle of a room. Looking quickly around you, you see nothing."


def loop(identity: str, **fields: Any) -> Trajectory:
    return make_trajectory(
        "ssss",
        ["look"] * 4,
        ["start", *[NOTHING] * 4],
        env="household",
        reward=0.0,
        stop_reason=StopReason.MAX_STEPS,
        trajectory_id=identity,
        task_id=identity,
        **fields,
    )


def write(path: Path, *trajectories: Trajectory) -> Path:
    store = RecordStore(path, "trajectory")
    for one in trajectories:
        store.append(one)
    return path


@pytest.fixture
def played(tmp_path: Path) -> Path:
    """A loop, an ending without a reason, a success, and one that was not scored."""
    return write(
        tmp_path / "trajectories.jsonl",
        loop("a"),
        make_trajectory("s", env="household", reward=0.0, trajectory_id="b", task_id="b"),
        make_trajectory("s", env="household", reward=1.0, trajectory_id="c", task_id="c"),
        make_trajectory("s", env="household", stop_reason=StopReason.ENV_ERROR, trajectory_id="d", task_id="d"),
    )


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def test_a_file_is_judged_by_rules(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "judge", str(played)).splitlines() == [
        f"{played}: 2 failed, 1 succeeded, 1 not scored",
        "category       failures  share       95 %  completed  not completed  student last",
        "infinite_loop         1   50 %  9 to 91 %    0 (0 %)      1 (100 %)      1 (50 %)",
        "other                 1   50 %  9 to 91 %  1 (100 %)        0 (0 %)      1 (50 %)",
        "all                   2                            1              1             2",
        "",
        f"-> {played.parent / 'judgements.jsonl'}",
    ]
    judged = read_records(played.parent / "judgements.jsonl", "judgement")
    assert [(one.trajectory_id, one.category, one.rule, one.span) for one in judged] == [
        ("a", "infinite_loop", "repeated_actions", (0, 3)),
        ("b", "other", "", None),
    ]


def test_again_it_reads_what_is_there(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = said(capsys, "judge", str(played))
    before = (played.parent / "judgements.jsonl").read_bytes()
    assert said(capsys, "judge", str(played)) == first
    assert (played.parent / "judgements.jsonl").read_bytes() == before
    told = json.loads(said(capsys, "judge", str(played), "--json"))
    [part] = told["parts"]
    assert (part["failed"], part["succeeded"], part["not_scored"], part["asked"], part["stored"]) == (2, 1, 1, 0, 2)
    assert part["categories"]["infinite_loop"]["all"]["count"] == 1


def test_labels(played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = tmp_path / "labels.jsonl"
    rows = [("a", "infinite_loop"), ("b", "wrong_solution"), ("x", "other")]
    labels.write_text("".join(json.dumps({"trajectory_id": i, "category": c}) + "\n" for i, c in rows))
    out = said(capsys, "judge", str(played), "--labels", str(labels))
    assert "agreement 1 of 2 (0.500 [0.095, 0.905]), Cohen's kappa 0.333; 3 labels, 1 not judged." in out
    told = json.loads(said(capsys, "judge", str(played), "--labels", str(labels), "--json"))
    assert told["agreement"]["confusion"] == {"infinite_loop": {"infinite_loop": 1}, "wrong_solution": {"other": 1}}


def test_a_model_judges_over_http(played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = {"a": '{"explanation": "It looks.", "category": "infinite_loop"}', "b": "I would rather not say."}

    def reply(body: dict[str, Any]) -> str:
        asked = body["messages"][1]["content"]
        return next(answers[name] for name in answers if f"## Task\n{name}\n" in asked)

    out = tmp_path / "by_model" / "judgements.jsonl"
    with FaultServer(reply=reply) as server:
        arguments = [
            "judge",
            str(played),
            "--judge",
            "endpoint",
            "--url",
            server.url,
            "--model",
            "m",
            "--out",
            str(out),
        ]
        shown = said(capsys, *arguments)
        assert sum(server.answered.values()) == 4  # One for a, three for b.
        assert said(capsys, *arguments) == shown
        assert sum(server.answered.values()) == 4
    assert "1 unscored: no_json (50 %)" in shown
    judged = {one.trajectory_id: one for one in read_records(out, "judgement")}
    assert (judged["a"].category, judged["a"].explanation) == ("infinite_loop", "It looks.")
    assert (judged["b"].reason, judged["b"].unparsed, len(judged["b"].raw_answers)) == ("no_json", True, 3)


def test_a_server_without_an_answer_leaves_all_unscored(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FaultServer(status=(400, {"error": {"message": "no"}})) as server:
        told = json.loads(
            said(capsys, "judge", str(played), "--judge", "endpoint", "--url", server.url, "--model", "m", "--json")
        )
    assert told["parts"][0]["unscored"] == {"transport": 2}
    assert told["parts"][0]["categories"] == {}


def test_too_many_unscored_ones_are_told_by_the_exit_code(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FaultServer(reply=lambda body: "I do not know.") as server:
        arguments = ["judge", str(played), "--judge", "endpoint", "--url", server.url, "--model", "m"]
        assert said(capsys, *arguments, "--max-unscored", "2")
        assert said(capsys, *arguments, "--max-unscored", "1", code=3).endswith("2 unscored, at most 1 were allowed\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--judge", "rule"], "Did you mean 'rules'"),
        (["--judge", "endpoint"], "an endpoint needs --url and --model"),
        (
            ["--judge", "endpoint", "--url", "http://127.0.0.1:9", "--model", "m", "--votes", "2"],
            "expected an odd number",
        ),
        (["--judge", "endpoint", "--url", "http://127.0.0.1:9", "--model", "m", "--answer", "xml"], "answer form"),
        (["--judge", "endpoint", "--url", "http://127.0.0.1:9", "--model", "m", "--server", "x"], "judge: server"),
    ],
)
def test_what_cannot_be_asked_for(
    arguments: list[str], message: str, played: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in said(capsys, "judge", str(played), *arguments, code=2)


def test_a_run_is_judged_part_by_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.yaml").write_text(load_recipe("smoke/household_oec").to_yaml())
    write(tmp_path / "rollouts" / "corrections" / "trajectories.jsonl", loop("a"))
    write(tmp_path / "evaluations" / "corrected" / "trajectories.jsonl", loop("a"), loop("b"))
    out = said(capsys, "judge", str(tmp_path))
    assert [line.split(":")[0] for line in out.splitlines() if "failed" in line] == [
        "rollouts/corrections",
        "evaluations/corrected",
    ]
    judged = read_records(tmp_path / "judgements.jsonl", "judgement")
    assert [(one.source, one.trajectory_id) for one in judged] == [
        ("rollouts/corrections", "a"),
        ("evaluations/corrected", "a"),
        ("evaluations/corrected", "b"),
    ]
    only = said(capsys, "judge", str(tmp_path), "corrected")
    assert only.startswith("evaluations/corrected: 2 failed")


def test_a_run_in_which_nothing_was_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.yaml").write_text(load_recipe("smoke/household_oec").to_yaml())
    assert "nothing has been played yet" in said(capsys, "judge", str(tmp_path), code=2)
