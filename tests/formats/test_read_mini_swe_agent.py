"""mini-swe-agent files: versions, the exit message, runs that were killed (R2, C3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tutelage.formats.base import ReadOptions, ReadProblem, Refused
from tutelage.formats.read_mini_swe_agent import check_version, read_mini_swe_agent
from tutelage.formats.stop_reasons import mini_stop
from tutelage.types import Actor, ParsedCall, ParseOutcome, StopReason, Trajectory

FILES = Path(__file__).parents[1] / "fixtures" / "formats" / "mini"
EXPERT = ReadOptions(actor=Actor.EXPERT)


def read(name: str) -> Trajectory:
    (made,) = read_mini_swe_agent(FILES / f"{name}.traj.json", EXPERT)
    assert isinstance(made, Trajectory), made
    return made


def test_finished() -> None:
    got = read("finished")
    assert (got.trajectory_id, got.env, got.stop_reason, got.reward) == ("parser-1", "repo", StopReason.COMPLETED, None)
    assert [step.action.call for step in got.steps] == [
        ParsedCall(name="bash", arguments={"command": "ls"}),
        ParsedCall(name="bash", arguments={"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"}),
    ]
    assert got.final_observation is None, "the exit message is none"
    assert got.info["exit_message"] == got.info["submission"] == "diff --git a/parse.py b/parse.py\n"
    assert (got.info["model"], got.info["cost"], got.info["exit_status"]) == ("some-model", 0.2, "Submitted")


def test_r2_a_limit_is_no_submission() -> None:
    got = read("limit")
    assert (got.stop_reason, got.info["exit_status"], len(got.steps)) == (StopReason.MAX_STEPS, "LimitsExceeded", 1)
    assert "submission" not in got.info
    assert got.final_observation is not None
    assert got.final_observation.messages[0].extra == {"tool_call_id": "c1", "extra": {"returncode": 0}}


def test_c3_a_killed_run_keeps_what_it_did() -> None:
    got = read("killed")
    assert (got.stop_reason, got.reward, len(got.steps)) == (StopReason.INTERRUPTED, None, 1)


def test_text_models_act_by_the_one_block() -> None:
    got = read("text_blocks")
    assert got.trajectory_id == "text_blocks"
    assert [step.action.call for step in got.steps] == [ParsedCall(name="bash", arguments={"command": "ls -la"}), None]
    assert got.steps[1].action.parse is ParseOutcome.MALFORMED
    assert got.steps[1].action.text.startswith("two\n")


def test_versions(tmp_path: Path) -> None:
    assert check_version("mini-swe-agent-1") == check_version("mini-swe-agent-1.1") == []
    assert check_version("mini-swe-agent-1.7") == [
        "trajectory_format mini-swe-agent-1.7 is newer than mini-swe-agent-1.1"
    ]
    assert check_version(None) == ["no trajectory_format in the file"]
    for version in ("mini-swe-agent-2", "other-1.0", 3):
        with pytest.raises(Refused, match="version"):
            check_version(version)
    value = json.loads((FILES / "finished.traj.json").read_text()) | {"trajectory_format": "mini-swe-agent-2.0"}
    (tmp_path / "a.traj.json").write_text(json.dumps(value))
    (got,) = read_mini_swe_agent(tmp_path / "a.traj.json", EXPERT)
    assert isinstance(got, ReadProblem)
    assert (got.reason, got.byte) == ("version", 0)


@pytest.mark.parametrize(
    ("status", "stop"),
    [
        ("Submitted", StopReason.COMPLETED),
        ("LimitsExceeded", StopReason.MAX_STEPS),
        ("TimeExceeded", StopReason.TIMEOUT),
        ("RepeatedFormatError", StopReason.PARSE_ERROR),
        ("UserInterruption", StopReason.INTERRUPTED),
        ("RateLimitError", StopReason.POLICY_ERROR),
        ("ContextWindowExceededError", StopReason.CONTEXT_OVERFLOW),
        ("ZeroDivisionError", StopReason.ENV_ERROR),
        ("", StopReason.INTERRUPTED),
        (None, StopReason.INTERRUPTED),
    ],
)
def test_exit_statuses(status: str | None, stop: StopReason) -> None:
    assert mini_stop(status) is stop
