"""What a reinforcement learning is told and what it tells: settings, one row per round, the result. Free of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

from tutelage.errors import ConfigError
from tutelage.supervision.advantages import Statistics, Std
from tutelage.training.config import CHOICES, Normaliser, RowLayout, check_choice

RLPrecision = Literal["float32", "bfloat16"]
ReferenceLoss = Literal["k3", "k3_corrected"]

DISTILL_LOSS_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "k1_pg": (),
    "k1_direct": ("gate",),
    "k3": (),
    "rkl_full": (),
    "fkl_full": (),
    "jsd": ("b",),
    "rkl_topk": ("k", "renormalise"),
    "fkl_topk": ("k", "renormalise"),
}
"""Ways in which a teacher's opinion becomes a loss, with their settings. There is no plain ``k1``: its gradient has mean
0 and no teacher in it."""


@dataclass(frozen=True, kw_only=True)
class RLConfig:
    """How to learn from the student's own episodes, in rounds: play, give credit, update.

    The defaults suit the built-in student of under a million parameters; clip, penalty, reward and KL are those that the
    GRPO baselines of multi-turn agents share.
    """

    num_rounds: int = 20
    """Collections of episodes, each with the updates made on it."""
    tasks_per_round: int = 16
    """Groups of a round. Tasks are taken in order, and from the beginning again when they are used up."""
    group_size: int = 8
    """G, episodes per task; their rewards are compared with each other."""
    temperature: float = 1.0
    """Of the rollouts. Student, teacher and reference are all read at it, so that the first ratio is 1."""
    updates_per_round: int = 4
    """The samples of a round are dealt out, in a seeded order, to so many updates."""
    epochs_per_round: int = 1
    """How often the samples of a round are gone through."""

    reward_scale: float = 10.0
    """What a reward of 1 counts in the score."""
    invalid_action_penalty: float = 0.1
    """Taken off the score of a step whose action was malformed or did nothing."""
    std: Std = "population"
    """By what a group's advantages are divided: ``population``, ``sample`` or ``none``."""
    statistics: Statistics = "trajectories"
    """What mean and deviation are taken over: ``trajectories``, or ``steps``, where long episodes count more."""
    clip_low: float = 0.2
    clip_high: float = 0.2
    """Ratios outside of 1 - clip_low to 1 + clip_high bring no further gain."""
    dual_clip: float | None = 3.0
    """Bound of the loss, in multiples of the advantage, where the advantage is negative. None: no bound."""

    pg_coefficient: float = 1.0
    """Of the policy gradient. 0: the teacher alone."""
    reference_coefficient: float = 0.01
    """Of the KL anchor to the model the training starts from. 0: no anchor, and no pass to compute it."""
    reference_loss: ReferenceLoss = "k3"
    """``k3``, or ``k3_corrected``: times the ratio, so that its gradient is that of the reverse KL."""
    distill_coefficient: float = 0.0
    """Of the teacher's part. 0: plain GRPO; the loss is then that of a training without teacher, bit for bit."""
    normaliser: Normaliser = "token_mean"
    """What the policy gradient and the anchor average over."""
    distill_normaliser: Normaliser = "token_mean"
    """The same for the teacher's part: ``token_mean`` over its own tokens, ``all_tokens`` over all policy tokens."""

    learning_rate: float = 3e-4
    warmup_updates: int = 4
    """Updates over which the learning rate rises; then it stays."""
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    micro_batch_tokens: int = 8192
    """Tokens in one forward pass. It changes memory and speed, not the gradient."""
    row_layout: RowLayout = "packed"
    precision: RLPrecision = "float32"
    """``float32`` or ``bfloat16``, of weights and computation alike, when playing and when learning."""
    concurrency: int = 128
    """Episodes played at once."""
    seed: int = 0
    num_threads: int = 0
    """CPU threads of torch. 0 leaves them as they are."""
    evaluate_every: int = 0
    """Rounds between two measurements for the learning curve, and before the first. 0: none."""
    keep_trajectories: bool = False
    """Keep the episodes of every round, in ``rounds/`` of the model folder; some megabytes a round."""

    def __post_init__(self) -> None:
        for name in ("normaliser", "row_layout"):
            check_choice(name, getattr(self, name))
        choices = {
            "distill_normaliser": CHOICES["normaliser"],
            "std": get_args(Std),
            "statistics": get_args(Statistics),
            "precision": get_args(RLPrecision),
            "reference_loss": get_args(ReferenceLoss),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ConfigError.unknown(f"reinforcement: {name}", getattr(self, name), known)
        positive = (
            "num_rounds", "tasks_per_round", "temperature", "updates_per_round", "epochs_per_round",
            "learning_rate", "max_grad_norm", "micro_batch_tokens", "concurrency", "clip_low", "clip_high",
        )  # fmt: skip
        for name in positive:
            if not getattr(self, name) > 0:
                raise ConfigError(f"reinforcement: {name} is {getattr(self, name)}, expected more than 0")
        if self.group_size < 2:
            raise ConfigError(
                f"reinforcement: group_size is {self.group_size}, expected at least 2: an episode alone has nothing to be "
                "compared with"
            )
        if self.dual_clip is not None and not self.dual_clip > 1.0:
            raise ConfigError(f"reinforcement: dual_clip is {self.dual_clip}, expected more than 1, or null for none")
        for name in ("pg_coefficient", "reference_coefficient", "distill_coefficient", "evaluate_every", "num_threads"):
            if getattr(self, name) < 0:
                raise ConfigError(f"reinforcement: {name} is {getattr(self, name)}, expected 0 or more")
        if self.pg_coefficient == 0.0 and self.distill_coefficient == 0.0:
            raise ConfigError(
                "reinforcement: pg_coefficient and distill_coefficient are both 0; nothing would be learnt"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundMetrics:
    """One row of metrics.jsonl."""

    round_index: int
    num_rounds: int
    values: Mapping[str, float]
    """By name, as ``pg/loss``. What each means stands in docs/methods/reinforcement.md."""
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RLResult:
    """A finished reinforcement learning."""

    model_dir: Path
    num_rounds: int
    num_updates: int
    num_episodes: int
    """Scored episodes of all rounds."""
    env_steps: int
    """Steps played in them."""
    trained_tokens: int
    """Tokens of the student's actions that were learnt from, counted once per update."""
    teacher_tokens: int
    """Tokens that a teacher read, its own context included, in all rounds."""
    seconds: float
    curve: tuple[Mapping[str, float], ...] = field(default=())
    """Measurements on the way, each with its ``round``."""

    def to_json(self) -> dict[str, Any]:
        """The figures, without what belongs to one call."""
        return {name: value for name, value in asdict(self).items() if name != "model_dir"}

    @classmethod
    def from_json(cls, model_dir: Path, values: Mapping[str, Any]) -> RLResult:
        """A training that had been finished before."""
        return cls(model_dir=model_dir, **{**values, "curve": tuple(values["curve"])})
