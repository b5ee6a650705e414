"""The replay audit of two students, the search for a better graph signal, and its proof on games it never saw.

    python studies/graphopd/audit.py --early MODEL --late MODEL [--games FOLDER] [--closed-loop N]

MODEL is the folder of a student: one trained by imitation only (early), one trained further (late). FOLDER holds real
ALFWorld games as split/task/trial. Trajectories and rows go into --cache and are used again; the tables and the pictures
go into results/audit/.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tutelage.analysis.closed_loop import ClosedLoop, closed_loop_impact
from tutelage.analysis.credit import CreditCase, score_cases
from tutelage.analysis.credit_audit import AuditResult, run_audit
from tutelage.analysis.credit_search import Audited, Found, candidate_signals, candidates, search_signals
from tutelage.analysis.credit_tables import CreditTable, in_second_half, make_tables
from tutelage.analysis.ranks import is_constant, rank_correlation
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.local import LocalPolicy
from tutelage.reports.audit import Audit, write_audit
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import Never, SwitchRule, UniformStep
from tutelage.store import RecordStore, write_atomic
from tutelage.supervision.aptitude import AptitudeConfig
from tutelage.supervision.footprints import KINDS
from tutelage.tasks.household import HouseholdTasks
from tutelage.tasks.registry import load_tasks
from tutelage.types import Actor, Task, Trajectory, stable_hash

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "audit"
CACHE = HERE.parents[1] / "runs" / "study-graphopd" / "audit"
FIRST_GAME = 14_000
"""Train games from here on: beyond those that the students of the study were trained and corrected on."""
MAX_STEPS = 40
TEMPERATURE = 0.4
SPLIT_SEED = 0

FIXED = {
    "published (walk, text)": AptitudeConfig(alpha=0.0),
    "degree, text": AptitudeConfig(alpha=0.0, structure="degree"),
}
"""Signals that nothing was chosen about, for comparison."""


@dataclass(frozen=True)
class Source:
    """Trajectories of one kind, with the tasks they were played on."""

    name: str
    trajectories: list[Trajectory]
    tasks: dict[str, Task]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--early", type=Path, required=True)
    parser.add_argument("--late", type=Path, required=True)
    parser.add_argument("--games", type=Path)
    parser.add_argument("--count", type=int, default=1000, help="trajectories of each student")
    parser.add_argument("--closed-loop", type=int, default=0, help="trajectories of each student")
    parser.add_argument("--no-search", action="store_true", help="the tables alone")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    command = "python studies/graphopd/audit.py --early MODEL --late MODEL"
    models = {"early": options.early, "late": options.late}
    sources = [generated(name, model, options.count, options.cache) for name, model in models.items()]
    audited = {source.name: audit(source) for source in sources}
    loops = f" --closed-loop {options.closed_loop}" if options.closed_loop else ""
    if options.closed_loop:
        found_loops: dict[str, ClosedLoop] = {}
        for source in sources:
            found = closed(source, audited[source.name], models[source.name], options.closed_loop, options.cache)
            audited[source.name] = with_loops(audited[source.name], found)
            found_loops |= found
        cases = [case for result in audited.values() for case in result.cases if case.closed_loop is not None]
        write_atomic(RESULTS / "closed_loop.md", closed_text(cases, found_loops, command + loops).encode())
    report("generated", "Replay audit, generated games", command + loops, audited, options.cache)
    if options.games is not None:
        real = real_games(options.games, options.late, options.cache)
        on_real = {source.name: audit(source) for source in real}
        report("real", "Replay audit, real ALFWorld games", f"{command} --games FOLDER", on_real, options.cache)
        sources, audited = sources + real, audited | on_real
    if not options.no_search:
        search(sources, audited, command)


# Trajectories


def generated(name: str, model: Path, count: int, cache: Path) -> Source:
    tasks = load_tasks("household", "train", FIRST_GAME, count, size="small", max_steps=MAX_STEPS)
    return source(name, tasks, draw(name, model, tasks, Never(), cache))


def real_games(games: Path, model: Path, cache: Path) -> list[Source]:
    """The late student alone, which solves few of them, and with the expert taking over somewhere in the first 20 steps."""
    found = HouseholdTasks(source="folder", root=games)
    tasks = [task for split in found.splits for task in found.load(split)]
    return [
        source("student alone", tasks, draw("real-student", model, tasks, Never(), cache)),
        source("student, then expert", tasks, draw("real-handover", model, tasks, UniformStep(0, 20), cache, 2)),
    ]


def source(name: str, tasks: Sequence[Task], trajectories: Sequence[Trajectory]) -> Source:
    """Two sources may have trajectories of one id (same game, same seed), so the source goes before it."""
    named = [replace(one, trajectory_id=f"{name}/{one.trajectory_id}") for one in trajectories]
    return Source(name, named, {task.task_id: task for task in tasks})


def draw(
    name: str, model: Path, tasks: Sequence[Task], rule: SwitchRule, cache: Path, samples: int = 1
) -> list[Trajectory]:
    started = time.monotonic()
    store = RecordStore(cache / f"{name}.jsonl", "trajectory", header={"model": model.name})
    student = LocalPolicy(model, temperature=TEMPERATURE, seed=0, num_threads=1)
    summary = run_rollouts(
        make_jobs(tasks, seed=0, samples_per_task=samples),
        policies={Actor.STUDENT: student, Actor.EXPERT: HouseholdExpert()},
        rule=rule,
        store=store,
        concurrency=128,
    )
    say(f"{name}: {len(summary.trajectories)} trajectories, {summary.reward_sum:.0f} solved", started)
    return list(summary.trajectories)


# Audit


def audit(source: Source) -> AuditResult:
    started = time.monotonic()
    result = run_audit(source.trajectories, source.tasks)
    say(f"{source.name}: {result.num_env_steps} environment steps, rejected {result.rejected}", started)
    return result


def closed(source: Source, result: AuditResult, model: Path, count: int, cache: Path) -> dict[str, ClosedLoop]:
    """The closed loop on `count` trajectories, drawn by a hash of their ids, half of them successes."""
    started = time.monotonic()
    counting = sorted((case for case in result.cases if case.left_out is None), key=order)
    solved = [case.trajectory_id for case in counting if case.impact.success][: count // 2]
    failed = [case.trajectory_id for case in counting if not case.impact.success][: count - len(solved)]
    return closed_loop_impact(
        [one for one in source.trajectories if one.trajectory_id in {*solved, *failed}],
        source.tasks,
        LocalPolicy(model, temperature=TEMPERATURE, seed=0, num_threads=1),
        max_steps=MAX_STEPS,
        path=cache / f"{source.name}-continuations.jsonl",
        on_progress=lambda done, total: say(f"{source.name}: closed loop {done} of {total}", started),
    )


def with_loops(result: AuditResult, loops: dict[str, ClosedLoop]) -> AuditResult:
    cases = tuple(
        replace(case, closed_loop=loops[case.trajectory_id].impact) if case.trajectory_id in loops else case
        for case in result.cases
    )
    return replace(result, cases=cases)


def closed_text(cases: Sequence[CreditCase], loops: dict[str, ClosedLoop], command: str) -> str:
    """How large the closed-loop impact is, whether it agrees with the open loop, and with itself."""
    lines = [
        "# Closed loop",
        "",
        f"Made by `{command}`. Four continuations (seeds 0 to 3) after every prefix; impact is the mean success after the step "
        "minus that after its omission. *With itself*: rank correlation of the impact by seeds 0 and 2 with that by seeds 1 and "
        "3, over the trajectories in which both vary: what repeats of it.",
        "",
        "| episodes | number | steps | success from the start | steps with impact not 0 | mean impact, steps with S = 1 | "
        "steps with open-loop impact above 0 | the other steps | rho with the open loop | with itself |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, wanted in (("solved", True), ("failed", False)):
        mine = [case for case in cases if case.impact.success is wanted]
        closed_impact = np.concatenate([np.array(case.closed_loop) for case in mine])
        opened = np.concatenate([np.array(case.impact.impact) for case in mine]) > 1e-9
        dropped = np.concatenate([np.array(case.impact.success_drop) for case in mine]) == 1.0
        starts = [np.mean([one is not None for one in loops[case.trajectory_id].solved_at[0]]) for case in mine]
        both = [(np.array(case.closed_loop), np.array(case.impact.impact)) for case in mine]
        halves = [
            (every_other(loops[case.trajectory_id], 0), every_other(loops[case.trajectory_id], 1)) for case in mine
        ]
        cells = [
            *(str(len(mine)), str(len(closed_impact)), f"{np.mean(starts):.2f}", f"{np.mean(closed_impact != 0):.2f}"),
            *(mean_text(closed_impact[chosen]) for chosen in (dropped, opened, ~opened)),
            *(agreement(pairs) for pairs in (both, halves)),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def every_other(loop: ClosedLoop, first: int) -> np.ndarray:
    return np.array(replace(loop, solved_at=tuple(seeds[first::2] for seeds in loop.solved_at)).impact)


def mean_text(values: np.ndarray) -> str:
    """Mean with its standard error over steps."""
    if not len(values):
        return "-"
    return f"{values.mean():.3f} (se {values.std() / np.sqrt(len(values)):.3f}, {len(values)} steps)"


def agreement(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> str:
    """Mean rank correlation over the pairs that vary, with its standard error."""
    found = np.array([float(rank_correlation(a, b)) for a, b in pairs if not is_constant(a) and not is_constant(b)])
    if not len(found):
        return "-"
    return f"{found.mean():.2f} (se {found.std() / np.sqrt(len(found)):.2f}, {len(found)} episodes)"


def order(case: CreditCase) -> int:
    return stable_hash("closed loop", case.trajectory_id)


def report(name: str, title: str, command: str, audited: dict[str, AuditResult], cache: Path) -> None:
    """One set of files for all sources together, with a table for each."""
    started = time.monotonic()
    merged = AuditResult(
        cases=tuple(case for result in audited.values() for case in result.cases),
        rejections=tuple(one for result in audited.values() for one in result.rejections),
        num_env_steps=sum(result.num_env_steps for result in audited.values()),
        seconds=sum(result.seconds for result in audited.values()),
    )
    scores = score_cases(merged.cases)
    groups = {
        source: np.array([source_of(case.trajectory_id) == source for case in scores.cases]) for source in audited
    }
    if (looped := np.array([case.closed_loop is not None for case in scores.cases])).any():
        groups["with a closed loop"] = looped
    settings = {"first_game": FIRST_GAME, "temperature": TEMPERATURE, "max_steps": MAX_STEPS, "seed": 0}
    tables = make_tables(scores, groups=groups)
    found = Audit(title=title, command=command, result=merged, scores=scores, tables=tables, settings=settings)
    write_audit(cache / name, found)
    for file, copy in (("tables.md", f"{name}.md"), ("audit.svg", f"{name}.svg")):
        write_atomic(RESULTS / copy, (cache / name / file).read_bytes())
    say(f"{name}: tables", started)


# Search


def search(sources: Sequence[Source], audited: dict[str, AuditResult], command: str) -> None:
    """Choose on the first half of the generated games; prove on the second half and on real games."""
    started = time.monotonic()
    by_source = {one.name: audited_of(one, audited[one.name]) for one in sources}
    halves: dict[bool, list[Audited]] = {False: [], True: []}
    for name in ("early", "late"):
        for one in by_source[name]:
            halves[in_second_half(one.task.task_id, SPLIT_SEED)].append(one)
    choosing, proving = halves[False], halves[True]
    grid = candidates()
    found = search_signals(
        choosing,
        grid,
        on_progress=lambda done: say(f"search: {done} of {len(choosing)}", started) if done % 100 == 0 else None,
    )
    chosen = FIXED | {f"best, {kind}": best(found, kind) for kind in KINDS}
    sets = {"choosing half": choosing, "proving half": proving}
    for name in ("early", "late"):
        mine = [one for one in proving if source_of(one.trajectory.trajectory_id) == name]
        sets[f"proving half, {name}"] = mine
    sets |= {f"real games, {name}": mine for name, mine in by_source.items() if name not in ("early", "late")}
    head = (
        f"Made by `{command} --games FOLDER`. {len(grid)} candidates, ranked by the mean of rho and Hit@10% (ties to the "
        f"earlier step) on the choosing half: {len(choosing)} trajectories of half of the games. The other half "
        f"({len(proving)} trajectories) and the real games had no part in the choice."
    )
    text = [
        *("# Search for a graph signal", "", head, "", "| signal | settings |", "|---|---|"),
        *(f"| {name} | `{one.config_id}` |" for name, one in chosen.items()),
        "",
        *(line for name, chosen_set in sets.items() for line in proof(name, chosen_set, chosen)),
        *("## Best candidates on the choosing half", "", "| rho | Hit@10% | settings |", "|---|---|---|"),
        *best_lines(found),
        "",
    ]
    write_atomic(RESULTS / "search.md", "\n".join(text).encode())
    rows = [
        {"settings": one.config.config_id, "rho": round(one.rho, 4), "hit": round(one.hit, 4)} for one in found[:500]
    ]
    write_atomic(RESULTS / "search.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows).encode())
    say("search", started)


def audited_of(source: Source, result: AuditResult) -> list[Audited]:
    by_id = {one.trajectory_id: one for one in source.trajectories}
    return [
        Audited(by_id[case.trajectory_id], source.tasks[case.task_id], case.impact)
        for case in result.cases
        if case.left_out is None
    ]


def best(found: Sequence[Found], footprints: str) -> AptitudeConfig:
    return next(one.config for one in found if one.config.footprints == footprints)


def best_lines(found: Sequence[Found]) -> list[str]:
    """The first twenty, and after them the best of every structure."""
    shown = list(found[:20])
    for one in found:
        config = one.config
        if all(config.structure != other.config.structure for other in shown):
            shown.append(one)
    return [f"| {one.rho:.3f} | {one.hit:.3f} | `{one.config.config_id}` |" for one in shown]


def proof(name: str, audited: Sequence[Audited], chosen: dict[str, AptitudeConfig]) -> list[str]:
    """The chosen signals on one set, with intervals."""
    cases = []
    for one in audited:
        signals = candidate_signals(one.trajectory, one.task, list(chosen.values()))
        cases.append(
            CreditCase(
                trajectory_id=one.trajectory.trajectory_id,
                task_id=one.task.task_id,
                kind=one.task.kind,
                impact=one.impact,
                signals={signal: tuple(values) for signal, values in zip(chosen, signals.tolist(), strict=True)},
            )
        )
    whole, solved, failed = make_tables(score_cases(cases))
    lines = [
        f"## {name}: {whole.num_cases} trajectories, {whole.num_solved} solved; chance of Hit@10% {whole.chance:.2f}",
        "",
        "| signal | rho | successes | failures | given position | without last | Hit@10% earlier | tolerant | later | successes, earlier | failures, earlier |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in whole.rows:
        cells = [
            cell(whole, row.signal, "rho", interval=True),
            cell(solved, row.signal, "rho"),
            cell(failed, row.signal, "rho"),
            cell(whole, row.signal, "partial"),
            cell(whole, row.signal, "rho_without_last"),
            cell(whole, row.signal, "hit_earlier", interval=True),
            cell(whole, row.signal, "hit_tolerant"),
            cell(whole, row.signal, "hit_later"),
            cell(solved, row.signal, "hit_earlier"),
            cell(failed, row.signal, "hit_earlier"),
        ]
        lines.append(f"| {row.signal} | {' | '.join(cells)} |")
    return [*lines, ""]


def cell(table: CreditTable, signal: str, measure: str, *, interval: bool = False) -> str:
    found = table.row(signal).measures.get(measure)
    if found is None:
        return "-"
    # A number that rounds to zero has no sign.
    middle, low, high = (f"{round(value, 2) + 0.0:.2f}" for value in (found.estimate, found.low, found.high))
    return f"{middle} [{low}, {high}]" if interval else middle


def source_of(trajectory_id: str) -> str:
    return trajectory_id.partition("/")[0]


def say(what: str, started: float) -> None:
    print(f"{what} ({time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
