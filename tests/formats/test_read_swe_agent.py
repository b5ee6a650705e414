"""SWE-agent files: T-34, T-35, and each way in which one is broken (D4, R2)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tutelage.errors import ConfigError
from tutelage.formats.align import Entry, Turn, align
from tutelage.formats.base import ReadOptions, ReadProblem
from tutelage.formats.read_swe_agent import read_swe_agent
from tutelage.formats.stop_reasons import swe_agent_stop
from tutelage.formats.submits import cut_at_first_submit, is_submit
from tutelage.selection.filters import HasExpertSteps, NoRepetition, NotTruncated, Solved
from tutelage.selection.ledger import select
from tutelage.types import Action, Actor, Message, ParsedCall, ParseOutcome, StopReason, Trajectory

FILES = Path(__file__).parents[1] / "fixtures" / "formats" / "traj"
EXPERT = ReadOptions(actor=Actor.EXPERT)


def read(name: str, options: ReadOptions = EXPERT) -> Trajectory:
    (made,) = read_swe_agent(FILES / name, options)
    assert isinstance(made, Trajectory), made
    return made


def problem(name: str) -> ReadProblem:
    (made,) = read_swe_agent(FILES / name, EXPERT)
    assert isinstance(made, ReadProblem)
    return made


def actors(trajectory: Trajectory) -> str:
    return "".join(step.actor[0] for step in trajectory.steps)


def test_t34_failed_attempts_are_no_steps() -> None:
    got = read("good.traj", ReadOptions(switch_indices={"good": 2}))
    assert actors(got) == "sse"
    assert got.switch_index == 2
    assert [[one.text for one in step.action.attempts] for step in got.steps] == [[], ["I think first."], []]
    assert [(one.step_index, one.actor) for one in got.switch_events] == [(2, Actor.EXPERT)]


def test_t35_without_a_known_author_the_reader_raises() -> None:
    assert actors(read("good.traj", ReadOptions(actor=Actor.STUDENT))) == "sss"
    with pytest.raises(
        ConfigError, match=r"good.traj: the file does not say who acted.*--actor expert.*--switch-index"
    ):
        list(read_swe_agent(FILES / "good.traj"))


def test_whole_trajectory() -> None:
    got = read("good.traj")
    assert (got.trajectory_id, got.task_id, got.env, got.stop_reason, got.reward) == (
        "good",
        "good",
        "repo",
        StopReason.COMPLETED,
        None,
    )
    assert got.goal == "The parser drops the last line. Repair it."
    first = got.steps[0].observation.messages
    assert [(one.role, one.content) for one in first] == [
        ("system", "You repair programs."),
        ("user", "The parser drops the last line. Repair it."),
    ]
    assert first[1].extra == {"agent": "main", "message_type": "observation"}, "one part of text is that text"
    assert got.steps[1].observation.text == "OBSERVATION:\nparse.py"
    assert got.final_observation is not None
    assert got.final_observation.text == "OBSERVATION:\ndiff --git a/parse.py b/parse.py"
    assert [step.action.call for step in got.steps] == [
        ParsedCall(name="bash", arguments={"command": command}) for command in ("ls", "cat parse.py", "submit")
    ]
    assert got.steps[0].action.text == "I look around.\n<function=bash>\n<parameter=command>ls</parameter>\n</function>"
    assert got.info["submission"] == "diff --git a/parse.py b/parse.py\n"
    assert (got.info["exit_status"], got.info["model"], got.info["cost"]) == ("submitted", "some-model", 0.5)
    assert [step.action.raw["state"] for step in got.steps if step.action.raw] == [
        '{"working_dir": "/repo"}',
        {"working_dir": "/repo"},
        {"working_dir": "/repo"},
    ]


@pytest.mark.parametrize(
    ("name", "reason", "byte"),
    [
        ("empty.traj", "empty", 0),
        ("cut.traj", "cut", 696),
        ("no_info.traj", "no_info", 0),
        ("no_trajectory.traj", "no_trajectory", 0),
    ],
)
def test_d4_broken_files_are_named_with_byte_and_reason(name: str, reason: str, byte: int) -> None:
    got = problem(name)
    assert (got.file, got.reason, got.byte) == (str(FILES / name), reason, byte)


@pytest.mark.parametrize("name", ["query.traj", "messages.traj"])
def test_d4_without_history_the_first_query_is_seen(name: str) -> None:
    """`query`, or `messages` in older files; the failed attempt is told by nothing executed and nothing seen."""
    got = read(name)
    assert got.goal == "The parser drops the last line. Repair it."
    assert [step.observation.messages[-1].content for step in got.steps[1:]] == [
        "parse.py",
        "def parse(text): return text.split('\\n')[:-1]",
    ]
    assert [len(step.action.attempts) for step in got.steps] == [0, 1, 0]


def test_r2_an_exit_at_the_cost_limit_is_truncated_and_invents_no_submit() -> None:
    got = read("exit_cost.traj")
    assert got.stop_reason is StopReason.MAX_STEPS
    assert (got.info["exit_status"], got.info["exit_message"]) == ("submitted (exit_cost)", "Exit due to cost limit")
    assert [step.action.call and step.action.call.arguments["command"] for step in got.steps] == ["ls", "cat parse.py"]
    assert "submit" not in json.dumps([step.action.text for step in got.steps])
    assert got.final_observation is not None
    assert got.final_observation.text.startswith("OBSERVATION:\ndef parse")
    assert NotTruncated().judge(got).reason == "truncated"


def test_r2_a_patch_that_passes_does_not_make_it_a_submission(tmp_path: Path) -> None:
    (tmp_path / "exit_cost.traj").write_bytes((FILES / "exit_cost.traj").read_bytes())
    (tmp_path / "report.json").write_text('{"exit_cost": {"resolved": true}}')
    (got,) = read_swe_agent(tmp_path / "exit_cost.traj", EXPERT)
    assert isinstance(got, Trajectory)
    assert (got.reward, got.stop_reason) == (1.0, StopReason.MAX_STEPS)
    assert Solved().judge(got).reason == "truncated_success"


def test_the_text_is_what_the_model_wrote_and_the_rewritten_turn_is_kept_apart() -> None:
    """The rewritten turn lost `new_str`; the call is read out of the model's own text."""
    got = read("switched.traj", ReadOptions())
    assert actors(got) == "see"
    first = got.steps[0].action
    assert first.text.startswith("I add the line.\n<function=str_replace_editor>")
    assert first.call == ParsedCall(
        name="str_replace_editor",
        arguments={"command": "insert", "path": "/repo/parse.py", "insert_line": "1", "new_str": "x = 'it''s'"},
    )
    assert first.raw is not None
    assert first.raw["rewritten"]["content"] == "I add the line."
    assert first.raw["rewritten"]["tool_calls"][0]["function"]["arguments"] == (
        '{"command": "insert", "path": "/repo/parse.py"}'
    )
    assert [step.action.call and step.action.call.name for step in got.steps] == [
        "str_replace_editor",
        "bash",
        "submit",
    ]
    assert got.steps[2].observation.messages == (
        Message(
            role="tool",
            content="OBSERVATION:\n2 passed",
            extra={
                "tool_call_ids": ["call_1"],
                "tool_call_id": "call_1",
            },
        ),
    )


