"""Reports about endings: a cap taken for success, an invented submit, and a dead environment that was played on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tutelage.cli.main import main
from tutelage.envs.action_formats import TagFormat
from tutelage.formats.base import FormatLedger, ReadOptions
from tutelage.formats.export import export
from tutelage.formats.registry import read_all
from tutelage.policies.base import PartialTrajectory, SingleActPolicy
from tutelage.rollout.episode import Limits, run_episode
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import Never
from tutelage.run_dir import RunDir
from tutelage.selection.filters import NotTruncated, Solved
from tutelage.store import read_records
from tutelage.supervision.step_masks import all_steps
from tutelage.testing import CountingEnv, CountingWorld, ScriptedPolicy, counting_task
from tutelage.types import Action, Actor, Observation, ParseOutcome, StopReason, Trajectory

S = Actor.STUDENT
PlayByCommandLine = Callable[..., RunDir]


def adding() -> ScriptedPolicy:
    return ScriptedPolicy([], then="add")


@pytest.mark.parametrize(
    ("settings", "limits"),
    [
        ({"target": 99, "max_steps": 3}, Limits()),
        ({"target": 99}, Limits(max_steps=3)),
        ({"target": 99}, Limits(student_max_steps=3)),
    ],
    ids=["of the environment", "of the episode", "of the student"],
)
def test_r1_a_step_cap_is_no_completion(settings: dict[str, Any], limits: Limits) -> None:
    """trl PR #5318, trl PR #4976, prime-rl PR #856: a rollout that met its cap was recorded as a finished one."""
    task = counting_task(**settings)
    trajectory = run_episode(task, CountingEnv(task), {S: adding()}, Never(), limits, seed=0)
    assert (trajectory.stop_reason, trajectory.terminated, len(trajectory.steps)) == (StopReason.MAX_STEPS, False, 3)
    assert Solved().judge(trajectory).reason == "not_successful"


class Says(SingleActPolicy):
    """The given actions in order."""

    def __init__(self, *actions: Action) -> None:
        self.actions = actions

    def act(self, so_far: PartialTrajectory) -> Action:
        return self.actions[len(so_far.steps)]


def cut_off(text: str) -> Action:
    return Action(text=text, command=text, parse=ParseOutcome.ENDED_WITHOUT_STOP)


@pytest.mark.parametrize("target", [3, 1], ids=["unsolved", "solved by the part that came"])
def test_r1_a_reply_cut_off_by_its_length_truncates_the_episode(target: int) -> None:
    """OpenRLHF PR #1327, stella#1079: finish reason 'length' in step 1 of 3, and the episode counted as completed."""
    task = counting_task(target=target)
    player = Says(cut_off("add"), Action.of("add"), Action.of("add"))
    trajectory = run_episode(task, CountingEnv(task), {S: player}, Never(), seed=0)
    assert (trajectory.stop_reason, trajectory.terminated) == (StopReason.MAX_TOKENS, False)
    assert [step.action.parse for step in trajectory.steps] == [ParseOutcome.ENDED_WITHOUT_STOP]
    assert Solved().judge(trajectory).reason == ("not_successful" if target == 3 else "truncated_success")


class TaggedCounter(CountingEnv):
    """Takes its commands out of tags."""

    action_format = TagFormat(tags={"do": "what"}, help="Say <do>add</do>.")

    def step(self, action: Action) -> Any:
        call = self.action_format.apply(action).call
        return super().step(Action.of(call.arguments["what"] if call else "nothing"))


def test_r1_reading_a_reply_again_does_not_forget_that_it_was_cut_off() -> None:
    """OpenRLHF PR #1327, stella#1079: the parser found a whole call in the part that came, and called it clean."""
    task = counting_task(target=3)
    player = Says(cut_off("<do>add</do> and then"), Action.of("<do>add</do>"))
    trajectory = run_episode(task, TaggedCounter(task), {S: player}, Never(), seed=0)
    assert trajectory.stop_reason is StopReason.MAX_TOKENS
    assert trajectory.steps[0].action.parse is ParseOutcome.ENDED_WITHOUT_STOP


def test_r1_by_the_command_line(play_by_command_line: PlayByCommandLine) -> None:
    """trl PR #5318, prime-rl PR #856: what the run says of capped episodes, and that the filter leaves them out."""
    run = play_by_command_line("step_cap")
    assert [one.stop_reason for one in trajectories(run)] == [StopReason.MAX_STEPS] * 3
    assert json.loads(run.ledger_path("first").read_text())["dropped"] == {"not_successful": 3}


def trajectories(run: RunDir) -> list[Any]:
    return read_records(run.trajectories_path("first"), "trajectory")


def read_folder(folder: Path) -> dict[str, Trajectory]:
    options, ledger = ReadOptions(actor=Actor.EXPERT), FormatLedger(format="auto")
    return {one.trajectory_id: one for one in read_all("auto", [folder], options, ledger)}


def test_r2_an_exit_at_the_cost_limit_is_no_submit(fixtures: Path, tmp_path: Path) -> None:
    """SWE-smith's conversion, RPent PR #61: the end by cost limit was turned into a submit turn and learnt from."""
    read = read_folder(fixtures / "traj")
    capped = read["cost_limit"]
    assert capped.info["exit_status"] == "submitted (exit_cost)"
    assert (capped.stop_reason, capped.terminated) == (StopReason.MAX_STEPS, False)
    assert [step.action.command for step in capped.steps] == ["cat add.py", "sed -i s/-/+/ add.py"]
    assert capped.info["exit_message"] == "Exit due to cost limit"
    solved = replace(capped, reward=1.0)
    assert (Solved().judge(solved).keep, Solved().judge(solved).reason) == (False, "truncated_success")
    assert NotTruncated().judge(capped).keep is False
    # And what is written of it has no submit either.
    export("openai", [capped], tmp_path / "rows.jsonl", supervise=all_steps)
    messages = json.loads((tmp_path / "rows.jsonl").read_text())["messages"]
    assert [one["content"] for one in messages if one["role"] == "assistant"] == [s.action.text for s in capped.steps]


