"""TRL's side of `grpo_speed.py`: its trainer, an environment loop as its `rollout_func`, and what both sides share."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer, GenerationConfig, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from tutelage.envs.registry import make_env
from tutelage.rendering.base import Renderer
from tutelage.students import student_path
from tutelage.tasks.registry import load_tasks
from tutelage.types import ParseOutcome, Task, TrainingSample

START = student_path("builtin:household_tiny")
BETA = 0.01
"""Of the reference's anchor, on both sides."""
ACTION_TOKENS = 24
"""At most so many tokens an action."""


@dataclass(frozen=True)
class Setting:
    groups: int
    group_size: int
    max_steps: int
    pairs: int
    """Updates of each side that are timed."""
    micro_batch: int = 32
    """Episodes in one forward pass of TRL."""

    @property
    def episodes(self) -> int:
        return self.groups * self.group_size


@dataclass(frozen=True)
class Spent:
    """Seconds of one stretch of work."""

    cpu: float
    wall: float


class Stopwatch:
    """CPU and wall seconds since the last look at it."""

    def __init__(self) -> None:
        self._last = Spent(time.process_time(), time.perf_counter())

    def lap(self) -> Spent:
        before, self._last = self._last, Spent(time.process_time(), time.perf_counter())
        return Spent(self._last.cpu - before.cpu, self._last.wall - before.wall)


def games(setting: Setting, count: int | None = None) -> list[Task]:
    return load_tasks("household", "train", 0, count or setting.groups, size="small", max_steps=setting.max_steps)


class Game:
    """One episode as ids, grown turn by turn: what a rollout_func has to return of it."""

    def __init__(self, task: Task, renderer: Renderer) -> None:
        self.env = make_env(task)
        self.renderer = renderer
        self.num_steps = 0
        self.prompt_ids = renderer.observation_ids(self.env.reset(0), after=None)
        self.completion_ids: list[int] = []
        self.env_mask: list[int] = []
        self.live = True

    def context(self) -> list[int]:
        return self.prompt_ids + self.completion_ids

    def take(self, token_ids: Sequence[int], *, stopped: bool) -> None:
        """Make the step that was sampled. A reply without an end is the last one, as in our rollouts."""
        action = self.renderer.parse(token_ids, stopped=stopped)
        result = self.env.step(action)
        self.num_steps += 1
        self.completion_ids += token_ids
        self.env_mask += [1] * len(token_ids)
        self.live = not (result.terminated or result.truncated or action.parse is ParseOutcome.ENDED_WITHOUT_STOP)
        if self.live:
            observed = self.renderer.observation_ids(result.observation, after=action)
            self.completion_ids += observed
            self.env_mask += [0] * len(observed)


@dataclass
class RolloutFunc:
    """Plays the games that the prompts name, with `generate` over the whole history each turn."""

    tasks: dict[str, Task]
    renderer: Renderer
    batched: bool = True
    """All live episodes in one call. False: each episode by itself, from its first turn to its last."""
    spent: Spent = Spent(0.0, 0.0)
    steps: int = 0
    tokens: int = 0

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        watch = Stopwatch()
        played = [Game(self.tasks[prompt], self.renderer) for prompt in prompts]
        model = trainer.accelerator.unwrap_model(trainer.model)
        batches = [played] if self.batched else [[game] for game in played]
        with torch.inference_mode():
            for batch in batches:
                while live := [game for game in batch if game.live]:
                    self._turn(model, live)
        self.steps = sum(game.num_steps for game in played)
        self.tokens = sum(sum(game.env_mask) for game in played)
        self.spent = watch.lap()
        return {
            "prompt_ids": [game.prompt_ids for game in played],
            "completion_ids": [game.completion_ids for game in played],
            "env_mask": [game.env_mask for game in played],
            "logprobs": None,
            "score": [10.0 * (game.env.reward() or 0.0) for game in played],
        }

    def _turn(self, model: Any, live: Sequence[Game]) -> None:
        stop, pad = self.renderer.stop_token_id, self.renderer.pad_token_id
        contexts = [game.context() for game in live]
        longest = max(map(len, contexts))
        input_ids = torch.full((len(contexts), longest), pad)
        mask = torch.zeros_like(input_ids)
        for row, context in enumerate(contexts):
            input_ids[row, longest - len(context) :] = torch.tensor(context)
            mask[row, longest - len(context) :] = 1
        config = GenerationConfig(
            do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=ACTION_TOKENS, eos_token_id=stop,
            pad_token_id=pad,
        )  # fmt: skip
        output = model.generate(input_ids=input_ids, attention_mask=mask, generation_config=config)
        for game, ids in zip(live, output[:, longest:].tolist(), strict=True):
            stopped = stop in ids
            game.take(ids[: ids.index(stop) + 1] if stopped else ids, stopped=stopped)


