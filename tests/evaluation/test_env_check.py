"""A sound environment passes every check; each fault is caught by exactly the check that is there for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutelage.evaluation.env_check import CHECKS, CheckReport, check_env
from tutelage.evaluation.env_check.report import Outcome

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


def test_a_sound_world_passes_every_check(world: Path) -> None:
    report = check(world, "none")
    assert report.failed == ()
    assert report.skipped == ()
    assert [one.check for one in report.results] == list(CHECKS)


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
