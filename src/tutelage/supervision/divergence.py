"""How far teacher and student differ: per token, and as the mean over a step.

In: scores of the same ids by both. Out: nats, or None where a step has no scores. Five choices, which need more or less
of the two distributions; Delta is teacher_logprob - student_logprob at the sampled id:

  full_kl   sum_v p_S (log p_S - log p_T); direction ``forward`` swaps the two
  topk_kl   the same over the student's k most probable ids and one bucket for all others
  k3        exp(Delta) - 1 - Delta      at least 0
  abs_gap   |Delta|                     at least 0
  k1        -Delta                      may be negative on a step
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tutelage.errors import ConfigError, SupervisionError, TeacherError
from tutelage.policies.base import Access, Floats, Scorer, TokenScores
from tutelage.supervision.distill import TrajectoryScores

Direction = Literal["reverse", "forward"]

DIRECTIONS: Final = ("reverse", "forward")
"""`reverse`: KL of student to teacher, weights from the student. `forward`: of teacher to student."""

PADDING_MASS: Final = 1e-5
"""Most probability of output rows that pad a layer to a round width; float32 sums of many ids are no better."""

Float64s = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a divergence must be given of each side."""

    student: Access
    teacher: Access


DIVERGENCES: Final[dict[str, Needs]] = {
    "full_kl": Needs("full", "full"),
    "topk_kl": Needs("topk", "candidates"),
    "k3": Needs("sampled", "sampled"),
    "abs_gap": Needs("sampled", "sampled"),
    "k1": Needs("sampled", "sampled"),
}
"""Name in recipes -> what it needs."""


def check_divergence(kind: str, teacher: Scorer, *, student: Scorer | None = None) -> Needs:
    """What the divergence needs, if teacher (and student) can give it.

    Raises TeacherError that names the divergences which they can serve; nothing else is taken in silence.
    """
    if kind not in DIVERGENCES:
        raise ConfigError.unknown("divergence", kind, DIVERGENCES)
    for role, scorer in (("teacher", teacher), ("student", student)):
        if scorer is not None and not _can_give(scorer, getattr(DIVERGENCES[kind], role)):
            can = [
                name
                for name, needs in DIVERGENCES.items()
                if _can_give(teacher, needs.teacher) and (student is None or _can_give(student, needs.student))
            ]
            raise TeacherError(
                f"divergence '{kind}' needs access '{getattr(DIVERGENCES[kind], role)}' of the {role}, which gives "
                f"{', '.join(sorted(scorer.accesses))}. It can serve: {', '.join(can) or 'none'}",
                name=scorer.name,
            )
    return DIVERGENCES[kind]


def _can_give(scorer: Scorer, access: Access) -> bool:
    return access in scorer.accesses


# Per token


def full_kl(student: Floats, teacher: Floats, direction: Direction = "reverse") -> Float64s:
    """[M] KL over all ids, of log-probabilities [M, V]. Never negative but for rounding.

    One output layer may be wider than the other by rows that no id of the vocabulary has: the ids of both are compared.

    Example, p = (.5, .5), q = (.8, .2): reverse .2231, forward .1927.
    """
    if student.shape[:-1] != teacher.shape[:-1]:
        raise SupervisionError(
            f"full_kl: student {student.shape} and teacher {teacher.shape}; expected the same positions"
        )
    student, teacher = _shared_ids(student, teacher)
    if direction not in DIRECTIONS:
        raise ConfigError.unknown("divergence direction", direction, DIRECTIONS)
    p, q = (student, teacher) if direction == "reverse" else (teacher, student)
    return _kl(np.asarray(p, np.float64), np.asarray(q, np.float64))


def _shared_ids(student: Floats, teacher: Floats) -> tuple[Floats, Floats]:
    """Both over the ids that both have, scaled to mass 1. Raises SupervisionError if the others hold any mass."""
    num_ids = min(student.shape[-1], teacher.shape[-1])

    def cut(logprobs: Floats, role: str) -> Floats:
        wide = np.asarray(logprobs, np.float64)
        lost = float(np.exp(wide[..., num_ids:]).sum(-1).max(initial=0.0))
        if lost > PADDING_MASS:
            raise SupervisionError(
                f"full_kl: {logprobs.shape[-1] - num_ids} output rows of the {role} beyond the {num_ids} shared ids hold up to "
                f"{lost:.2g} of its probability, expected padding with none (at most {PADDING_MASS:g}). Use 'topk_kl' or a "
                "divergence of the sampled ids."
            )
        kept: Float64s = wide[..., :num_ids] - np.log(np.exp(wide[..., :num_ids]).sum(-1, keepdims=True))
        return kept

    if student.shape[-1] == teacher.shape[-1]:
        return student, teacher
    if student.shape[-1] > num_ids:
        return cut(student, "student"), teacher
    return student, cut(teacher, "teacher")


