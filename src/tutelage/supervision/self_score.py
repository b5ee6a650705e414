"""A check at the start of a run: a model that scores its own samples finds the log-probabilities it sampled with.

Whatever stands between the two (positions, template, context, temperature, weights) would otherwise look like a teacher
with an opinion, and nothing later in the run would say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tutelage.errors import TeacherError
from tutelage.policies.base import Scorer
from tutelage.rendering.base import Renderer
from tutelage.rendering.context import ContextRule, Full
from tutelage.supervision.distill import rollout_scores, score_steps
from tutelage.supervision.samples import Layout
from tutelage.types import Trajectory

MAX_FACTOR = 100.0
"""How much further off than the mean one token may be: rounding is worst where an id is very improbable."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfScore:
    """Scored minus recorded log-probability over all sampled tokens, nats."""

    num_tokens: int
    mean: float
    """Signed."""
    mean_abs: float
    max_abs: float

    def __str__(self) -> str:
        return (
            f"{self.num_tokens} tokens, mean difference {self.mean:+.2e}, mean size {self.mean_abs:.2e}, "
            f"largest {self.max_abs:.2e} nats"
        )


def self_score_check(
    scorer: Scorer,
    trajectories: Sequence[Trajectory],
    renderer: Renderer,
    context_rule: ContextRule = Full(),
    layout: Layout = "whole",
    *,
    texts: Sequence[str | None] | None = None,
    tolerance: float = 1e-3,
) -> SelfScore:
    """Compare a model's scores with what it recorded when it sampled these trajectories.

    scorer: the model that sampled, at the rollout's temperature (1 for greedy play). texts: the privileged texts it
    was played with; None: none. tolerance: of the mean size of the difference, nats; the largest may be 100 times that.
    1e-3 is far above the noise of float32; bfloat16 needs about 0.05.

    Raises:
        TeacherError: off by more, or no sampled token to compare.
    """
    scores, ledger = score_steps(trajectories, texts, scorer, renderer, context_rule, layout)
    gaps = []
    for trajectory, scored in zip(trajectories, scores, strict=True):
        for mine, recorded in zip(scored.steps, rollout_scores(trajectory).steps, strict=True):
            if mine is not None and recorded is not None:
                gaps.append(np.asarray(mine.logprobs, np.float64) - recorded.logprobs)
    if not gaps:
        raise TeacherError(
            f"no token to check in {len(trajectories)} trajectories with {ledger.num_steps} student steps "
            f"(not scored: {dict(ledger.failed)}). Give trajectories whose actions carry rollout_logprobs.",
            name=scorer.name,
        )
    gap = np.concatenate(gaps)
    found = SelfScore(
        num_tokens=len(gap),
        mean=float(gap.mean()),
        mean_abs=float(np.abs(gap).mean()),
        max_abs=float(np.abs(gap).max()),
    )
    if not (found.mean_abs <= tolerance and found.max_abs <= MAX_FACTOR * tolerance):
        raise TeacherError(
            f"a model does not find its own log-probabilities again: {found}; expected a mean size of at most "
            f"{tolerance:g}. Likely causes: positions shifted by one; another chat template, renderer or context rule than "
            f"in the rollout; another temperature (this scorer has {scorer.temperature:g}); other weights than those "
            "that sampled. Low precision alone needs a larger tolerance.",
            name=scorer.name,
        )
    return found
