"""Divergences against the specification's numbers (graphopd 6, methods I2, I3, I12)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutelage.errors import ConfigError, SupervisionError, TeacherError
from tutelage.policies.base import Access, ScoreFailure, ScoreRequest, TokenScores
from tutelage.supervision.distill import TrajectoryScores
from tutelage.supervision.divergence import (
    DIVERGENCES,
    check_divergence,
    full_kl,
    gap_values,
    step_divergence,
    token_divergence,
    topk_kl,
    trajectory_divergences,
)

P = np.log([[0.5, 0.25, 0.15, 0.10]])
Q = np.log([[0.4, 0.4, 0.05, 0.15]])
DELTA = np.array([0.3, -0.5, 0.1, -0.7])


class Gives:
    """A scorer of which only the accesses matter."""

    name, version, vocabulary_id, max_context, temperature = "limited", "1", "v", 100, 1.0

    def __init__(self, *accesses: Access) -> None:
        self.accesses = frozenset(accesses)

    def score(
        self, requests: Sequence[ScoreRequest], access: Access = "sampled", *, k: int = 64
    ) -> list[TokenScores | ScoreFailure]:
        return []


def scores(*steps: Any, **options: Any) -> TrajectoryScores:
    """Scores of a trajectory whose step t has the ids 10 t, 10 t + 1, ...; a step is log-probabilities or None."""
    return TrajectoryScores(
        trajectory_id=options.get("trajectory_id", "t"),
        token_ids=tuple(
            None if one is None else tuple(range(10 * index, 10 * index + len(one))) for index, one in enumerate(steps)
        ),
        steps=tuple(None if one is None else TokenScores(request_id="r", logprobs=np.array(one)) for one in steps),
    )


def test_gaps_of_the_specification() -> None:
    assert gap_values("k1", DELTA).tolist() == [-0.3, 0.5, -0.1, 0.7]
    assert gap_values("abs_gap", DELTA).tolist() == [0.3, 0.5, 0.1, 0.7]
    assert gap_values("k3", DELTA) == pytest.approx([0.0499, 0.1065, 0.0052, 0.1966], abs=5e-5)
    means = [float(gap_values(kind, DELTA).mean()) for kind in ("k1", "abs_gap", "k3")]
    assert means == pytest.approx([0.2000, 0.4000, 0.0895], abs=5e-5)


def test_two_tokens() -> None:
    """I2 to I4: p = (.5, .5), q = (.8, .2)."""
    p, q = np.log([[0.5, 0.5]]), np.log([[0.8, 0.2]])
    assert full_kl(p, q).tolist() == pytest.approx([0.2231], abs=5e-5)
    assert full_kl(p, q, "forward").tolist() == pytest.approx([0.1927], abs=5e-5)
    assert gap_values("k3", (q - p)[0]) == pytest.approx([0.1300, 0.3163], abs=5e-5)


def test_topk_of_the_specification() -> None:
    """I12. Without the rest bucket the sum over the top two would be negative."""
    assert full_kl(P, Q).tolist() == pytest.approx([0.1183], abs=5e-5)
    assert full_kl(P, Q, "forward").tolist() == pytest.approx([0.1046], abs=5e-5)
    assert topk_kl(P[:, :2], Q[:, :2]).tolist() == pytest.approx([0.0499], abs=5e-5)
    rest = 0.25 * np.log(0.25 / 0.20)
    assert topk_kl(P[:, :2], Q[:, :2])[0] - rest == pytest.approx(-0.0059, abs=5e-5)
    assert topk_kl(P, Q).tolist() == pytest.approx(full_kl(P, Q).tolist(), abs=1e-12)
    assert topk_kl(P, Q, "forward").tolist() == pytest.approx(full_kl(P, Q, "forward").tolist(), abs=1e-12)


def test_estimators_disagree_on_order() -> None:
    """Steps with Delta (.3, -.5, .1, -.7), (.6, .4), (-.9): the specification's z values."""
    student = scores([0.0] * 4, [0.0] * 2, [0.0])
    teacher = scores(DELTA, [0.6, 0.4], [-0.9])
    expected = {
        "k1": [0.0, -1.2247, 1.2247],
        "k3": [-1.0455, -0.3020, 1.3475],
        "abs_gap": [-0.9258, -0.4629, 1.3887],
    }
    for kind, z in expected.items():
        values = np.array(step_divergence(kind, student, teacher), dtype=float)
        # The second and third step of k1 lie .7 on either side of the first.
        assert (values - values.mean()) / values.std() == pytest.approx(z, abs=1e-4)