def topk_kl(student_top: Floats, teacher_top: Floats, direction: Direction = "reverse") -> Float64s:
    """[M] KL over k ids and one bucket with the rest of the mass, of log-probabilities [M, K] at the student's top ids.

    Without the bucket the sum can be negative. Example, p = (.5, .25, .15, .10), q = (.4, .4, .05, .15), k = 2: .0499,
    and -.0059 without.
    """
    if student_top.shape != teacher_top.shape:
        raise SupervisionError(
            f"topk_kl: student {student_top.shape} and teacher {teacher_top.shape}; expected the same positions and ids"
        )
    return full_kl(_with_rest(student_top), _with_rest(teacher_top), direction)


def _kl(p: Float64s, q: Float64s) -> Float64s:
    """sum p (log p - log q) over the last axis; ids of no probability under p add nothing."""
    with np.errstate(invalid="ignore"):
        terms = np.exp(p) * (p - q)
    total: Float64s = np.where(np.isneginf(p), 0.0, terms).sum(-1)
    return total


def _with_rest(top: Floats) -> Float64s:
    """[M, K + 1]: log(1 - sum) appended.

    A rest smaller than the rounding of the input is not known to be anything; it is taken to be of that size.
    """
    wide = np.asarray(top, np.float64)
    rest = 1.0 - np.exp(wide).sum(-1, keepdims=True)
    return np.concatenate([wide, np.log(np.maximum(rest, np.finfo(top.dtype).eps))], -1)


def gap_values(kind: str, gap: Floats) -> Float64s:
    """[M] k3, abs_gap or k1 of Delta [M] = teacher_logprob - student_logprob.

    Example, Delta (.3, -.5, .1, -.7): means k1 .2000, abs_gap .4000, k3 .0895.
    """
    delta = np.asarray(gap, np.float64)
    values: dict[str, Float64s] = {"k3": np.expm1(delta) - delta, "abs_gap": np.abs(delta), "k1": -delta}
    return values[kind]


def token_divergence(
    kind: str, student: TokenScores, teacher: TokenScores, direction: Direction = "reverse"
) -> Float64s:
    """[M] divergence at each position that both have scored.

    Raises SupervisionError if they are of different lengths, or do not hold what the choice needs.
    """
    if kind not in DIVERGENCES:
        raise ConfigError.unknown("divergence", kind, DIVERGENCES)
    if len(student) != len(teacher):
        raise SupervisionError(
            f"{student.request_id}: {len(student)} student and {len(teacher)} teacher scores, expected equal numbers"
        )
    if kind == "full_kl":
        return full_kl(_held(student.full, student, "full"), _held(teacher.full, teacher, "full"), direction)
    if kind == "topk_kl":
        ids, top = _held(student.top_ids, student, "topk"), _held(student.top_logprobs, student, "topk")
        return topk_kl(top, _at(teacher, ids), direction)
    return gap_values(kind, np.asarray(teacher.logprobs, np.float64) - student.logprobs)


def _held(array: Any, scores: TokenScores, access: str) -> Any:
    if array is None:
        raise SupervisionError(f"{scores.request_id}: scored without the access '{access}', which this needs")
    return array


def _at(scores: TokenScores, ids: NDArray[np.int64]) -> Floats:
    """[M, K] log-probabilities at `ids`."""
    if scores.full is not None:
        picked: Floats = np.take_along_axis(scores.full, ids, -1)
        return picked
    if scores.top_ids is None or not np.array_equal(scores.top_ids, ids):
        raise SupervisionError(
            f"{scores.request_id}: not scored at the student's top ids. Score the teacher with the access 'candidates'."
        )
    return scores.top_logprobs  # type: ignore[return-value]


# Per step


def step_divergence(
    kind: str, student: TrajectoryScores, teacher: TrajectoryScores, direction: Direction = "reverse"
) -> tuple[float | None, ...]:
    """[N] mean over the tokens of each step. None: a step that one of them has not scored.

    Raises SupervisionError if they are of different trajectories or scored other ids.
    """
    if (student.trajectory_id, len(student.steps)) != (teacher.trajectory_id, len(teacher.steps)):
        raise SupervisionError(
            f"trajectory {student.trajectory_id} with {len(student.steps)} steps: teacher scores are of "
            f"{teacher.trajectory_id} with {len(teacher.steps)}"
        )
    values: list[float | None] = []
    for index, (mine, theirs) in enumerate(zip(student.steps, teacher.steps, strict=True)):
        if mine is None or theirs is None or not len(mine):
            values.append(None)
            continue
        if student.token_ids[index] != teacher.token_ids[index]:
            raise SupervisionError(
                f"trajectory {student.trajectory_id}, step {index}: the student scored ids "
                f"{list(student.token_ids[index] or ())}, the teacher {list(teacher.token_ids[index] or ())}"
            )
        values.append(float(token_divergence(kind, mine, theirs, direction).mean()))
    return tuple(values)


def trajectory_divergences(
    kind: str,
    students: Sequence[TrajectoryScores],
    teachers: Sequence[TrajectoryScores],
    direction: Direction = "reverse",
) -> dict[str, tuple[float | None, ...]]:
    """`step_divergence` of many trajectories, by trajectory id."""
    return {
        mine.trajectory_id: step_divergence(kind, mine, theirs, direction)
        for mine, theirs in zip(students, teachers, strict=True)
    }