def score_of(completions: Sequence[str], score: Sequence[float], **_: Any) -> list[float]:
    return list(score)


def make_trainer(setting: Setting, out: Path, play: RolloutFunc, num_updates: int, **options: Any) -> Any:
    """TRL's trainer in the setting that was fastest here."""
    settings: dict[str, Any] = {
        "output_dir": str(out), "max_steps": num_updates, "per_device_train_batch_size": min(setting.micro_batch, setting.episodes),
        "gradient_accumulation_steps": max(1, setting.episodes // setting.micro_batch), "num_generations": setting.group_size,
        "shuffle_dataset": False, "beta": BETA, "use_bias_correction_kl": False, "loss_type": "dapo", "delta": 3.0, "epsilon": 0.2, "temperature": 1.0,
        "max_completion_length": 4096, "learning_rate": 1e-6, "lr_scheduler_type": "constant", "adam_beta2": 0.98,
        "max_grad_norm": 1.0, "optim": "adamw_torch_fused", "bf16": False, "fp16": False, "gradient_checkpointing": False,
        "use_cpu": True, "report_to": [], "save_strategy": "no", "logging_steps": 10**9, "disable_tqdm": True,
        "model_init_kwargs": {"dtype": "float32"},
    }  # fmt: skip
    rows = [{"prompt": task_id} for task_id in play.tasks]
    return GRPOTrainer(
        model=str(START),
        args=GRPOConfig(**{**settings, **options}),
        train_dataset=Dataset.from_list(rows),
        reward_funcs=score_of,
        processing_class=AutoTokenizer.from_pretrained(START),
        rollout_func=play,
    )


class OnDemand(TrainerCallback):  # type: ignore[misc]
    """Lets a trainer's own loop run in a thread, one update whenever it is asked for. Those never asked for never run."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._go = threading.Semaphore(0)
        self._waits = threading.Semaphore(0)

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self._waits.release()
        self._go.acquire()

    def start(self, trainer: Any) -> None:
        """Returns once the trainer is about to begin its first update."""
        trainer.add_callback(self)
        threading.Thread(target=self._train, args=[trainer], daemon=True).start()
        self._wait()

    def update(self) -> None:
        """One update, up to the beginning of the next or the end of the training."""
        self._go.release()
        self._wait()

    def _train(self, trainer: Any) -> None:
        try:
            trainer.train()
        except BaseException as error:
            self._error = error
        finally:
            self._waits.release()

    def _wait(self) -> None:
        self._waits.acquire()
        if self._error is not None:
            raise self._error


def trl_inputs(samples: Sequence[TrainingSample], rows: int) -> list[dict[str, torch.Tensor]]:
    """What TRL makes of a round: prompts padded on the left, completions on the right, to one length for all parts."""
    prompts = [sample.loss_mask.index(True) for sample in samples]
    longest_prompt = max(prompts)
    longest = max(len(sample.token_ids) - start for sample, start in zip(samples, prompts, strict=True))

    def left(values: Sequence[Any], start: int) -> list[Any]:
        return [0] * (longest_prompt - start) + list(values[:start])

    def right(values: Sequence[Any], start: int) -> list[Any]:
        return list(values[start:]) + [0] * (longest - len(values) + start)

    parts = []
    for first in range(0, len(samples), rows):
        some = list(zip(samples, prompts, strict=True))[first : first + rows]
        parts.append(
            {
                "prompt_ids": torch.tensor([left(sample.token_ids, start) for sample, start in some]),
                "prompt_mask": torch.tensor([left([1] * start, start) for _, start in some]),
                "completion_ids": torch.tensor([right(sample.token_ids, start) for sample, start in some]),
                "completion_mask": torch.tensor([right([1] * len(sample.token_ids), start) for sample, start in some]),
                "tool_mask": torch.tensor([right([int(on) for on in one.loss_mask], start) for one, start in some]),
                "advantages": torch.tensor([sample.advantages[0] for sample, _ in some if sample.advantages]),
                "old_per_token_logps": torch.tensor([right(one.rollout_logprobs or (), start) for one, start in some]),
                "ref_per_token_logps": torch.tensor(
                    [right(one.reference_logprobs or (), start) for one, start in some]
                ),
                "num_items_in_batch": torch.tensor(sum(sample.num_trained_tokens for sample in samples)),
            }
        )
    return parts
