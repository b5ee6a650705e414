"""How often a judge names the cause of a failure that was built on purpose.

    OMP_NUM_THREADS=1 python benchmarks/judge_agreement.py [--out FOLDER] [--url URL --model NAME [--api-key-env NAME]]

Plays the cases of `judge_cases`, judges them by rules and, if a server is given, by a model, and compares with the labels
of the construction. Writes benchmarks/results/judge_agreement.md; with --out also the trajectories, labels and judgements,
for `tutelage judge FOLDER/trajectories.jsonl --labels FOLDER/labels.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import tutelage as t
from judge_cases.answers import python_cases, search_cases
from judge_cases.base import Case, CasePolicy
from judge_cases.games import household_cases, shop_cases
from judge_cases.repo import repo_cases
from judge_cases.unseen import unseen_cases
from machine import machine
from tutelage.envs.registry import make_env
from tutelage.evaluation.judge.agreement import agreement_of
from tutelage.evaluation.judge.base import Judge, judge_all
from tutelage.evaluation.judge.rules import RulesJudge
from tutelage.evaluation.judge.taxonomy import population
from tutelage.rollout.episode import Limits
from tutelage.rollout.switch import Never
from tutelage.store import RecordStore
from tutelage.types import Actor, FailureCategory, Judgement, StopReason, Trajectory

RESULTS = Path(__file__).parent / "results" / "judge_agreement.md"


def first_cases() -> Iterator[Case]:
    """Those that the rules were mended on."""
    yield from household_cases()
    yield from shop_cases()
    yield from search_cases()
    yield from python_cases()
    yield from repo_cases()


def play(case: Case, sample_index: int) -> Trajectory:
    return t.run_episode(
        case.task,
        make_env(case.task),
        policies={Actor.STUDENT: CasePolicy(case)},
        rule=Never(),
        limits=Limits(),
        seed=0,
        sample_index=sample_index,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for trajectories, labels and judgements")
    parser.add_argument("--url", help="of an endpoint that judges too")
    parser.add_argument("--model")
    parser.add_argument("--api-key-env")
    parser.add_argument("--answer", default="json")
    wanted = parser.parse_args()
    started = time.monotonic()
    played = [(case, play(case, number)) for number, case in enumerate([*first_cases(), *unseen_cases()])]
    seconds = time.monotonic() - started
    failed = {one.trajectory_id for one in population(one for _, one in played).unresolved}
    unfit = [case.name for case, one in played if one.trajectory_id not in failed]
    assert not unfit, f"no failures: {unfit}"
    roomy = [case.name for case, one in played if case.max_chars and one.stop_reason is not StopReason.CONTEXT_OVERFLOW]
    assert not roomy, f"their windows were never full: {roomy}"
    labels = {one.trajectory_id: case.label for case, one in played}
    with tempfile.TemporaryDirectory() as temporary:
        out = wanted.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        write_cases(out, played)
        judges: list[Judge] = [RulesJudge()]
        if wanted.url:
            from tutelage.evaluation.judge.connect import endpoint_judge

            judges.append(endpoint_judge(wanted.url, wanted.model, api_key_env=wanted.api_key_env, form=wanted.answer))
        store = RecordStore(out / "judgements.jsonl", "judgement")
        seen = [(case, one) for case, one in played if not case.name.startswith("unseen-")]
        unseen = [(case, one) for case, one in played if case.name.startswith("unseen-")]
        parts = [
            section(f"Judge `{judge.name}`, {title}", judge, some, labels, store)
            for judge in judges
            for title, some in (("first cases", seen), ("unseen cases", unseen))
        ]
    counts = Counter(case.task.env for case, _ in played)
    head = (
        "# Agreement of the judge with failures built on purpose\n\n"
        "Command: `OMP_NUM_THREADS=1 python benchmarks/judge_agreement.py`  \n"
        f"Machine: {machine()}  \n"
        f"{len(played)} failed episodes ({', '.join(f'{number} {env}' for env, number in counts.items())}), played in "
        f"{seconds:.0f} s. Labels say what the script does on purpose (`benchmarks/judge_cases/`).\n\n"
        "The *first cases* are those on which the rules were mended: before that, 77 of 105 agreed (kappa 0.698; two of the "
        "cases were mended too, since their windows never were full). The *unseen cases* were written afterwards, and the "
        "rules were not changed for them. Scripts fail in a purer way than models do and were written by the same hand as "
        "the rules, so both are upper bounds of what rules do on real failures.\n"
    )
    page = "\n".join([head, *parts])
    print(page)
    RESULTS.write_text(page, encoding="utf-8")


def write_cases(out: Path, played: list[tuple[Case, Trajectory]]) -> None:
    store = RecordStore(out / "trajectories.jsonl", "trajectory")
    for _, one in played:
        store.append(one)
    rows = [
        {"trajectory_id": one.trajectory_id, "category": case.label.value, "name": case.name} for case, one in played
    ]
    (out / "labels.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def section(
    title: str,
    judge: Judge,
    played: list[tuple[Case, Trajectory]],
    labels: dict[str, FailureCategory],
    store: RecordStore,
) -> str:
    started = time.monotonic()
    judged = judge_all([one for _, one in played], judge, store).judgements
    seconds = time.monotonic() - started
    found = agreement_of(judged, {one.trajectory_id: labels[one.trajectory_id] for _, one in played})
    names = {one.trajectory_id: case.name for case, one in played}
    wrong = [one for one in judged if one.category is not labels[one.trajectory_id]]
    lines = [
        f"## {title}\n",
        f"{found} {1000 * seconds / len(judged):.1f} ms each.\n",
        found.to_markdown(),
        "\nWhere they differ:\n",
        "| case | built as | judged as | by |",
        "|---|---|---|---|",
        *(
            f"| {names[one.trajectory_id]} | {labels[one.trajectory_id]} | {_said(one)} | {one.rule or '-'} |"
            for one in wrong
        ),
        "",
    ]
    return "\n".join(lines)


def _said(one: Judgement) -> str:
    return one.category.value if one.category is not None else f"unscored: {one.reason}"


if __name__ == "__main__":
    main()
