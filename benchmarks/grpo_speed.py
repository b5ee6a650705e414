"""Speed of one GRPO update against TRL's GRPOTrainer: playing, scoring by the reference, learning.

    OMP_NUM_THREADS=1 python benchmarks/grpo_speed.py           writes benchmarks/results/grpo_speed.md

Both sides play the same games of the household world from the same weights (the built-in student), as many episodes of
at most as many steps, at temperature 1, with a reference model, one update per round. They take turns in one process, on
one thread: ours is `train_rl`, theirs `GRPOTrainer.train`, each from the start of an update to the start of the next.
TRL plays by a `rollout_func`: `generate` over the whole history each turn, all live episodes in one batch, or one by one.

Then the update alone on the same stored tensors, where both losses must be equal, and, for ours, what building graphs
takes of a round with a teacher, and how a round grows with its episodes. Needs TRL and datasets.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from grpo_trl import BETA, START, OnDemand, RolloutFunc, Setting, Spent, Stopwatch, games, make_trainer, trl_inputs
from machine import machine
from tutelage.policies.local import LocalPolicy
from tutelage.policies.packed_attention import use_packed_attention
from tutelage.policies.privileged import Plan
from tutelage.rendering.load import load_renderer
from tutelage.supervision.step_credit import step_weights
from tutelage.training.batching import STREAMS, SampleUse, make_rows
from tutelage.training.forward import TrainedPositions, load_model
from tutelage.training.optim import make_optimizer
from tutelage.training.rl import train_rl
from tutelage.training.rl_config import RLConfig, RoundMetrics
from tutelage.training.rl_round import Play, build_round, play_groups
from tutelage.training.rl_update import DistillTerm, Updater
from tutelage.training.teacher_guide import GuideConfig, TeacherGuide
from tutelage.types import LossComponent, TrainingSample

RESULTS = Path(__file__).parent / "results"
OURS, FLOAT32, BFLOAT16 = "tutelage, float32", "TRL, float32", "TRL, bfloat16 autocast"
ONE_BY_ONE = "TRL, float32, episodes one by one"
TRL_SIDES: dict[str, dict[str, Any]] = {FLOAT32: {"bf16": False}, BFLOAT16: {"bf16": True}}
SAME_LOSS = 1e-6
GROWTH = (32, 64, 128)
"""Episodes of a round."""


def our_config(setting: Setting, num_rounds: int, **options: Any) -> RLConfig:
    """Ours as TRL is set. The rate is so low that play stays what it is from update to update."""
    common: dict[str, Any] = {
        "num_rounds": num_rounds, "tasks_per_round": setting.groups, "group_size": setting.group_size,
        "updates_per_round": 1, "reference_coefficient": BETA, "invalid_action_penalty": 0.0, "learning_rate": 1e-6,
        "warmup_updates": 0, "num_threads": 1,
    }  # fmt: skip
    return RLConfig(**{**common, **options})


# Whole updates


@dataclass(frozen=True)
class Update:
    """One update of one side."""

    spent: Spent
    rollout_share: float
    """Of the wall clock, 0 to 1."""
    steps: int
    tokens: int
    """Sampled ones."""


def whole_updates(setting: Setting, folder: Path) -> dict[str, list[Update]]:
    """All sides in turns; our first update, with what is done once, is left out. One by one comes once, at the end."""
    tasks = games(setting)
    updates: dict[str, list[Update]] = {OURS: [], **{side: [] for side in TRL_SIDES}, ONE_BY_ONE: []}
    plays, loops = {}, {}
    for side, options in TRL_SIDES.items():
        plays[side] = RolloutFunc({task.task_id: task for task in tasks}, load_renderer(START))
        loops[side] = OnDemand()
        loops[side].start(make_trainer(setting, folder / "trl", plays[side], setting.pairs + 2, **options))
    watch = Stopwatch()

    def trl_turn(loop: str, side: str) -> None:
        play = plays[loop]
        watch.lap()
        loops[loop].update()
        spent = watch.lap()
        updates[side].append(Update(spent, play.spent.wall / spent.wall, play.steps, play.tokens))

    def turn(row: RoundMetrics) -> None:
        values, spent = row.values, watch.lap()
        if row.round_index > 0:
            steps = round(values["rollout/steps"] * setting.episodes)
            share = values["time/rollout_seconds"] / spent.wall
            updates[OURS].append(Update(spent, share, steps, int(values["rollout/policy_tokens"])))
            for side in TRL_SIDES:
                trl_turn(side, side)
        watch.lap()

    train_rl(START, tasks, our_config(setting, setting.pairs + 1), folder / "ours", on_round=turn)
    plays[FLOAT32].batched = False
    trl_turn(FLOAT32, ONE_BY_ONE)
    return updates


# The update alone


def stored_samples(setting: Setting) -> list[TrainingSample]:
    """Samples of one round of our play, with credit and earlier log-probabilities that give every part of the loss work."""
    config, play = our_config(setting, 1), Play()
    policy = LocalPolicy(START, temperature=1.0, max_action_tokens=play.max_action_tokens, max_context=play.max_context)
    made = build_round(play_groups(policy, games(setting), config, play, 0), policy.renderer, config, play)
    generator = torch.Generator().manual_seed(0)
    return [_with_noise(sample, generator) for sample in made.samples]


def _with_noise(sample: TrainingSample, generator: torch.Generator) -> TrainingSample:
    length = len(sample.token_ids)
    credit = float(torch.randn(1, generator=generator))
    noise = 0.3 * torch.randn(2, length, generator=generator)
    played = [0.0 if value is None else value for value in sample.rollout_logprobs or ()]
    old, reference = ([value + float(off) for value, off in zip(played, row, strict=True)] for row in noise)
    return replace(
        sample,
        advantages=(credit,) * length,
        rollout_logprobs=tuple(old),
        reference_logprobs=tuple(reference),
    )


def our_update(samples: Sequence[TrainingSample], setting: Setting) -> Callable[[], float]:
    """One update on stored samples, from the samples on. Returns its loss."""
    model = load_model(str(START)).eval()
    use_packed_attention(model)
    scorer = TrainedPositions(model)
    optimizer = make_optimizer(scorer, learning_rate=0.0, betas=(0.9, 0.98), weight_decay=0.0)
    updater = Updater(scorer, our_config(setting, 1))
    uses = [SampleUse(index, 0) for index in range(len(samples))]

    def update() -> float:
        rows = make_rows(samples, uses, [LossComponent.PG, LossComponent.DISTILL], streams=STREAMS)
        told = updater.accumulate(rows)
        torch.nn.utils.clip_grad_norm_(scorer.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return told["pg/loss"] + BETA * told["reference/loss"]

    return update


def trl_update(
    samples: Sequence[TrainingSample], setting: Setting, folder: Path, **options: Any
) -> Callable[[], float]:
    """The same with TRL's loss, from its padded tensors on, and the same optimizer."""
    play = RolloutFunc({task.task_id: task for task in games(setting)}, load_renderer(START))
    trainer = make_trainer(setting, folder / "alone", play, 1, **options)
    parts = trl_inputs(samples, trainer.args.per_device_train_batch_size)
    trainer.current_gradient_accumulation_steps = trainer.args.steps_per_generation
    model = trainer.model.train()
    optimizer = make_optimizer(model, learning_rate=0.0, betas=(0.9, 0.98), weight_decay=0.0)

    def update() -> float:
        total = 0.0
        for part in parts:
            loss = trainer._compute_loss(model, part)
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return total

    return update


