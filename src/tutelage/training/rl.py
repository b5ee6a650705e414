"""Reinforcement learning in rounds: a plain model folder, tasks and a config in, a plain model folder out.

    round: play groups -> credit, and a guide's view of them -> a few updates -> checkpoint

Playing and learning share one set of weights. A killed training, started again, ends with the weights of an unbroken
one: finished rounds come from the checkpoint, the episodes of the round that was cut off from its file.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from accelerate import PartialState
from numpy.typing import NDArray
from torch import Tensor

from tutelage.errors import ConfigError, TrainingError
from tutelage.policies.base import ScoreFailure, ScoreRequest
from tutelage.policies.local import LocalPolicy
from tutelage.policies.packed_attention import use_packed_attention
from tutelage.policies.scorer import LocalScorer
from tutelage.rendering.load import load_renderer
from tutelage.store import RecordStore
from tutelage.supervision.distill import TrajectoryScores
from tutelage.training.batching import STREAMS, Row, SampleUse, make_rows
from tutelage.training.checkpoint import METRICS, TrainingFolder, hash_model
from tutelage.training.forward import TrainedPositions, check_head, load_model
from tutelage.training.losses import check_used
from tutelage.training.optim import make_optimizer
from tutelage.training.rl_config import RLConfig, RLResult, RoundMetrics
from tutelage.training.rl_round import Guide, GuidedRound, Play, Round, build_round, play_groups
from tutelage.training.rl_update import DISTILL, PG, DistillTerm, Updater
from tutelage.types import Task, TrainingSample, stable_hash

ROUNDS: Final = "rounds"
"""Folder with the episodes of each round."""

NOT_IDENTITY: Final = ("num_threads", "keep_trajectories")
"""Settings that may change between a stop and a resume."""

Evaluate = Callable[[LocalPolicy], Mapping[str, float]]
"""Measures a policy for the learning curve."""


def train_rl(
    model_dir: str | Path,
    tasks: Sequence[Task],
    config: RLConfig,
    out_dir: str | Path,
    *,
    play: Play = Play(),
    guide: Guide | None = None,
    distill: DistillTerm | None = None,
    evaluate: Evaluate | None = None,
    on_round: Callable[[RoundMetrics], None] | None = None,
    force: bool = False,
) -> RLResult:
    """Improve a model by its own episodes; `out_dir` appears once it is complete.

    guide: which steps a teacher teaches; with it comes `distill`, how. It matters only with a `distill_coefficient`.
    evaluate: called every `evaluate_every` rounds, before the first and after the last, for the learning curve.

    Started again with the same arguments it goes on with the round that was cut off, or returns at once if it was
    finished. Beside the model lie `metrics.jsonl`, one row per round, and `training.json`.

    Raises:
        StoreError: `out_dir` belongs to another training; `force` throws that away.
        ConfigError: no tasks, or a teacher's part without a guide.
        TrainingError: no episode of a round was scored, a teacher's part that no token of a round has, a loss that is not
            finite, or more than one process.
    """
    if not tasks:
        raise ConfigError("reinforcement: no tasks to play")
    if (num_processes := PartialState().num_processes) > 1:
        raise TrainingError(
            f"launched with {num_processes} processes, expected one: they would all play the same episodes. Start it plainly."
        )
    if config.distill_coefficient > 0 and (guide is None or distill is None):
        raise ConfigError(
            f"reinforcement: distill_coefficient is {config.distill_coefficient}, but no teacher is given. Name one, or set "
            "the coefficient to 0."
        )
    start_dir = Path(model_dir)
    folder = TrainingFolder(Path(out_dir))
    identity = _identity(config, tasks, start_dir, play, guide, distill)
    finished = folder.open(identity, force=force)
    if finished is not None:
        return RLResult.from_json(folder.out_dir, finished["result"])
    threads = torch.get_num_threads()
    if config.num_threads:
        torch.set_num_threads(config.num_threads)
    try:
        run = _Run(start_dir, tasks, config, folder, play, guide, distill, evaluate)
        run.train(on_round)
        return run.finish(identity)
    finally:
        torch.set_num_threads(threads)


class _Run:
    """One training in one process."""

    def __init__(
        self,
        start_dir: Path,
        tasks: Sequence[Task],
        config: RLConfig,
        folder: TrainingFolder,
        play: Play,
        guide: Guide | None,
        distill: DistillTerm | None,
        evaluate: Evaluate | None,
    ) -> None:
        self.start_dir, self.tasks, self.config, self.folder = start_dir, tasks, config, folder
        self.play, self.guide, self.evaluate = play, guide, evaluate
        self.renderer = play.renderer or load_renderer(start_dir)
        self.policy = LocalPolicy(
            start_dir,
            temperature=config.temperature,
            max_action_tokens=play.max_action_tokens,
            max_context=play.max_context,
            context_rule=play.context_rule,
            seed=stable_hash(config.seed, "play") % 2**31,
            dtype=config.precision,
            renderer=self.renderer,
            action_format=play.action_format,
        )
        # Without dropout: the ratio of the first update compares one distribution with itself.
        model = load_model(str(start_dir), config.precision).eval()
        if config.row_layout == "packed":
            use_packed_attention(model)
        self.scorer = TrainedPositions(model.to(self.policy.device))
        self.optimizer = make_optimizer(
            self.scorer, learning_rate=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay
        )
        self.student = self._local_scorer(model, "student")
        self.reference = self._local_scorer(start_dir, "reference") if config.reference_coefficient > 0 else None
        self.totals = {"num_updates": 0, "num_episodes": 0, "env_steps": 0, "trained_tokens": 0, "teacher_tokens": 0}
        self.first_round, self.seconds = 0, 0.0
        self.curve: list[dict[str, float]] = []
        state = folder.load()
        if state is not None:
            self.scorer.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.first_round, self.totals = state["round_index"], state["totals"]
            self.seconds, self.curve = state["seconds"], state["curve"]
        if guide is not None:
            guide.attach(model, None if state is None else state["guide"])
        share_weights(self.policy.model, model)
        self.updater = Updater(self.scorer, config, distill, self._teacher_distribution)
        self._guided: GuidedRound | None = None
        self._samples: list[TrainingSample] = []
        self._head_is_checked = False

    def _local_scorer(self, model: Any, name: str) -> LocalScorer:
        config = self.config
        return LocalScorer(
            model,
            temperature=config.temperature,
            name=name,
            vocabulary_id=self.renderer.vocabulary_id,
            micro_batch_tokens=config.micro_batch_tokens,
            row_layout=config.row_layout,
            dtype=config.precision,
        )

    def train(self, on_round: Callable[[RoundMetrics], None] | None) -> None:
        """All rounds that are left, with a checkpoint after each."""
        config = self.config
        self.folder.cut_metrics(self.first_round)
        for round_index in range(self.first_round, config.num_rounds):
            started = time.perf_counter()
            values = self._measure(round_index)
            values |= self._round(round_index)
            seconds = time.perf_counter() - started
            self.seconds += seconds
            values["time/round_seconds"] = seconds
            metrics = RoundMetrics(
                round_index=round_index, num_rounds=config.num_rounds, values=values, seconds=round(seconds, 4)
            )
            with (self.folder.work_dir / METRICS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(metrics)) + "\n")
            self._save_checkpoint(round_index + 1)
            if not config.keep_trajectories:
                self._round_path(round_index).unlink(missing_ok=True)
            if on_round is not None:
                on_round(metrics)
        self._measure(config.num_rounds)

    def finish(self, identity: Mapping[str, Any]) -> RLResult:
        """Write the model folder and throw the work folder away."""
        result = RLResult(
            model_dir=self.folder.out_dir,
            num_rounds=self.config.num_rounds,
            seconds=round(self.seconds, 3),
            curve=tuple(self.curve),
            **self.totals,
        )
        rounds = self.folder.work_dir / ROUNDS
        kept = [ROUNDS] if self.config.keep_trajectories and rounds.is_dir() else []
        summary = {"identity": identity, "result": result.to_json()}
        self.folder.finish(self.scorer.model, self.start_dir, summary, kept=kept)
        return result

    def _measure(self, round_index: int) -> dict[str, float]:
        """A point of the learning curve: the policy before this round."""
        config = self.config
        last = round_index == config.num_rounds
        due = config.evaluate_every and (last or round_index % config.evaluate_every == 0)
        if self.evaluate is None or not due:
            return {}
        known = [point for point in self.curve if point["round"] == round_index]
        if known:
            return {name: value for name, value in known[0].items() if name != "round"}
        values = {f"evaluate/{name}": float(value) for name, value in self.evaluate(self.policy).items()}
        self.curve.append({"round": round_index, **values})
        return values

    def _round(self, round_index: int) -> dict[str, float]:
        """Play, give credit, update. Returns the figures of the round."""
        config = self.config
        clock = time.perf_counter()
        chosen = _tasks_of_round(self.tasks, config, round_index)
        self.policy.version = f"{self.start_dir.name}@round-{round_index}"
        path = self._round_path(round_index)
        path.parent.mkdir(exist_ok=True)
        seed = stable_hash(config.seed, "round", round_index) % 2**31
        groups = play_groups(self.policy, chosen, config, self.play, seed, RecordStore(path, "trajectory"))
        played, clock = time.perf_counter() - clock, time.perf_counter()
        self._guided = None
        if self.guide is not None and config.distill_coefficient > 0:
            by_id = {task.task_id: task for task in chosen}
            self._guided = self.guide.guide(groups, by_id, self.student, round_index)
        made = build_round(groups, self.renderer, config, self.play, self._guided)
        if not made.samples:
            raise TrainingError(
                f"round {round_index}: none of {sum(len(group.trajectories) for group in groups)} episodes was scored, so "
                f"there is nothing to learn from. Their records, with the errors, are in {path}."
            )
        if config.distill_coefficient > 0:
            check_used(made.samples, {DISTILL: config.distill_coefficient})
        self._samples = self._with_reference(made.samples)
        scored, clock = time.perf_counter() - clock, time.perf_counter()
        values = made.metrics | self._learn(made, round_index)
        values |= {
            "time/rollout_seconds": played,
            "time/score_seconds": scored,
            "time/update_seconds": time.perf_counter() - clock,
        }
        return values

    def _with_reference(self, samples: Sequence[TrainingSample]) -> list[TrainingSample]:
        """The reference's log-probabilities at the policy tokens, in one pass over the samples."""
        if self.reference is None:
            return list(samples)
        positions = [np.flatnonzero(sample.loss_mask) for sample in samples]
        requests = [
            ScoreRequest(request_id=sample.sample_id, token_ids=np.asarray(sample.token_ids), positions=where)
            for sample, where in zip(samples, positions, strict=True)
        ]
        done = []
        for sample, where, scores in zip(samples, positions, self.reference.score(requests), strict=True):
            if isinstance(scores, ScoreFailure):
                raise TrainingError(
                    f"sample {sample.sample_id}: the reference gave no scores: {scores.reason}, {scores.detail}"
                )
            values: list[float | None] = [None] * len(sample.token_ids)
            for index, value in zip(where.tolist(), scores.logprobs.tolist(), strict=True):
                values[index] = value
            done.append(replace(sample, reference_logprobs=tuple(values)))
        return done

    def _learn(self, made: Round, round_index: int) -> dict[str, float]:
        """The updates of a round. Figures are means over them, but for those of the first, which tell of agreement."""
        config = self.config
        figures: dict[str, list[float]] = defaultdict(list)
        for uses in plan_round(len(self._samples), config, round_index):
            rows = self._rows(uses)
            if not self._head_is_checked:
                check_head(self.scorer, rows[0])
                self._head_is_checked = True
            told = self.updater.accumulate(rows)
            told["grad_norm"] = self._step()
            for name, value in told.items():
                figures[name].append(value)
            self.totals["trained_tokens"] += sum(len(row.trained) for row in rows)
        self.totals["num_episodes"] += made.num_episodes
        self.totals["env_steps"] += made.env_steps
        self.totals["teacher_tokens"] += made.guided.teacher_tokens if made.guided else 0
        means = {name: float(np.mean(values)) for name, values in figures.items()}
        first_ratio = figures.get("pg/ratio", [math.nan])[0]
        return means | {"pg/first_ratio": first_ratio, "updates": float(self.totals["num_updates"])}

    def _step(self) -> float:
        """Clip, step, forget the gradients. Returns the norm before clipping."""
        config = self.config
        warmup = config.warmup_updates
        scale = min(1.0, (self.totals["num_updates"] + 1) / warmup) if warmup else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = config.learning_rate * scale
        norm = float(torch.nn.utils.clip_grad_norm_(self.scorer.parameters(), config.max_grad_norm))
        if not math.isfinite(norm):
            raise TrainingError(f"the gradient norm is {norm}, expected a finite number. Lower the learning rate.")
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.totals["num_updates"] += 1
        return norm

    def _rows(self, uses: Sequence[SampleUse]) -> list[Row]:
        """Rows of one update, each component normalised by itself over it."""
        config = self.config
        pg = make_rows(self._samples, uses, [PG], config.normaliser, streams=STREAMS)
        distill = make_rows(self._samples, uses, [DISTILL], config.distill_normaliser)
        return [replace(own, weights={**own.weights, **other.weights}) for own, other in zip(pg, distill, strict=True)]

    def _teacher_distribution(self, rows: Sequence[Row]) -> Tensor:
        """[M, V] log-probabilities of the teacher at the trained tokens of the rows; NaN where it scored nothing."""
        assert self.guide is not None, "only a guided round has a teacher's part"
        samples = [self._samples[row.sample_index] for row in rows]
        wanted = [sample for sample in samples if any(sample.loss_weights[DISTILL])]
        scores = self.guide.distributions(list(dict.fromkeys(sample.trajectory_id for sample in wanted)))
        made = [
            _placed(row, sample, scores.get(sample.trajectory_id)) for row, sample in zip(rows, samples, strict=True)
        ]
        width = max(one.shape[1] for one in made)
        blank = [np.full((len(one), width), np.nan, np.float32) if one.shape[1] < width else one for one in made]
        return torch.from_numpy(np.concatenate(blank))

    def _round_path(self, round_index: int) -> Path:
        return self.folder.work_dir / ROUNDS / f"{round_index:05d}.jsonl"

    def _save_checkpoint(self, round_index: int) -> None:
        self.folder.save(
            {
                "round_index": round_index,
                "model": self.scorer.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "totals": self.totals,
                "seconds": self.seconds,
                "curve": self.curve,
                "guide": self.guide.state() if self.guide is not None else None,
            }
        )