def test_outer_space_is_no_rewriting_and_an_empty_response_no_text(tmp_path: Path) -> None:
    value = json.loads((FILES / "switched.traj").read_text())
    value["trajectory"][1]["response"] = "Now the tests.\n"
    value["history"][6]["content"] = "I hand it in."
    (tmp_path / "a.traj").write_text(json.dumps(value))
    (got,) = read_swe_agent(tmp_path / "a.traj", EXPERT)
    assert isinstance(got, Trajectory)
    assert [step.action.text for step in got.steps[1:]] == ["Now the tests.\n", "I hand it in."]
    assert [step.action.call and step.action.call.name for step in got.steps[1:]] == ["bash", "submit"]
    assert all("rewritten" not in (step.action.raw or {}) for step in got.steps[1:])


def test_demonstrations_are_seen_and_are_no_steps() -> None:
    got = read("demo.traj")
    assert len(got.steps) == 1
    assert [one.role for one in got.steps[0].observation.messages] == ["system", "user", "assistant", "user", "user"]
    assert got.goal == "The parser drops the last line. Repair it."


@pytest.mark.parametrize("index", [-1, 4, "2", True])
def test_a_switch_index_that_counts_something_else_is_refused(index: object, tmp_path: Path) -> None:
    value = json.loads((FILES / "good.traj").read_text()) | {"model_switch_idx": index}
    (tmp_path / "a.traj").write_text(json.dumps(value))
    (got,) = read_swe_agent(tmp_path / "a.traj", EXPERT)
    assert isinstance(got, ReadProblem)
    assert got.reason == "switch_index"


@pytest.mark.parametrize(
    ("status", "stop"),
    [
        ("submitted", StopReason.COMPLETED),
        ("submitted (exit_context)", StopReason.CONTEXT_OVERFLOW),
        ("exit_cost", StopReason.MAX_STEPS),
        ("exit_format", StopReason.PARSE_ERROR),
        ("submitted (exit_total_execution_time)", StopReason.TIMEOUT),
        ("exit_environment_error", StopReason.ENV_ERROR),
        ("exit_api", StopReason.POLICY_ERROR),
        ("early_exit", StopReason.INTERRUPTED),
        ("something new", StopReason.INTERRUPTED),
        (None, StopReason.INTERRUPTED),
    ],
)
def test_exit_statuses(status: str | None, stop: StopReason) -> None:
    assert swe_agent_stop(status) is stop