@dataclass(frozen=True)
class Alone:
    """Updates on stored samples."""

    spent: dict[str, list[Spent]]
    losses: dict[str, float]
    largest_gap: float
    """Between our loss and TRL's, both in float32, over all repeats."""
    tokens: int
    trained_tokens: int


def updates_alone(setting: Setting, folder: Path) -> Alone:
    """All sides in turns on the same samples. The rate is 0, so that every repeat must give the same loss."""
    samples = stored_samples(setting)
    sides = {OURS: our_update(samples, setting)}
    sides |= {side: trl_update(samples, setting, folder, **options) for side, options in TRL_SIDES.items()}
    spent: dict[str, list[Spent]] = {side: [] for side in sides}
    losses: dict[str, float] = {}
    gap = 0.0
    for repeat in range(setting.pairs + 1):
        for side, update in sides.items():
            watch = Stopwatch()
            losses[side] = update()
            if repeat:
                spent[side].append(watch.lap())
        gap = max(gap, abs(losses[OURS] - losses[FLOAT32]))
        if gap > SAME_LOSS:
            raise SystemExit(f"the losses differ by {gap:.1e}, so times would compare different work: {losses}")
    lengths = [len(sample.token_ids) for sample in samples]
    return Alone(spent, losses, gap, sum(lengths), sum(sample.num_trained_tokens for sample in samples))


