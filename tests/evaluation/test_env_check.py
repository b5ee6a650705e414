"""A sound environment passes every check; each fault is caught by exactly the check that is there for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tutelage.errors import ConfigError
from tutelage.evaluation.env_check import CHECKS, CheckReport, CheckResult, Outcome, Problem, check_env

WORLDS = Path(__file__).parents[1] / "fixtures" / "env_check"

CAUGHT = {
    "shared_content": ("tasks", "panels 0 and 1 share content"),
    "not_plain": ("tasks", "settings['colours'] is ('amber', 'blue', 'green', 'red', 'violet', 'white') (tuple)"),
    "from_start": ("tasks", ""),
    "by_hash": ("manifest", ""),
    "lost_expert": ("policies", "does not know how it came here"),
    "free_reward": ("reward", "reward 0.1"),
    "weak_expert": ("reward", "mean reward 0.000 over 3 tasks"),
    "hidden_clock": ("reset", "Tick"),
    "shared_state": ("reset", ""),
    "hash_order": ("replay", "Lit: "),
    "late_limit": ("truncation", "an episode of 11 steps"),
    "win_truncated": ("truncation", "truncated"),
    "free_malformed": ("malformed", "neither terminated nor truncated"),
    "malformed_acts": ("malformed", ""),
    "nonsense_acts": ("malformed", ""),
    "slow": ("time limit", "ms (median of"),
    "close_once": ("close", "RuntimeError: closed already"),
    "undead": ("close", "it went through"),
    "leaks_thread": ("leaks", "threads (lamp-watcher)"),
    "leaks_file": ("leaks", "descriptors ("),
    "leaks_process": ("leaks", "processes that outlived it"),
    "special_token": ("texts", "'<|im_end|>' in "),
    "unsorted": ("admissible", "out of order or twice"),
    "lists_nothing": ("admissible", "the reply 'Nothing happens.'"),
    "moody_expert": ("expert", "of another expert"),
    "one_short": ("footprints", "step indices "),
    "edgeless": ("footprints", "no edge in any expert episode"),
    "unmarked": ("footprints", "effect 'no_effect' of a malformed action"),
    "forgets_steps": ("snapshot", ""),
    "always_done": ("progress", "progress 1.0, not won"),
}
"""Fault -> the check that catches it, and a part of what it got."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules can be imported, `lamp_worlds` besides."""
    monkeypatch.syspath_prepend(str(WORLDS))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def write(folder: Path, fault: str) -> str:
    """A module that is the lamp world with a fault; its name."""
    name = f"lamps_{fault}"
    (folder / f"{name}.py").write_text(
        "import lamp_worlds\n"
        f"ENVIRONMENT = lamp_worlds.spec({fault!r}, __name__)\n"
        f"Tasks = lamp_worlds.tasks_named({fault!r}, __name__)\n"
    )
    return name


def check(folder: Path, fault: str) -> CheckReport:
    return check_env(write(folder, fault), num_tasks=1, num_episodes=30)


@pytest.mark.parametrize("kind", ["none", "threaded", "tagged"])
def test_a_sound_world_passes_every_check(world: Path, kind: str) -> None:
    told: list[str] = []
    report = check_env(
        write(world, kind), num_tasks=2, num_episodes=30, on_result=lambda one: told.append(one.check), max_steps=9
    )
    assert (report.failed, report.skipped) == ((), ()), str(report)
    assert [one.check for one in report.results] == told == list(CHECKS)


def test_household_passes_every_check() -> None:
    report = check_env("household", num_tasks=6, num_episodes=60, size="small")
    assert (report.failed, report.skipped) == ((), ()), str(report)
    found = {one.check: one.found for one in report.results}
    assert found["tasks"].startswith("18 tasks of train, validation, test: plain JSON")
    assert found["reward"].startswith("no-op 0, expert 1.000 (at least 0.95), random ")
    assert found["leaks"].startswith("60 episodes (")


@pytest.mark.parametrize("fault", CAUGHT)
def test_a_fault_is_caught_by_its_check(world: Path, fault: str) -> None:
    expected, got = CAUGHT[fault]
    report = check(world, fault)
    assert report.failed == (expected,), str(report)
    problem = next(one.problem for one in report.results if one.outcome is Outcome.FAILED)
    assert problem is not None
    assert got in problem.got
    assert problem.where
    assert problem.expected
    assert problem.remedy


def test_what_the_environment_raises_is_told_with_its_place(world: Path) -> None:
    report = check(world, "explodes")
    assert report.failed == ("policies", "malformed")
    problem = next(one.problem for one in report.results if one.check == "policies")
    assert problem is not None
    assert problem.where == "task lamps-train-0, nonsense plays, step 0"
    assert problem.got.startswith("KeyError: 'xyzzy' (lamp_worlds.py, line ")


def test_a_process_that_dies_is_told(world: Path) -> None:
    report = check(world, "dies_elsewhere")
    assert report.failed == ("replay", "leaks")
    problem = next(one.problem for one in report.results if one.check == "replay")
    assert problem is not None
    assert problem.got == "not reached (it ended with exit code 3)"


def test_the_bound_of_the_expert(world: Path) -> None:
    name = write(world, "weak_expert")
    assert check_env(name, num_tasks=1, num_episodes=3, expert_at_least=0.0).passed


def test_a_name_or_an_option_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"env check: unknown 'houshold'. Did you mean 'household'?"):
        check_env("houshold")
    with pytest.raises(ConfigError, match=r"household tasks: option: unknown 'sise'. Did you mean 'size'?"):
        check_env("household", sise="small")
    with pytest.raises(ConfigError, match="0 tasks and 200 episodes, expected at least 1 of each"):
        check_env("household", num_tasks=0)


def test_a_report_in_words_and_as_json() -> None:
    problem = Problem(where="task a, step 1", got="1", expected="0", remedy="Mend it.")
    results = (
        CheckResult(check="tasks", outcome=Outcome.PASSED, found="2 tasks"),
        CheckResult(check="reward", outcome=Outcome.FAILED, found="task a, step 1", problem=problem),
        CheckResult(check="snapshot", outcome=Outcome.SKIPPED, found="not offered"),
    )
    report = CheckReport(env="lamps", results=results, seconds=1.25)
    assert str(report) == (
        "ok    tasks       2 tasks\n"
        "FAIL  reward      task a, step 1\n"
        "      got:      1\n"
        "      expected: 0\n"
        "      to do:    Mend it.\n"
        "skip  snapshot    not offered\n"
        "lamps is not sound: 1 checks passed, 1 failed (reward), 1 skipped, 1.2 s"
    )
    data = json.loads(json.dumps(report.to_json()))
    assert (data["env"], data["passed"], data["seconds"]) == ("lamps", False, 1.25)
    assert data["checks"][1] == {
        "check": "reward",
        "outcome": "failed",
        "found": "task a, step 1",
        "problem": {"where": "task a, step 1", "got": "1", "expected": "0", "remedy": "Mend it."},
    }