def test_an_end_of_the_machinery_has_no_reward_whatever_the_report_says(tmp_path: Path) -> None:
    value = json.loads((FILES / "good.traj").read_text())
    value["info"]["exit_status"] = "submitted (exit_command_timeout)"
    (tmp_path / "a.traj").write_text(json.dumps(value))
    (got,) = read_swe_agent(tmp_path / "a.traj", ReadOptions(actor=Actor.EXPERT, outcomes={"a": 1.0}))
    assert isinstance(got, Trajectory)
    assert (got.reward, got.info["resolved"]) == (None, True)


def test_side_files_fill_what_the_file_lacks(tmp_path: Path) -> None:
    value = json.loads((FILES / "good.traj").read_text())
    del value["info"]["exit_status"], value["info"]["submission"]
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "a.traj").write_text(json.dumps(value))
    (folder / "a.patch").write_bytes(b"+x\r\n\xff\n")
    (tmp_path / "run_batch_exit_statuses.yaml").write_text("instances_by_exit_status:\n  submitted: [a]\n")
    (tmp_path / "report.json").write_text('{"resolved_ids": ["a"], "unresolved_ids": ["b"]}')
    (got,) = read_swe_agent(folder / "a.traj", EXPERT)
    assert isinstance(got, Trajectory)
    assert (got.stop_reason, got.reward, got.info["submission"]) == (StopReason.COMPLETED, 1.0, "+x\r\n\ufffd\n")
    (tmp_path / "report.json").write_text('{"resolved_ids": ')
    (got,) = read_swe_agent(folder / "a.traj", EXPERT)
    assert isinstance(got, Trajectory)
    assert (got.reward, got.info["notes"]) == (
        None,
        ["report.json: cut: the JSON ends after 17 bytes in the middle of a value"],
    )


def test_filters_work_on_what_was_read() -> None:
    loop = [read("good.traj"), read("exit_cost.traj"), read("switched.traj", ReadOptions())]
    got = select(loop, [NotTruncated(), HasExpertSteps(), NoRepetition(max_reads=2)])
    assert [(one.reason, one.span) for one in got.verdicts] == [
        ("reading_run", (0, 1)),
        ("truncated", None),
        ("kept", None),
    ]


def test_a_step_without_command_is_malformed(tmp_path: Path) -> None:
    value = json.loads((FILES / "good.traj").read_text())
    for place in (value["trajectory"][0], value["history"][2]):
        place["action"] = ""
        place["response" if "response" in place else "content"] = "Just thinking."
    (tmp_path / "a.traj").write_text(json.dumps(value))
    (got,) = read_swe_agent(tmp_path / "a.traj", EXPERT)
    assert isinstance(got, Trajectory)
    assert [step.action.parse for step in got.steps] == [ParseOutcome.MALFORMED, ParseOutcome.CLEAN, ParseOutcome.CLEAN]


def test_an_expert_that_submits_twice_is_cut_at_the_first_when_told() -> None:
    good = read("good.traj")
    twice = replace(good, steps=(*good.steps[:2], good.steps[2], good.steps[0], good.steps[2]))
    got, taken = cut_at_first_submit(twice)
    assert (got.steps, taken, got.final_observation) == (good.steps, 2, good.steps[0].observation)
    assert got.info["steps_after_first_submit"] == 2
    assert cut_at_first_submit(good) == (good, 0)
    assert cut_at_first_submit(replace(good, steps=good.steps[:2]))[1] == 0
    assert [is_submit(step.action) for step in good.steps] == [False, False, True]
    assert is_submit(Action.of(" submit\n"))
    assert is_submit(Action(text="", command="submit {}", call=ParsedCall(name="submit")))
    assert not is_submit(Action.of("git submit"))


def test_align() -> None:
    def turn(text: str, answer: str = "") -> Turn:
        return Turn(text, "", "", answer)

    def entry(text: str, seen: str = "") -> Entry:
        return Entry(text, "", "", seen)

    turns = [turn(one) for one in "ABC"]
    assert align(turns, [entry(one) for one in "AXBC"]) == [0, 2, 3]
    assert align(turns, [entry(one) for one in "XYABZC"]) == [2, 3, 5]
    assert align(turns, [entry(one) for one in "AC"]) == [0, None, 1]
    assert align(turns, []) == [None, None, None]
    # Rewritten: the answer tells which reply it was.
    rewritten = [turn("b rewritten", "OBSERVATION: seen b"), turn("C")]
    assert align(rewritten, [entry("failed"), entry("b", "seen b"), entry("C")]) == [1, 2]