# What graphs take of a round, and growth


@dataclass(frozen=True)
class GuidedRound:
    episodes: int
    steps: int
    spent: Spent
    round_wall: float
    graph_wall: float


def guided_rounds(setting: Setting, episodes: Sequence[int], folder: Path) -> list[GuidedRound]:
    """A round of GraphOPD at each number of episodes: the second of two, as the first has checks of its own."""
    found = []
    for count in episodes:
        guide = TeacherGuide(
            GuideConfig(step_weights=step_weights("graphopd")), load_renderer(START), context=Plan("shortest")
        )
        groups = count // setting.group_size
        config = our_config(setting, 2, tasks_per_round=groups, distill_coefficient=0.1)
        watch, spent, rows = Stopwatch(), [], []

        def turn(
            row: RoundMetrics, watch: Stopwatch = watch, spent: list[Spent] = spent, rows: list[Any] = rows
        ) -> None:
            spent.append(watch.lap())
            rows.append(row.values)

        train_rl(
            START, games(setting, groups), config, folder / f"guided-{count}", guide=guide,
            distill=DistillTerm.of("k1_pg"), on_round=turn,
        )  # fmt: skip
        values = rows[1]
        found.append(
            GuidedRound(
                episodes=count,
                steps=round(values["rollout/steps"] * count),
                spent=spent[1],
                round_wall=values["time/round_seconds"],
                graph_wall=values["time/graph_seconds"],
            )
        )
    return found