def test_r2_a_run_that_was_killed_has_no_outcome(fixtures: Path) -> None:
    """SWE-smith's conversion, mini-swe-agent#329: the file ends without a status, and that is not a success."""
    read = read_folder(fixtures / "traj")
    killed, finished = read["mini-killed"], read["mini-finished"]
    assert (killed.stop_reason, killed.reward) == (StopReason.INTERRUPTED, None)
    assert (finished.stop_reason, finished.info["exit_status"]) == (StopReason.COMPLETED, "Submitted")
    assert [step.action.command for step in killed.steps] == ['bash {"command": "cat add.py"}']


def test_r2_by_the_command_line(fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """RPent PR #61: imported, filtered as a recipe filters, and nothing of it reaches the training data."""
    out = tmp_path / "t.jsonl"
    source = str(fixtures / "traj" / "cost_limit.traj")
    assert main(["import", "swe_agent", source, "--actor", "expert", "--out", str(out)]) == 0
    rows_out = tmp_path / "rows.jsonl"
    arguments = ["export", "openai", str(out), "--mask", "expert_steps", "--out", str(rows_out)]
    assert main([*arguments, "--select", "not_truncated"]) != 0
    assert not rows_out.exists()
    assert "select  1 in  0 kept  1 truncated" in capsys.readouterr().err


def test_r5_one_clock_over_all_phases() -> None:
    """AReaL#548, agent-lightning#586, hud PR #426: limits per phase added up to more than the total, or held nothing."""
    world = CountingWorld()
    tasks = [
        counting_task("slow", target=2, hang_reward=5.0, inline=False),
        counting_task("both", target=2, hang_reset=1.0, hang_at=0, hang_seconds=1.5, inline=False),
        *(counting_task(f"sibling-{index}", target=2, inline=False) for index in range(3)),
    ]
    limits = Limits(episode_seconds=2.0)
    began = time.monotonic()
    summary = run_rollouts(
        make_jobs(tasks), policies={S: adding()}, rule=Never(), limits=limits, retries=0, make_env=world.make
    )
    assert time.monotonic() - began < 2.5
    found = {one.task_id: (one.stop_reason, one.reward) for one in summary.trajectories}
    assert found["slow"] == found["both"] == (StopReason.TIMEOUT, None)
    assert [found[f"sibling-{index}"] for index in range(3)] == [(StopReason.COMPLETED, 1.0)] * 3
    assert world.num_closed == world.num_made == 5


def test_r5_a_dead_environment_ends_the_rollout_at_once() -> None:
    """verifiers PR #1258, prime-rl PR #2360, mini-swe-agent#803: 300 steps were played on a container that was gone."""
    task = counting_task(target=99, die_at=2)
    policy = adding()
    asked: list[int] = []

    class Asked(ScriptedPolicy):
        def act(self, so_far: Any) -> Action:
            asked.append(len(so_far.steps))
            return policy.act(so_far)

    summary = run_rollouts(
        make_jobs([task]), policies={S: Asked([], then="add")}, rule=Never(), retries=0, make_env=CountingEnv
    )
    [trajectory] = summary.trajectories
    assert (trajectory.stop_reason, trajectory.reward, len(trajectory.steps)) == (StopReason.ENV_ERROR, None, 2)
    assert trajectory.error == "EnvError: task count-1, step 2: the counter's process died"
    assert asked == [0, 1, 2]
    assert Solved().judge(trajectory).reason == "unscored"


def test_r5_a_lost_reward_cannot_be_recorded_as_zero() -> None:
    """AReaL#548, agent-lightning#586: a reward that could not be computed was written as 0 and learnt from."""
    from tutelage.testing import make_trajectory

    for reason in (StopReason.TIMEOUT, StopReason.ENV_ERROR):
        assert make_trajectory("s", stop_reason=reason).reward is None
        with pytest.raises(ValueError, match=rf"{reason} carries reward 0\.0, expected None"):
            with_reward(reason)


def with_reward(reason: StopReason) -> Any:
    return Trajectory(
        trajectory_id="t", task_id="t", env="e", steps=(), final_observation=Observation.of("end"),
        stop_reason=reason, reward=0.0, seed=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "limits", "reason"),
    [("dies", "{}", StopReason.ENV_ERROR), ("hangs", "{episode_seconds: 0.3}", StopReason.TIMEOUT)],
)
def test_r5_by_the_command_line(play_by_command_line: PlayByCommandLine, fault: str, limits: str, reason: Any) -> None:
    """prime-rl PR #2360, mini-swe-agent#803: the run itself ends in order, and its account names the unscored ones."""
    began = time.monotonic()
    run = play_by_command_line(fault, limits=limits)
    assert time.monotonic() - began < 10.0
    assert [(one.stop_reason, one.reward) for one in trajectories(run)] == [(reason, None)] * 3
    assert json.loads(run.ledger_path("first").read_text())["dropped"] == {"unscored": 3}
