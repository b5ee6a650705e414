"""What a training is told and what it tells: settings, the start, one row per update, the result. Free of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from tutelage.errors import ConfigError
from tutelage.types import TrainingSample

BudgetUnit = Literal["updates", "epochs", "trained_tokens", "total_tokens"]
BatchUnit = Literal["samples", "trained_tokens", "total_tokens"]
RowLayout = Literal["packed", "padded"]
Normaliser = Literal["token_mean", "per_step_mean", "per_trajectory_mean", "all_tokens"]
Precision = Literal["float32", "bfloat16_mixed", "bfloat16", "native"]

CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "budget_unit": get_args(BudgetUnit),
    "batch_unit": get_args(BatchUnit),
    "row_layout": get_args(RowLayout),
    "normaliser": get_args(Normaliser),
    "precision": get_args(Precision),
}
"""Settings that take one of a few words."""


def check_choice(name: str, value: str) -> None:
    """Raises ConfigError, with a suggestion, if `value` is not one of the words of setting `name`."""
    if value not in CHOICES[name]:
        raise ConfigError.unknown(f"training: {name}", value, CHOICES[name])


@dataclass(frozen=True, kw_only=True)
class SFTConfig:
    """How to train. The defaults suit the built-in student of under a million parameters."""

    budget: float = 10.0
    """When to stop, in `budget_unit`."""
    budget_unit: BudgetUnit = "epochs"
    """``updates``, ``epochs``, ``trained_tokens`` (tokens with loss) or ``total_tokens``."""
    batch_size: int = 8
    """Size of an update, in `batch_unit`."""
    batch_unit: BatchUnit = "samples"
    """``samples``, ``trained_tokens`` or ``total_tokens``; an update closes once it has so many."""
    micro_batch_tokens: int = 4096
    """Tokens, padding included, in one forward pass. It changes memory and speed, not the gradient."""
    row_layout: RowLayout = "packed"
    """``packed``: rows one after the other, no padding. ``padded``: one row per sample, similar lengths together."""
    learning_rate: float = 2e-3
    """At the peak, after warm-up."""
    warmup_fraction: float = 0.03
    """Part of the updates over which the learning rate rises."""
    final_learning_rate_fraction: float = 0.0
    """Where the cosine ends, as part of the peak."""
    betas: tuple[float, float] = (0.9, 0.98)
    """AdamW's decay of the mean and of the square of gradients."""
    weight_decay: float = 0.05
    """AdamW's, on matrices only."""
    max_grad_norm: float = 1.0
    """Gradients of a greater norm are scaled down to it."""
    normaliser: Normaliser = "token_mean"
    """What the loss averages over: ``token_mean``, ``per_step_mean``, ``per_trajectory_mean`` or ``all_tokens``."""
    seed: int = 0
    """Of the order of samples, of augmentation and of dropout."""
    precision: Precision = "float32"
    """``float32``; ``bfloat16_mixed``: weights in float32, computed in bfloat16; ``bfloat16``: both.
    ``native``: ``bfloat16_mixed`` where the hardware computes in bfloat16, else ``float32``."""
    lora_rank: int = 0
    """0 trains all weights; above 0, adapters of this rank, merged into the weights at the end."""
    lora_alpha: int = 32
    """Scale of the adapters: alpha / rank."""
    lora_targets: str | tuple[str, ...] = "all-linear"
    """Names of the modules that get an adapter."""
    num_threads: int = 0
    """CPU threads of torch. 0 leaves them as they are."""
    checkpoint_every: int = 200
    """Updates between two checkpoints. 0: only when interrupted."""

    def __post_init__(self) -> None:
        for name in CHOICES:
            check_choice(name, getattr(self, name))
        for name in ("budget", "batch_size", "micro_batch_tokens", "learning_rate", "max_grad_norm"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"training: {name} is {getattr(self, name)}, expected more than 0")
        for name in ("warmup_fraction", "final_learning_rate_fraction"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"training: {name} is {getattr(self, name)}, expected 0 to 1")
        for name in ("weight_decay", "lora_rank", "num_threads", "checkpoint_every"):
            if getattr(self, name) < 0:
                raise ConfigError(f"training: {name} is {getattr(self, name)}, expected 0 or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class SFTStart:
    """What a training is about to do."""

    num_updates: int
    first_update: int
    """0, or where a stopped run goes on."""
    num_samples: int
    trained_tokens: int
    """Of all updates; a sample used twice counts twice."""
    total_tokens: int
    sample: TrainingSample
    """The first sample of the first update, as it will be fed; show it with `describe_sample`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateMetrics:
    """One row of metrics.jsonl."""

    update_index: int
    num_updates: int
    epoch: int
    loss: float
    """Nats; the sum of coefficient x component, with the weights before the update."""
    losses: Mapping[str, float]
    """Per component, normalised by itself."""
    shares: Mapping[str, float]
    """Part of each component in the total."""
    trained_tokens: int
    """Of this update, over all processes."""
    total_tokens: int
    trained_tokens_so_far: int
    learning_rate: float
    grad_norm: float
    """Before clipping."""
    seconds: float
    tokens_per_second: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SFTResult:
    """A finished training."""

    model_dir: Path
    num_updates: int
    trained_tokens: int
    total_tokens: int
    final_loss: float
    """Of the last update."""
    seconds: float
    """Of all updates, those before a resume included."""
    resumed_at: int | None
    """The update a stopped run went on with. None: unbroken. `num_updates`: it had been finished before."""

    def to_json(self) -> dict[str, Any]:
        """The figures, without what belongs to one call."""
        return {name: value for name, value in asdict(self).items() if name not in ("model_dir", "resumed_at")}

    @classmethod
    def from_json(cls, model_dir: Path, values: Mapping[str, Any]) -> SFTResult:
        """A training that had been finished before."""
        return cls(model_dir=model_dir, resumed_at=values["num_updates"], **values)
