"""Proving an environment sound: every check, one after the other, each with what it found.

    report = check_env("household")
    assert report.passed, str(report)

In: the name of an environment. Out: a report. To add a check: a function Case -> text that raises `Fault`, and one line in
`CHECKS`.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tutelage.envs.registry import find_environment
from tutelage.errors import MENDABLE, ConfigError, MissingExtra
from tutelage.evaluation.env_check.case import Case
from tutelage.evaluation.env_check.ending_checks import check_close, check_leaks
from tutelage.evaluation.env_check.limit_checks import check_malformed, check_time_limit, check_truncation
from tutelage.evaluation.env_check.play_checks import (
    check_admissible,
    check_expert,
    check_footprints,
    check_policies,
    check_progress,
    check_reward,
    check_texts,
)
from tutelage.evaluation.env_check.repeat_checks import check_replay, check_reset, check_snapshot
from tutelage.evaluation.env_check.report import CheckReport, CheckResult, Fault, Outcome, Problem, Skip
from tutelage.evaluation.env_check.task_checks import check_manifest, check_tasks

Check = Callable[[Case], str]

CHECKS: Final[dict[str, Check]] = {
    "tasks": check_tasks,
    "manifest": check_manifest,
    "policies": check_policies,
    "reward": check_reward,
    "reset": check_reset,
    "replay": check_replay,
    "truncation": check_truncation,
    "malformed": check_malformed,
    "time limit": check_time_limit,
    "close": check_close,
    "leaks": check_leaks,
    "texts": check_texts,
    "admissible": check_admissible,
    "expert": check_expert,
    "footprints": check_footprints,
    "snapshot": check_snapshot,
    "progress": check_progress,
}
"""Name -> check, in the order in which they are made."""

NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "manifest": ("tasks",),
    "replay": ("reset",),
    "truncation": ("reset",),
    "malformed": ("reset", "truncation"),
    "snapshot": ("reset",),
    "expert": ("reset",),
}
"""Check -> those without which it would only say the same again."""


def check_env(
    name: str,
    /,
    *,
    num_tasks: int | None = None,
    num_episodes: int = 200,
    expert_at_least: float | None = None,
    on_start: Callable[[str], None] | None = None,
    on_result: Callable[[CheckResult], None] | None = None,
    **options: Any,
) -> CheckReport:
    """Check an environment of tutelage's or of your own.

    num_tasks: tasks of each split that are played; None: 8, or 2 where a step may wait (inline False).
    num_episodes: short episodes after which nothing may be left.
    expert_at_least: mean reward that the expert must reach; None: as its EnvSpec says.
    on_start, on_result: get the name of each check before it is made, and its result.
    options: of the task set, e.g. ``size="real"``.

    Raises ConfigError, MissingExtra or FormatError where there is nothing to check: an unknown name or option, an extra
    that is not installed, games that cannot be read.
    """
    if (num_tasks is not None and num_tasks < 1) or num_episodes < 1:
        raise ConfigError(f"env check: {num_tasks} tasks and {num_episodes} episodes, expected at least 1 of each.")
    started = time.monotonic()
    case = Case(
        spec=find_environment(name, "env check"),
        options=options,
        num_tasks=num_tasks,
        num_episodes=num_episodes,
        expert_at_least=expert_at_least,
    )
    results: list[CheckResult] = []
    for check in CHECKS:
        if on_start is not None:
            on_start(check)
        results.append(_made(check, case, {one.check: one.outcome for one in results}))
        if on_result is not None:
            on_result(results[-1])
    return CheckReport(env=name, results=tuple(results), seconds=time.monotonic() - started)


def _made(check: str, case: Case, before: dict[str, Outcome]) -> CheckResult:
    """Make one check. Whatever the environment raises is a failure of this check, and never ends the others."""
    failed = [one for one in NEEDS.get(check, ()) if before.get(one) is not Outcome.PASSED]
    if before.get("tasks") is Outcome.FAILED and "panels" not in case.__dict__:
        return CheckResult(check=check, outcome=Outcome.SKIPPED, found="no tasks could be loaded")
    if failed:
        return CheckResult(check=check, outcome=Outcome.SKIPPED, found=f"needs '{failed[0]}' to pass first")
    try:
        return CheckResult(check=check, outcome=Outcome.PASSED, found=CHECKS[check](case))
    except Skip as skip:
        return CheckResult(check=check, outcome=Outcome.SKIPPED, found=str(skip))
    except Fault as fault:
        problem = Problem(where=fault.where, got=fault.got, expected=fault.expected, remedy=fault.remedy)
        return CheckResult(check=check, outcome=Outcome.FAILED, found=fault.where, problem=problem)
    except MissingExtra:
        raise
    except Exception as error:
        if check == "tasks" and isinstance(error, MENDABLE):
            raise
        return _broken(check, error)


def _broken(check: str, error: Exception) -> CheckResult:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    where = "; ".join(getattr(error, "__notes__", [])) or f"check '{check}'"
    problem = Problem(
        where=where,
        got=f"{type(error).__name__}: {error}{place}",
        expected="no exception",
        remedy="Mend it there. What an agent does wrong is answered with an observation, never with an exception.",
    )
    return CheckResult(check=check, outcome=Outcome.FAILED, found=where, problem=problem)