# The page


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Theirs over ours of each pair: the median, and the range of several."""
    each = sorted(b / a for a, b in zip(ours, theirs, strict=True))
    told = f"**{statistics.median(each):.2f}**"
    return told if len(each) == 1 else f"{told} ({each[0]:.2f}-{each[-1]:.2f})"


def median(values: Iterable[float]) -> float:
    return statistics.median(list(values))


def whole_table(updates: dict[str, list[Update]]) -> list[str]:
    lines = [
        "| one update | CPU s | wall s | of it playing | steps | sampled tokens | CPU over ours | per sampled token |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ours = updates[OURS]
    for side, some in updates.items():
        cpu = median(one.spent.cpu for one in some)
        share = median(one.rollout_share for one in some)
        over = per_token = "1"
        if side != OURS:
            base = ours[-len(some) :]
            over = ratios([one.spent.cpu for one in base], [one.spent.cpu for one in some])
            per_token = ratios(
                [one.spent.cpu / one.tokens for one in base], [one.spent.cpu / one.tokens for one in some]
            )
        lines.append(
            f"| {side} | {cpu:.2f} | {median(one.spent.wall for one in some):.2f} | {share:.0%} "
            f"| {median(one.steps for one in some):,.0f} | {median(one.tokens for one in some):,.0f} | {over} | {per_token} |"
        )
    return lines


def alone_table(alone: Alone) -> list[str]:
    lines = ["| update on stored tensors | loss | CPU s | wall s | CPU over ours |", "|---|---|---|---|---|"]
    ours = [one.cpu for one in alone.spent[OURS]]
    for side, some in alone.spent.items():
        over = "1" if side == OURS else ratios(ours, [one.cpu for one in some])
        lines.append(
            f"| {side} | {alone.losses[side]:.7f} | {median(one.cpu for one in some):.2f} "
            f"| {median(one.wall for one in some):.2f} | {over} |"
        )
    return lines


def growth_table(rounds: Sequence[GuidedRound]) -> list[str]:
    lines = [
        "| episodes | steps | CPU s | CPU ms an episode | CPU ms a step | graphs, ms an episode | share of the round |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in rounds:
        cpu = 1000 * one.spent.cpu
        lines.append(
            f"| {one.episodes} | {one.steps:,} | {one.spent.cpu:.2f} | {cpu / one.episodes:.1f} | {cpu / one.steps:.2f} "
            f"| {1000 * one.graph_wall / one.episodes:.2f} | {one.graph_wall / one.round_wall:.2%} |"
        )
    return lines


def page(
    setting: Setting, updates: dict[str, list[Update]], alone: Alone, rounds: Sequence[GuidedRound], command: str
) -> str:
    episodes = f"{setting.groups} groups of {setting.group_size} episodes of at most {setting.max_steps} steps"
    graphs = sum(one.graph_wall for one in rounds) / sum(one.round_wall for one in rounds)
    lines = [
        "# GRPO: tutelage and TRL on one CPU thread",
        "",
        f"Command: `{command}`  ",
        f"Machine: {machine('torch', 'transformers', 'trl')}",
        "",
        f"{episodes} in small games of the household world,",
        "the built-in student (Llama of 0.95 M parameters), temperature 1, an anchor to a reference model, one update a round.",
        "The sides take turns in one process. CPU seconds are the main figure; wall seconds tell of the other users of the",
        "machine too. Medians; ratios are of neighbours in time, with their range.",
        "",
        "## A whole update: playing, credit, the reference's pass, forward, backward, optimizer",
        "",
        *whole_table(updates),
        "",
        "TRL: `GRPOTrainer` with a `rollout_func` that calls `generate` over the whole history, for all live episodes in one",
        f"batch or for one; {setting.micro_batch} episodes in a forward pass, no gradient checkpointing, fused AdamW, no pass for old",
        "log-probabilities; in float32 as ours, and with autocast. Both sides draw their own episodes, so steps and tokens",
        "differ a little: the last column is per sampled token. Share of playing: by the wall clock.",
        "",
        "## The update alone, on the same stored tensors",
        "",
        *alone_table(alone),
        "",
        f"{alone.tokens:,} tokens, {alone.trained_tokens:,} of them trained, with random credit and shifted log-probabilities of play and",
        f"reference, so that clip and anchor are at work. Our loss and TRL's in float32 differ by {alone.largest_gap:.0e} at most (above",
        f"{SAME_LOSS:.0e} the run ends). Autocast computes another loss.",
        "",
        "## A round with a teacher: what graphs take, and growth",
        "",
        *growth_table(rounds),
        "",
        f"Graphs take {graphs:.2%} of all three rounds. Published: 0.13 to 0.31 %, of rounds of models of billions on GPUs; for",
        "ALFWorld 5.2 ms an episode and 0.19 %. A round of this tiny model is short, so that its share is larger.",
        "The method is `graphopd`: the student itself, told a plan, teaches the steps that graph and divergence choose. A round",
        "is playing, scoring by student, teacher and reference, and one update. Graphs are footprints, graph, walk, aptitude and",
        "choice; their time is read from the wall clock (`time/graph_seconds` over `time/round_seconds`), so that an interruption",
        "by another process may fall into it, and milliseconds grow with the load of the machine.",
        "",
        "## What the sides do differently",
        "",
        *DIFFERENCES,
    ]
    return "\n".join(lines) + "\n"


DIFFERENCES = (
    "- TRL as a user writes it feeds the whole history to `generate` each turn, and a batch goes on until its longest action",
    "  ends; we keep keys and values over turns and feed new tokens only. One can write that into a `rollout_func` too: what",
    "  then remains of the difference is about that of the second table.",
    "- TRL projects all tokens of a completion to the vocabulary, observations included, and pads a round to its longest",
    "  episode; we project trained tokens alone and pack episodes without padding.",
    "- TRL decodes completions to text and keeps figures of its own; we record each sampled token's log-probability and what",
    "  each step did, and write every episode and a checkpoint with the optimizer to disk each round, so that a killed training",
    "  goes on. All of it is in the times. TRL saves nothing in this setting.",
    "- Only TRL has mixed precision for this on a CPU: our `precision` sets weights and computation alike. Only TRL plays with",
    "  vLLM and trains on many GPUs. Nothing of that is measured here.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--max-steps", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=3, help="updates of each side that are timed")
    parser.add_argument("--micro-batch", type=int, default=32, help="episodes in one forward pass of TRL")
    parser.add_argument("--dry", action="store_true", help="print the page and write nothing")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    setting = Setting(
        arguments.groups, arguments.group_size, arguments.max_steps, arguments.pairs, arguments.micro_batch
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm_up = Setting(1, 2, 4, 1)
        whole_updates(warm_up, folder / "warm-up")
        updates = whole_updates(setting, folder)
        print("\n".join(whole_table(updates)), flush=True)
        alone = updates_alone(setting, folder)
        print("\n".join(alone_table(alone)), flush=True)
        rounds = guided_rounds(setting, [setting.episodes * count // GROWTH[0] for count in GROWTH], folder)
    text = page(setting, updates, alone, rounds, "OMP_NUM_THREADS=1 python " + " ".join(sys.argv))
    print(text)
    if not arguments.dry:
        (RESULTS / "grpo_speed.md").write_text(text)


if __name__ == "__main__":
    main()