def plan_round(num_samples: int, config: RLConfig, round_index: int) -> list[list[SampleUse]]:
    """Which samples each update of a round takes: dealt out in a seeded order, as evenly as it goes.

    Example, 5 samples, 2 updates: 3 and 2 of them.
    """
    updates: list[list[SampleUse]] = []
    for epoch in range(config.epochs_per_round):
        order = np.random.default_rng(stable_hash(config.seed, "order", round_index, epoch)).permutation(num_samples)
        for part in np.array_split(order, min(config.updates_per_round, num_samples)):
            updates.append([SampleUse(index, epoch) for index in part.tolist()])
    return updates


def _placed(row: Row, sample: TrainingSample, scores: TrajectoryScores | None) -> NDArray[np.float32]:
    """[M, V] distributions of a trajectory's steps at the trained tokens of one row; [M, 0] without any."""
    placed: NDArray[np.float32] | None = None
    for step_index, start, end in sample.step_spans:
        step = scores.steps[step_index] if scores is not None else None
        if step is None or step.full is None:
            continue
        if placed is None:
            placed = np.full((len(row.trained), step.full.shape[1]), np.nan, np.float32)
        inside = (row.trained >= start) & (row.trained < end)
        placed[inside] = step.full[row.trained[inside] - start]
    return np.zeros((len(row.trained), 0), np.float32) if placed is None else placed


