"""What a judge is, and judging many trajectories into a file: resumed, answered once, nothing lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Protocol

from tutelage.store import RecordStore
from tutelage.types import Judgement, Trajectory, UnscoredReason


class Judge(Protocol):
    """Says of one failed trajectory why it failed."""

    @property
    def name(self) -> str:
        """With all that decides its answers, recorded in each judgement, e.g. ``rules-1``."""
        ...

    @property
    def concurrency(self) -> int:
        """How many it answers side by side; 1 for one that computes."""
        ...

    def prompt_hash(self, trajectory: Trajectory) -> str:
        """Equal for equal questions. Empty: it is not asked anything, so that there is nothing to save."""
        ...

    def judge(self, trajectory: Trajectory, *, source: str = "", attempt: int = 0) -> Judgement:
        """One judgement, unscored where there is no answer. Raises only what the user can mend."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedFile:
    """The judgements on some trajectories by one judge, and where they came from."""

    judgements: tuple[Judgement, ...]
    """One per trajectory, in order; the latest attempt of each."""
    num_stored: int
    """Taken from the file as they were."""
    num_asked: int
    num_cached: int
    """Equal questions, answered once."""


def judge_all(
    trajectories: Sequence[Trajectory],
    judge: Judge,
    store: RecordStore,
    *,
    source: str = "",
    again: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> JudgedFile:
    """Judge each trajectory once and append what is said to the store as it comes.

    What the store has of this judge is never asked again, but for unscored ones with `again`. An equal question that has
    a category is not asked a second time, wherever it stands: the judgement is marked `cached`.
    """
    latest = latest_judgements(store, judge=judge.name)
    by_prompt = {one.prompt_hash: one for one in latest.values() if one.prompt_hash and one.category is not None}
    found: dict[str, Judgement] = {}
    waiting: dict[str, list[tuple[Trajectory, int]]] = {}
    """Question -> who asks it."""
    num_stored = 0
    for trajectory in trajectories:
        stored = latest.get((source, trajectory.trajectory_id))
        if stored is not None and not (again and stored.category is None):
            found[trajectory.trajectory_id] = stored
            num_stored += 1
            continue
        question = judge.prompt_hash(trajectory)
        attempt = 0 if stored is None else stored.attempt + 1
        waiting.setdefault(question or trajectory.trajectory_id, []).append((trajectory, attempt))

    def keep(judgement: Judgement) -> None:
        store.append(judgement)
        found[judgement.trajectory_id] = judgement
        if on_progress is not None:
            on_progress(len(found), len(trajectories))

    num_asked = 0
    open_questions: list[list[tuple[Trajectory, int]]] = []
    for question, askers in waiting.items():
        if question in by_prompt:
            for one, attempt in askers:
                keep(_copy(by_prompt[question], one, source, attempt))
        else:
            open_questions.append(askers)
    for askers, judgement in _answers(judge, open_questions, source):
        num_asked += 1
        keep(judgement)
        for one, attempt in askers[1:]:
            keep(_copy(judgement, one, source, attempt))
    ordered = tuple(found[one.trajectory_id] for one in trajectories)
    num_cached = len(trajectories) - num_stored - num_asked
    return JudgedFile(judgements=ordered, num_stored=num_stored, num_asked=num_asked, num_cached=num_cached)


def latest_judgements(judgements: Iterable[Judgement], *, judge: str | None = None) -> dict[tuple[str, str], Judgement]:
    """(source, trajectory_id) -> the last attempt at it, of one judge."""
    latest: dict[tuple[str, str], Judgement] = {}
    for one in judgements:
        key = (one.source, one.trajectory_id)
        if (judge is None or one.judge == judge) and (key not in latest or one.attempt >= latest[key].attempt):
            latest[key] = one
    return latest


def _copy(judgement: Judgement, trajectory: Trajectory, source: str, attempt: int) -> Judgement:
    return replace(
        judgement, trajectory_id=trajectory.trajectory_id, source=source, attempt=attempt, cached=True, raw_answers=()
    )


def _answers(
    judge: Judge, questions: Sequence[list[tuple[Trajectory, int]]], source: str
) -> Iterable[tuple[list[tuple[Trajectory, int]], Judgement]]:
    """Each question with its answer, as they come. Few are under way at a time, so that little is lost by a stop."""

    def ask(askers: list[tuple[Trajectory, int]]) -> Judgement:
        trajectory, attempt = askers[0]
        return judge.judge(trajectory, source=source, attempt=attempt)

    if judge.concurrency <= 1:
        for askers in questions:
            yield askers, ask(askers)
        return
    pool = ThreadPoolExecutor(max_workers=judge.concurrency, thread_name_prefix="judge")
    try:
        left = list(reversed(questions))
        under_way: dict[Future[Judgement], list[tuple[Trajectory, int]]] = {}
        while left or under_way:
            while left and len(under_way) < judge.concurrency:
                askers = left.pop()
                under_way[pool.submit(ask, askers)] = askers
            for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield under_way.pop(done), done.result()
    finally:
        # Without waiting: after an error or Ctrl-C whoever owns the client closes it, which ends what is under way.
        pool.shutdown(wait=False, cancel_futures=True)


def unscored_counts(judgements: Iterable[Judgement]) -> dict[UnscoredReason, int]:
    """Reason -> judgements without a category, in the order of the reasons; those with none are left out."""
    reasons = [one.reason for one in judgements if one.reason is not None]
    return {reason: reasons.count(reason) for reason in UnscoredReason if reason in reasons}