@given(st.integers(1, 5), st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_never_negative_and_zero_for_equals(positions: int, vocabulary: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=3.0, size=(2, positions, vocabulary))
    p, q = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    ids = np.argsort(-p, -1)
    for k in range(1, vocabulary + 1):
        top = np.take_along_axis(p, ids[:, :k], -1), np.take_along_axis(q, ids[:, :k], -1)
        for direction in ("reverse", "forward"):
            bucketed = topk_kl(*top, direction)
            # Merging ids into a bucket loses information, so it can only lower the divergence. What is left after
            # the top ids is a difference of nearly equal numbers, hence the tolerance.
            assert (bucketed >= -1e-12).all()
            assert (bucketed <= full_kl(p, q, direction) + 1e-6).all()
        assert np.abs(topk_kl(top[0], top[0])).max() < 1e-12
    assert np.abs(full_kl(p, p)).max() == 0.0
    assert (gap_values("k3", (q - p).ravel()) >= 0.0).all()


def test_float32_input_and_impossible_ids() -> None:
    p, q = P.astype(np.float32), Q.astype(np.float32)
    assert topk_kl(p, q)[0] == pytest.approx(0.1183, abs=5e-5)
    # An id that is impossible for both, as padding of the vocabulary is, adds nothing.
    never = np.full((1, 1), -np.inf)
    assert full_kl(np.hstack([P, never]), np.hstack([Q, never]))[0] == pytest.approx(0.1183, abs=5e-5)


def test_values_of_scores() -> None:
    ids = np.array([[1, 0]])
    student = TokenScores(request_id="s", logprobs=P[:, 1], top_ids=ids, top_logprobs=P[:, [1, 0]], full=P)
    whole = TokenScores(request_id="t", logprobs=Q[:, 1], full=Q)
    named = TokenScores(request_id="t", logprobs=Q[:, 1], top_ids=ids, top_logprobs=Q[:, [1, 0]])
    assert token_divergence("full_kl", student, whole).tolist() == pytest.approx([0.1183], abs=5e-5)
    assert token_divergence("topk_kl", student, whole).tolist() == pytest.approx([0.0499], abs=5e-5)
    assert token_divergence("topk_kl", student, named).tolist() == pytest.approx([0.0499], abs=5e-5)
    assert token_divergence("abs_gap", student, named).tolist() == pytest.approx([np.log(0.4 / 0.25)])
    own_top = TokenScores(request_id="t", logprobs=Q[:, 1], top_ids=np.array([[0, 1]]), top_logprobs=Q[:, :2])
    with pytest.raises(SupervisionError, match="not scored at the student's top ids"):
        token_divergence("topk_kl", student, own_top)
    with pytest.raises(SupervisionError, match="t: scored without the access 'full'"):
        token_divergence("full_kl", student, named)
    with pytest.raises(SupervisionError, match="1 student and 0 teacher scores"):
        token_divergence("k1", student, whole.part(0, 0))
    with pytest.raises(ConfigError, match="unknown 'k4'"):
        token_divergence("k4", student, whole)
    with pytest.raises(ConfigError, match="unknown 'backward'"):
        full_kl(P, Q, "backward")  # type: ignore[arg-type]
    with pytest.raises(
        SupervisionError,
        match=r"1 output rows of the student beyond the 3 shared ids hold up to 0\.\d+ of its probability",
    ):
        full_kl(P, Q[:, :3])
    with pytest.raises(SupervisionError, match=r"topk_kl: student \(1, 4\) and teacher \(1, 3\)"):
        topk_kl(P, Q[:, :3])


def test_unscored_steps_are_none() -> None:
    student = scores([-1.0, -2.0], [-1.0], None, [-1.0])
    teacher = scores([-0.5, -2.0], None, [-1.0], [-3.0])
    assert step_divergence("k1", student, teacher) == (-0.25, None, None, 2.0)
    assert trajectory_divergences("abs_gap", [student], [teacher]) == {"t": (0.25, None, None, 2.0)}


def test_scores_of_something_else_are_refused() -> None:
    with pytest.raises(SupervisionError, match="teacher scores are of other with 1"):
        step_divergence("k1", scores([-1.0]), scores([-1.0], trajectory_id="other"))
    with pytest.raises(SupervisionError, match="t with 2 steps: teacher scores are of t with 1"):
        step_divergence("k1", scores([-1.0], None), scores([-1.0]))
    with pytest.raises(SupervisionError, match=r"step 0: the student scored ids \[0\], the teacher \[0, 1\]"):
        step_divergence("k1", scores([-1.0]), scores([-1.0, -1.0]))


def test_a_scorer_that_gives_too_little_is_refused_by_name() -> None:
    everything = Gives("sampled", "candidates", "topk", "full")
    assert {kind: check_divergence(kind, everything, student=everything) for kind in DIVERGENCES} == DIVERGENCES
    assert check_divergence("k3", Gives("sampled")).teacher == "sampled"
    with pytest.raises(
        TeacherError,
        match="teacher 'limited': divergence 'full_kl' needs access 'full' of the teacher, which gives sampled"
        r"\. It can serve: k3, abs_gap, k1",
    ):
        check_divergence("full_kl", Gives("sampled"))
    with pytest.raises(TeacherError, match="needs access 'candidates' of the teacher, which gives sampled, topk"):
        check_divergence("topk_kl", Gives("sampled", "topk"))
    with pytest.raises(TeacherError, match=r"needs access 'topk' of the student.*serve: k3, abs_gap, k1"):
        check_divergence("topk_kl", everything, student=Gives("sampled"))
    with pytest.raises(ConfigError, match="unknown 'kl'"):
        check_divergence("kl", everything)