def share_weights(player: torch.nn.Module, learner: torch.nn.Module) -> None:
    """Let `player` play with the very tensors that `learner` changes."""
    theirs = dict(learner.named_parameters())
    for name, parameter in player.named_parameters():
        parameter.data = theirs[name].data
    buffers = dict(learner.named_buffers())
    for name, buffer in player.named_buffers():
        buffer.data = buffers[name].data


def _tasks_of_round(tasks: Sequence[Task], config: RLConfig, round_index: int) -> list[Task]:
    """The next tasks in order, each once, from the beginning again at the end."""
    count = min(config.tasks_per_round, len(tasks))
    return [tasks[(round_index * count + index) % len(tasks)] for index in range(count)]


def _identity(
    config: RLConfig,
    tasks: Sequence[Task],
    start_dir: Path,
    play: Play,
    guide: Guide | None,
    distill: DistillTerm | None,
) -> dict[str, Any]:
    """What makes a training this one: two of equal identity give equal weights."""
    identity = {
        "config": {name: value for name, value in asdict(config).items() if name not in NOT_IDENTITY},
        "tasks": stable_hash(*(repr(task) for task in tasks)),
        "start_model": hash_model(start_dir),
        "play": [repr(play.limits), repr(play.context_rule), play.layout, play.max_action_tokens, play.max_context],
        "guide": None if guide is None else dict(guide.identity()),
        "distill": None if distill is None else distill.name,
    }
    plain: dict[str, Any] = json.loads(json.dumps(identity))
    return plain
