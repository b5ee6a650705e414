"""Supervised fine-tuning: samples and a plain model folder in, a plain model folder and a metrics file out.

One loop for one CPU process and for several processes under `accelerate launch`: every process knows the whole update
and takes its share of the micro-batches. A killed run, started again, ends with the weights of an unbroken one.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from accelerate import Accelerator, DistributedType

from tutelage.errors import TrainingError
from tutelage.policies.native_dtype import NATIVE, native_dtype
from tutelage.policies.packed_attention import use_packed_attention
from tutelage.training.augment import Augmentation
from tutelage.training.batching import (
    Row,
    SampleUse,
    augment,
    collate,
    make_rows,
    micro_batches,
    plan_updates,
)
from tutelage.training.checkpoint import METRICS, TrainingFolder, hash_model, hash_samples
from tutelage.training.config import SFTConfig, SFTResult, SFTStart, UpdateMetrics
from tutelage.training.forward import (
    TrainedPositions,
    add_lora,
    check_head,
    load_model,
)
from tutelage.training.interrupt import DeferredInterrupt
from tutelage.training.losses import check_used, combine, shares, weighted_sum
from tutelage.training.optim import learning_rate_at, make_optimizer
from tutelage.types import LossComponent, TrainingSample, stable_hash

COEFFICIENTS: Final = {LossComponent.SFT: 1.0}
"""Imitation has one component."""

NOT_IDENTITY: Final = ("checkpoint_every", "num_threads")
"""Settings that may change between a stop and a resume."""


def train_sft(
    model_dir: str | Path,
    samples: Sequence[TrainingSample],
    config: SFTConfig,
    out_dir: str | Path,
    *,
    augmentation: Augmentation | None = None,
    on_start: Callable[[SFTStart], None] | None = None,
    on_update: Callable[[UpdateMetrics], None] | None = None,
    force: bool = False,
) -> SFTResult:
    """Train a plain model folder on samples; `out_dir` appears once the model is complete.

    Started again with the same arguments it goes on from its last checkpoint, or returns at once if it was finished.
    Beside the model lie its tokenizer and other side files, `metrics.jsonl` and `training.json`. Ctrl-C finishes the
    update, saves a checkpoint and raises KeyboardInterrupt.

    Raises:
        StoreError: `out_dir` belongs to another training; `force` throws that away.
        TrainingError: no samples, a sample longer than the model's context, or a loss that is not finite.
    """
    start_dir = Path(model_dir)
    if config.precision == NATIVE:
        config = replace(config, precision="bfloat16_mixed" if native_dtype() == "bfloat16" else "float32")
    plan = plan_updates(
        samples,
        budget=config.budget,
        budget_unit=config.budget_unit,
        batch_size=config.batch_size,
        batch_unit=config.batch_unit,
        seed=config.seed,
    )
    if not plan:
        raise TrainingError(f"a budget of {config.budget} {config.budget_unit} is nearer to no sample than to one")
    check_used(samples, COEFFICIENTS)
    # The precision is the config's alone, whatever a launcher's own settings say.
    accelerator = Accelerator(mixed_precision="no")
    _check_processes(accelerator)
    folder = TrainingFolder(Path(out_dir))
    identity = _identity(config, samples, start_dir, augmentation)
    with accelerator.main_process_first():
        finished = folder.open(identity, force=force)
    if finished is not None:
        return SFTResult.from_json(folder.out_dir, finished["result"])
    with _threads(config.num_threads):
        run = _Run(accelerator, start_dir, samples, plan, config, augmentation, folder)
        if on_start is not None and accelerator.is_main_process:
            on_start(run.describe())
        run.train(on_update)
        return run.finish(identity)


class _Run:
    """One training in one process."""

    def __init__(
        self,
        accelerator: Accelerator,
        start_dir: Path,
        samples: Sequence[TrainingSample],
        plan: Sequence[Sequence[SampleUse]],
        config: SFTConfig,
        augmentation: Augmentation | None,
        folder: TrainingFolder,
    ) -> None:
        self.accelerator = accelerator
        self.start_dir = start_dir
        self.samples = samples
        self.plan = plan
        self.config = config
        self.augmentation = augmentation
        self.folder = folder
        self.model = load_model(str(start_dir), config.precision)
        _check_lengths(samples, self.model.config)
        if config.row_layout == "packed":
            use_packed_attention(self.model)
        self.adapters = None
        if config.lora_rank:
            self.adapters = add_lora(
                self.model,
                rank=config.lora_rank,
                alpha=config.lora_alpha,
                targets=config.lora_targets,
                seed=stable_hash(config.seed, "lora") % 2**63,
            )
        scorer = TrainedPositions(self.model, mixed_precision=config.precision == "bfloat16_mixed")
        optimizer = make_optimizer(
            scorer, learning_rate=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay
        )
        self.first_update, self.trained_tokens, self.total_tokens, self.seconds = 0, 0, 0, 0.0
        self.final_loss = float("nan")
        state = folder.load()
        if state is not None:
            scorer.load_state_dict(state["model"])
            self.first_update = state["update_index"]
            self.trained_tokens, self.total_tokens = state["trained_tokens"], state["total_tokens"]
            self.seconds, self.final_loss = state["seconds"], state["loss"]
        self.scorer, self.optimizer = accelerator.prepare(scorer, optimizer)
        if state is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        else:
            check_head(scorer, self._rows(0)[0])

    def describe(self) -> SFTStart:
        """What lies ahead."""
        uses = [use for update in self.plan for use in update]
        first = min(self.first_update, len(self.plan) - 1)
        sample = self.samples[self.plan[first][0].sample_index]
        return SFTStart(
            num_updates=len(self.plan),
            first_update=self.first_update,
            num_samples=len(self.samples),
            trained_tokens=sum(self.samples[use.sample_index].num_trained_tokens for use in uses),
            total_tokens=sum(len(self.samples[use.sample_index].token_ids) for use in uses),
            sample=replace(sample, token_ids=tuple(self._rows(first)[0].token_ids.tolist())),
        )

    def train(self, on_update: Callable[[UpdateMetrics], None] | None) -> None:
        """All updates that are left, with checkpoints in between."""
        is_main = self.accelerator.is_main_process
        if is_main:
            self.folder.cut_metrics(self.first_update)
        every = self.config.checkpoint_every
        with DeferredInterrupt() as interrupt, (self.folder.work_dir / METRICS).open("a", encoding="utf-8") as file:
            for update_index in range(self.first_update, len(self.plan)):
                metrics = self._update(update_index)
                if is_main:
                    file.write(json.dumps(asdict(metrics)) + "\n")
                    file.flush()
                stopped = self._any_process(interrupt.requested)
                if stopped or (every and (update_index + 1) % every == 0):
                    self._save_checkpoint(update_index + 1)
                if on_update is not None and is_main:
                    on_update(metrics)
                if stopped:
                    raise KeyboardInterrupt

    def finish(self, identity: Mapping[str, Any]) -> SFTResult:
        """Write the model folder and throw the work folder away."""
        result = SFTResult(
            model_dir=self.folder.out_dir,
            num_updates=len(self.plan),
            trained_tokens=self.trained_tokens,
            total_tokens=self.total_tokens,
            final_loss=self.final_loss,
            seconds=self.seconds,
            resumed_at=self.first_update or None,
        )
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            model = self.model if self.adapters is None else self.adapters.merge_and_unload()
            self.folder.finish(model, self.start_dir, {"identity": identity, "result": result.to_json()})
        self.accelerator.wait_for_everyone()
        return result

    def _rows(self, update_index: int) -> list[Row]:
        return make_rows(
            self.samples,
            self.plan[update_index],
            list(COEFFICIENTS),
            self.config.normaliser,
            augmentation=self.augmentation,
            seed=self.config.seed,
        )

    def _update(self, update_index: int) -> UpdateMetrics:
        """One optimizer update: accumulate gradients, clip, step."""
        started = time.perf_counter()
        losses = self._accumulate(update_index)
        loss = sum(COEFFICIENTS[component] * value for component, value in losses.items())
        learning_rate = self._set_learning_rate(update_index)
        grad_norm = float(self.accelerator.clip_grad_norm_(self.scorer.parameters(), self.config.max_grad_norm))
        if not (math.isfinite(loss) and math.isfinite(grad_norm)):
            raise TrainingError(
                f"loss {loss}, gradient norm {grad_norm}, expected finite numbers. Lower the learning rate "
                f"({learning_rate:.3g} now) or look at the samples of this update; the weights are still those before it.",
                update_index=update_index,
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        uses = self.plan[update_index]
        trained = sum(self.samples[use.sample_index].num_trained_tokens for use in uses)
        total = sum(len(self.samples[use.sample_index].token_ids) for use in uses)
        seconds = time.perf_counter() - started
        self.trained_tokens += trained
        self.total_tokens += total
        self.seconds += seconds
        self.final_loss = loss
        return UpdateMetrics(
            update_index=update_index,
            num_updates=len(self.plan),
            epoch=uses[0].epoch,
            loss=loss,
            losses={component.value: value for component, value in losses.items()},
            shares=shares(losses, COEFFICIENTS),
            trained_tokens=trained,
            total_tokens=total,
            trained_tokens_so_far=self.trained_tokens,
            learning_rate=learning_rate,
            grad_norm=grad_norm,
            seconds=round(seconds, 4),
            tokens_per_second=round(total / seconds, 1),
        )

    def _accumulate(self, update_index: int) -> dict[LossComponent, float]:
        """Gradients of this process's share of the micro-batches; returns the losses over all processes."""
        config, accelerator = self.config, self.accelerator
        num_processes, process_index = accelerator.num_processes, accelerator.process_index
        batches = micro_batches(
            self._rows(update_index), config.micro_batch_tokens, config.row_layout, num_processes=num_processes
        )
        mine = batches[process_index::num_processes]
        # Dropout draws from position alone, so that a resumed run needs no stored generator.
        torch.manual_seed(stable_hash(config.seed, "dropout", update_index, process_index) % 2**63)
        sums = torch.zeros(len(COEFFICIENTS), device=accelerator.device)
        for part in mine[:-1]:
            with accelerator.no_sync(self.scorer):
                sums += self._backward(part)
        sums += self._backward(mine[-1])
        return dict(zip(COEFFICIENTS, accelerator.reduce(sums, reduction="sum").tolist(), strict=True))

    def _backward(self, part: Sequence[Row]) -> torch.Tensor:
        """Add the gradient of one micro-batch; returns its part of each component's loss."""
        batch = collate(part, self.config.row_layout).to(self.accelerator.device)
        nll = self.scorer(batch)
        components = {component: weighted_sum(nll, weights) for component, weights in batch.weights.items()}
        # Gradients are averaged over processes, but the weights are normalised over the whole update: undo the mean.
        self.accelerator.backward(combine(components, COEFFICIENTS) * self.accelerator.num_processes)
        return torch.stack([components[component].detach() for component in COEFFICIENTS])

    def _set_learning_rate(self, update_index: int) -> float:
        config = self.config
        learning_rate = learning_rate_at(
            update_index,
            len(self.plan),
            peak=config.learning_rate,
            warmup_updates=round(config.warmup_fraction * len(self.plan)),
            final_fraction=config.final_learning_rate_fraction,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        return learning_rate

    def _save_checkpoint(self, update_index: int) -> None:
        if self.accelerator.is_main_process:
            self.folder.save(
                {
                    "update_index": update_index,
                    "model": self.accelerator.unwrap_model(self.scorer).state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                    "trained_tokens": self.trained_tokens,
                    "total_tokens": self.total_tokens,
                    "seconds": self.seconds,
                    "loss": self.final_loss,
                }
            )

    def _any_process(self, flag: bool) -> bool:
        if self.accelerator.num_processes == 1:
            return flag
        value = torch.tensor(float(flag), device=self.accelerator.device)
        return bool(self.accelerator.reduce(value, reduction="sum") > 0)


def _identity(
    config: SFTConfig, samples: Sequence[TrainingSample], start_dir: Path, augmentation: Augmentation | None
) -> dict[str, Any]:
    """What makes a training this one: two trainings of equal identity give equal weights."""
    settings = {name: value for name, value in asdict(config).items() if name not in NOT_IDENTITY}
    identity = {
        "config": settings,
        "samples": hash_samples(samples),
        "start_model": hash_model(start_dir),
        "augmentation": None if augmentation is None else _hash_augmentation(augmentation, samples),
    }
    plain: dict[str, Any] = json.loads(json.dumps(identity))
    return plain


def _check_processes(accelerator: Accelerator) -> None:
    """Each process holds the whole model: sharded weights would need another way to save them."""
    kind = accelerator.distributed_type
    if kind in (DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM):
        raise TrainingError(
            f"launched with {kind.value}, expected whole models in each process. Launch with `accelerate launch "
            "--multi_gpu` or `--cpu`, or train adapters (lora_rank) if the model does not fit."
        )


def _hash_augmentation(augmentation: Augmentation, samples: Sequence[TrainingSample]) -> str:
    """Its name and what it makes of a few samples: an augmentation is known by what it does."""
    digest = hashlib.sha256()
    for index, sample in enumerate(samples[:8]):
        digest.update(augment(augmentation, np.asarray(sample.token_ids, np.int64), index).tobytes())
    return f"{type(augmentation).__name__} {digest.hexdigest()[:16]}"


def _check_lengths(samples: Sequence[TrainingSample], model_config: Any) -> None:
    limit = getattr(model_config, "max_position_embeddings", None)
    longest = max(samples, key=lambda sample: len(sample.token_ids))
    if limit is not None and len(longest.token_ids) > limit:
        raise TrainingError(
            f"sample {longest.sample_id} has {len(longest.token_ids)} tokens, the model reads at most {limit}. "
            "Shorten the context (last_observations with layout per_step) or limit the steps of an episode."
        )


@contextmanager
def _threads(num_threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if num_threads:
        torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
