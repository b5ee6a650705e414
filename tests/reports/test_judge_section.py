"""What the page says of the judgements of a run."""

from __future__ import annotations

from pathlib import Path

from tutelage.recipe import load_recipe
from tutelage.reports.data import read_run
from tutelage.reports.html import write_report
from tutelage.reports.judge_section import judgements
from tutelage.store import RecordStore
from tutelage.testing import make_trajectory
from tutelage.types import FailureCategory, Judgement, UnscoredReason


def run_folder(root: Path) -> Path:
    (root / "recipe.yaml").write_text(load_recipe("smoke/household_oec").to_yaml())
    for source in ("evaluations/corrected", "rollouts/corrections"):
        store = RecordStore(root / source / "trajectories.jsonl", "trajectory")
        for name in ("a", "b", "c"):
            store.append(make_trajectory("s", reward=0.0, trajectory_id=name, task_id=name, env="household"))
    return root


def judge(root: Path, *said: tuple[str, str, str, FailureCategory | None], attempt: int = 0) -> None:
    store = RecordStore(root / "judgements.jsonl", "judgement")
    for source, name, judge_name, category in said:
        reason = None if category else UnscoredReason.SCHEMA
        store.append(
            Judgement(
                trajectory_id=name, source=source, judge=judge_name, attempt=attempt, category=category, reason=reason
            )
        )


LOOP, TOOL = FailureCategory.INFINITE_LOOP, FailureCategory.TOOL_ERROR


def test_one_table_per_judge_and_part(tmp_path: Path) -> None:
    root = run_folder(tmp_path)
    judge(
        root,
        ("evaluations/corrected", "a", "rules-1", LOOP),
        ("evaluations/corrected", "b", "rules-1", TOOL),
        ("evaluations/corrected", "c", "rules-1", None),
        ("rollouts/corrections", "a", "rules-1", LOOP),
        ("evaluations/corrected", "a", "endpoint/<m>", TOOL),
        ("evaluations/corrected", "gone", "rules-1", TOOL),
    )
    judge(root, ("evaluations/corrected", "c", "rules-1", LOOP), attempt=1)
    first, second, third = judgements(read_run(root))
    assert (first["title"], first["judge"], first["count"]) == (
        "Evaluation of corrected",
        "rules-1",
        "3 failed episodes",
    )
    assert first["note"] == "1 of trajectories that are no longer there"
    assert first["columns"] == ["completed", "student last"]
    assert [(row["name"], row["count"], row["share"], row["interval"], row["cells"]) for row in first["rows"]] == [
        ("tool error", 1, "33 %", "6 % to 79 %", ["1 (33 %)", "1 (33 %)"]),
        ("infinite loop", 2, "67 %", "21 % to 94 %", ["2 (67 %)", "2 (67 %)"]),
    ]
    assert first["rows"][0]["meaning"].startswith("misused a tool")
    assert (second["title"], second["count"]) == ("Rollout corrections", "1 failed episodes")
    assert (third["judge"], third["rows"][0]["name"]) == ("endpoint/<m>", "tool error")


def test_unscored_ones_are_named(tmp_path: Path) -> None:
    root = run_folder(tmp_path)
    judge(root, ("evaluations/corrected", "a", "j", None))
    [entry] = judgements(read_run(root))
    assert (entry["count"], entry["rows"], entry["note"]) == ("0 failed episodes", [], "1 unscored: schema (100 %)")


def test_the_page_has_the_section_only_with_judgements(tmp_path: Path) -> None:
    root = run_folder(tmp_path)
    assert judgements(read_run(root)) == []
    assert "Why episodes failed" not in write_report(root).read_text()
    judge(root, ("evaluations/corrected", "a", "endpoint/<m>", TOOL))
    page = write_report(root).read_text()
    assert "<h2>Why episodes failed</h2>" in page
    assert "judged by <code>endpoint/&lt;m&gt;</code>" in page
