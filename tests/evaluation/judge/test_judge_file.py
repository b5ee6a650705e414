"""Judging into a file: resumed, never asked twice, equal questions answered once."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tutelage.evaluation.judge.base import judge_all, latest_judgements, unscored_counts
from tutelage.store import RecordStore, read_records
from tutelage.testing import make_trajectory
from tutelage.types import FailureCategory, Judgement, Trajectory, UnscoredReason


@dataclass
class Asked:
    """A judge that keeps whom it was asked about; `silent` ones are unscored."""

    name: str = "asked-1"
    concurrency: int = 1
    silent: tuple[str, ...] = ()
    die_at: str = ""
    asked: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def prompt_hash(self, trajectory: Trajectory) -> str:
        return f"q-{trajectory.task_id}"

    def judge(self, trajectory: Trajectory, *, source: str = "", attempt: int = 0) -> Judgement:
        with self.lock:
            self.asked.append(trajectory.trajectory_id)
        if trajectory.trajectory_id == self.die_at:
            raise KeyboardInterrupt
        silent = trajectory.trajectory_id in self.silent
        return Judgement(
            trajectory_id=trajectory.trajectory_id,
            source=source,
            judge=self.name,
            attempt=attempt,
            category=None if silent else FailureCategory.OTHER,
            reason=UnscoredReason.TRANSPORT if silent else None,
            prompt_hash=self.prompt_hash(trajectory),
            raw_answers=("raw",),
        )


def failures(*names: str, task: str | None = None) -> list[Trajectory]:
    return [make_trajectory("s", reward=0.0, trajectory_id=name, task_id=task or name) for name in names]


def store_at(path: Path) -> RecordStore:
    return RecordStore(path / "judgements.jsonl", "judgement")


@pytest.mark.parametrize("concurrency", [1, 4])
def test_all_are_judged_and_kept(tmp_path: Path, concurrency: int) -> None:
    judge = Asked(concurrency=concurrency)
    progress: list[tuple[int, int]] = []
    got = judge_all(
        failures("a", "b", "c"),
        judge,
        store_at(tmp_path),
        source="rollouts/x",
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert [one.trajectory_id for one in got.judgements] == ["a", "b", "c"]
    assert (got.num_stored, got.num_asked, got.num_cached) == (0, 3, 0)
    assert progress == [(1, 3), (2, 3), (3, 3)]
    stored = read_records(tmp_path / "judgements.jsonl", "judgement")
    assert sorted(stored, key=lambda one: one.trajectory_id) == list(got.judgements)
    assert {one.source for one in stored} == {"rollouts/x"}


def test_a_resume_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        judge_all(failures("a", "b", "c"), Asked(die_at="b"), store_at(tmp_path))
    judge = Asked()
    got = judge_all(failures("a", "b", "c"), judge, store_at(tmp_path))
    assert judge.asked == ["b", "c"]
    assert (got.num_stored, got.num_asked, got.num_cached) == (1, 2, 0)
    again = Asked()
    before = (tmp_path / "judgements.jsonl").read_bytes()
    assert judge_all(failures("a", "b", "c"), again, store_at(tmp_path)).judgements == got.judgements
    assert again.asked == []
    assert (tmp_path / "judgements.jsonl").read_bytes() == before


def test_what_was_unscored_is_asked_again_only_if_wanted(tmp_path: Path) -> None:
    judge_all(failures("a", "b"), Asked(silent=("b",)), store_at(tmp_path))
    quiet = Asked()
    judge_all(failures("a", "b"), quiet, store_at(tmp_path))
    assert quiet.asked == []
    judge = Asked()
    got = judge_all(failures("a", "b"), judge, store_at(tmp_path), again=True)
    assert judge.asked == ["b"]
    assert [(one.category, one.attempt) for one in got.judgements] == [("other", 0), ("other", 1)]
    stored = read_records(tmp_path / "judgements.jsonl", "judgement")
    assert [(one.trajectory_id, one.attempt) for one in stored] == [("a", 0), ("b", 0), ("b", 1)]
    assert latest_judgements(stored)["", "b"].attempt == 1


@pytest.mark.parametrize("concurrency", [1, 4])
def test_equal_questions_are_answered_once_and_marked(tmp_path: Path, concurrency: int) -> None:
    judge = Asked(concurrency=concurrency)
    got = judge_all(failures("a", "b", "c", task="same"), judge, store_at(tmp_path), source="evaluations/x")
    assert judge.asked == ["a"]
    assert [one.cached for one in got.judgements] == [False, True, True]
    assert [one.raw_answers for one in got.judgements] == [("raw",), (), ()]
    assert (got.num_asked, got.num_cached) == (1, 2)
    # And in another part of the run, later.
    later = judge_all(failures("a", task="same"), judge, store_at(tmp_path), source="evaluations/y")
    assert judge.asked == ["a"]
    assert (later.judgements[0].cached, later.judgements[0].source) == (True, "evaluations/y")


def test_an_unscored_answer_is_not_taken_over(tmp_path: Path) -> None:
    judge_all(failures("a", task="same"), Asked(silent=("a",)), store_at(tmp_path))
    judge = Asked()
    got = judge_all(failures("b", task="same"), judge, store_at(tmp_path))
    assert judge.asked == ["b"]
    assert got.judgements[0].cached is False


def test_two_judges_and_two_parts_share_a_file(tmp_path: Path) -> None:
    for name, source in (("one", "evaluations/x"), ("two", "evaluations/x"), ("one", "evaluations/y")):
        judge_all(failures("a"), Asked(name=name), store_at(tmp_path), source=source)
    stored = read_records(tmp_path / "judgements.jsonl", "judgement")
    assert [(one.judge, one.source, one.cached) for one in stored] == [
        ("one", "evaluations/x", False),
        ("two", "evaluations/x", False),
        ("one", "evaluations/y", True),
    ]


def test_counts_by_reason() -> None:
    def one(reason: UnscoredReason | None) -> Judgement:
        category = FailureCategory.OTHER if reason is None else None
        return Judgement(trajectory_id="t", source="", judge="j", attempt=0, category=category, reason=reason)

    judged = [one(UnscoredReason.TRANSPORT), one(None), one(UnscoredReason.SCHEMA), one(UnscoredReason.TRANSPORT)]
    assert unscored_counts(judged) == {UnscoredReason.SCHEMA: 1, UnscoredReason.TRANSPORT: 2}


@pytest.mark.parametrize(("category", "reason"), [(None, None), (FailureCategory.OTHER, UnscoredReason.SCHEMA)])
def test_a_judgement_has_a_category_or_a_reason(
    category: FailureCategory | None, reason: UnscoredReason | None
) -> None:
    with pytest.raises(ValueError, match="expected exactly one of them"):
        Judgement(trajectory_id="t", source="", judge="j", attempt=0, category=category, reason=reason)
