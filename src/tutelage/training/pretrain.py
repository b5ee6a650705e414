"""Warm-up of a student: language modelling on random play. No expert; of the household game, no task panel either.

In: a fresh student folder. Out: a student folder that writes well-formed commands about things that are where it says;
it has not seen one expert step. Imitation from here needs far fewer tokens than from scratch.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM

from tutelage.envs.household.generator import generate_game
from tutelage.envs.registry import find_environment
from tutelage.errors import ConfigError
from tutelage.rendering.base import Renderer
from tutelage.rendering.load import load_renderer
from tutelage.tasks.registry import load_tasks
from tutelage.training.augment import Augmentation, ObjectRenaming, Renaming, read_entities
from tutelage.training.env_play import env_play
from tutelage.training.random_play import Habits, Play, hindsight_play, random_play
from tutelage.types import Action, Observation

FIRST_GAME_SEED: Final = 1_000_000_000
"""Warm-up games have seeds from here on, far from those of the task panels."""


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """What is played and how it is learnt. The defaults made the student that comes with tutelage."""

    num_tokens: int = 2_500_000
    """Tokens of play to pass over, observations included."""
    hindsight_share: float = 0.75
    """Share of plays that are told under a task they happened to win; the others wander under an unrelated one."""
    plays_per_game: int = 8
    """Hindsight keeps the tidiest winning one of this many plays of a game."""
    tour_share: float = 0.5
    """Share of plays that tour the room in the order of the intro, up or down, while they carry nothing."""
    max_steps: int = 30
    real_share: float = 0.2
    """Share of games of the size of the released ones."""
    invalid_share: float = 0.05
    """Chance that a command is one the game refuses, so that the reply `Nothing happens.` is known."""
    command_weight: float = 1.0
    """Loss weight of the tokens of commands that did something."""
    invalid_weight: float = 0.0
    """Loss weight of refused commands. 0: seen, not learnt."""
    soft_targets: bool = True
    """Where the player's chances are known, learn them all, not only the command that was drawn."""
    observation_weight: float = 0.5
    """Loss weight of replies. The intro carries none, since nothing in it can be foretold."""
    rename_receptacles: bool = False
    """Also renames receptacle types, as objects always are; the next two give new numbers. See `ObjectRenaming`."""
    renumber_receptacles: bool = False
    renumber_objects: bool = False
    learning_rate: float = 3e-3
    warmup_updates: int = 100
    weight_decay: float = 0.05
    batch_tokens: int = 2048
    """Tokens of a batch, padding included."""
    passes: int = 2
    """How often a play is used, each time under new names."""
    seed: int = 0
    env: str = "household"
    """Whose random play. The settings above that speak of games, tours and receptacles are of the household game alone."""
    env_options: Mapping[str, Any] = field(default_factory=dict)
    """Of the environment's task set. Other environments than household play their training tasks."""
    num_tasks: int = 1000
    """Training tasks that are played, over and over; not of household, which has games of its own for this."""

    def __post_init__(self) -> None:
        if self.num_tokens < self.batch_tokens:
            raise ConfigError(
                f"pretrain: num_tokens is {self.num_tokens}, expected at least batch_tokens ({self.batch_tokens})."
            )
        if not self.command_weight > 0:
            raise ConfigError(f"pretrain: command_weight is {self.command_weight}, expected more than 0.")


@dataclass(frozen=True, slots=True)
class PretrainResult:
    """What the warm-up did."""

    model_dir: Path
    num_updates: int
    num_tokens: int
    """Tokens passed over, padding not counted."""
    seconds: float
    loss: float
    """Mean of the last 50 updates, in nats per unit of weight."""


@dataclass(frozen=True, slots=True)
class PlayTokens:
    """One play as ids [T], and M targets: after `positions[m]`, id `targets[m]` is to come with weight `weights[m]`.

    A position with one target is plain language modelling; several targets are a distribution.
    """

    token_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    targets: NDArray[np.int64]
    weights: NDArray[np.float32]


def pretrain(
    model_dir: str | Path,
    out_dir: str | Path,
    config: PretrainConfig = PretrainConfig(),
    *,
    on_update: Callable[[dict[str, float]], None] | None = None,
) -> PretrainResult:
    """Train the student of `model_dir` on random play and write it to `out_dir` in half precision.

    `on_update` is called with update_index, num_tokens, loss and learning_rate after every update. Same arguments and
    machine, same student. The folder gets `pretrain.json`: the config and what came of it.
    """
    started = time.perf_counter()
    source, target = Path(model_dir), Path(out_dir)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, betas=(0.9, 0.98), weight_decay=config.weight_decay
    )
    renderer = load_renderer(source)
    num_tokens = 0
    losses: list[float] = []
    for batch in _batches(renderer, source, config):
        done = num_tokens / config.num_tokens
        rate = config.learning_rate * min((len(losses) + 1) / config.warmup_updates, 0.5 * (1 + np.cos(np.pi * done)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = weighted_loss(model, batch, pad_token_id=renderer.pad_token_id)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        num_tokens += sum(len(one.token_ids) for one in batch)
        if on_update is not None:
            on_update(
                {"update_index": len(losses) - 1, "num_tokens": num_tokens, "loss": losses[-1], "learning_rate": rate}
            )
        if num_tokens >= config.num_tokens:
            break
    save_half(model, source, target)
    result = PretrainResult(
        target, len(losses), num_tokens, time.perf_counter() - started, float(np.mean(losses[-50:]))
    )
    record = {
        "config": asdict(config),
        "num_updates": result.num_updates,
        "num_tokens": num_tokens,
        "loss": result.loss,
    }
    (target / "pretrain.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return result


def weighted_loss(model: Any, batch: list[PlayTokens], *, pad_token_id: int) -> torch.Tensor:
    """Mean negative log-likelihood over the weights of the batch.

    Padding is on the right and needs no mask: a causal model does not look ahead, and padding has no targets.
    The head is applied only where a target is: elsewhere its result would be thrown away.
    """
    longest = max(len(one.token_ids) for one in batch)
    ids = np.full((len(batch), longest), pad_token_id, dtype=np.int64)
    for row, one in enumerate(batch):
        ids[row, : len(one.token_ids)] = one.token_ids
    places = np.concatenate([row * longest + one.positions for row, one in enumerate(batch)])
    predicting, index = np.unique(places, return_inverse=True)
    hidden = model.model(input_ids=torch.from_numpy(ids), use_cache=False).last_hidden_state
    logits = model.lm_head(hidden.flatten(0, 1)[torch.from_numpy(predicting)])
    logprobs = torch.log_softmax(logits, dim=-1)
    targets = torch.from_numpy(np.concatenate([one.targets for one in batch]))
    weights = torch.from_numpy(np.concatenate([one.weights for one in batch]))
    return -(logprobs[torch.from_numpy(index), targets] * weights).sum() / weights.sum()


def play_tokens(play: Play, renderer: Renderer, things: Container[int], config: PretrainConfig) -> PlayTokens:
    """A play as ids and targets.

    Commands: where the player's chances are known, the distribution of the next token under them; else the token that
    came. Replies: the token that came, but for the first mention of a thing, which nothing foretells. Template tokens
    and the intro are no targets.
    """
    ids = renderer.observation_ids(Observation.of(play.intro), after=None)
    known = set(ids)
    rows: list[tuple[int, int, float]] = []
    for index, (command, reply) in enumerate(zip(play.commands, play.replies, strict=True)):
        action = renderer.action_ids(Action.of(command))
        seen = renderer.observation_ids(Observation.of(reply), after=Action.of(command))
        weight = config.command_weight if play.effective[index] else config.invalid_weight
        options = {tuple(action): 1.0}
        if play.options and config.soft_targets and play.effective[index]:
            options = {
                tuple(renderer.action_ids(Action.of(one))): chance for one, chance in play.options[index].items()
            }
        for at, token in enumerate(action):
            chances: dict[int, float] = {}
            for option, chance in options.items():
                chances[option[at]] = chances.get(option[at], 0.0) + chance
            total = sum(chances.values())
            rows += [(len(ids) + at - 1, one, weight * chance / total) for one, chance in chances.items()]
            options = {option: chance for option, chance in options.items() if option[at] == token}
        ids += action
        for at, token in enumerate(seen[1:-1], start=len(ids)):
            if token in known or token not in things:
                rows.append((at, token, config.observation_weight))
        known.update(seen)
        ids += seen
    positions, targets, weights = zip(*[row for row in rows if row[2] > 0], strict=True)
    return PlayTokens(np.array(ids), np.array(positions), np.array(targets), np.array(weights, dtype=np.float32))


def draw_play(seed: int, config: PretrainConfig) -> Play:
    """The random household play of a seed: its game, and whether it is told in hindsight, are drawn from it too."""
    rng = np.random.default_rng([config.seed, seed])
    size = "real" if rng.random() < config.real_share else "small"
    game = generate_game(FIRST_GAME_SEED + seed, size=size, layouts="seen")
    if rng.random() < config.hindsight_share:
        play = hindsight_play(
            game,
            rng,
            num_plays=config.plays_per_game,
            max_steps=config.max_steps,
            invalid_share=config.invalid_share,
            tour_share=config.tour_share,
        )
        if play is not None:
            return play
    habits = Habits.draw(rng, config.tour_share)
    return random_play(game, rng, max_steps=config.max_steps, invalid_share=config.invalid_share, habits=habits)


def save_half(model: Any, source: Path, target: Path) -> None:
    """Write a model folder with weights in half precision, which load as float32, and the other files of `source`."""
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.is_file() and path.suffix != ".safetensors" and path.name != "pretrain.json":
            shutil.copyfile(path, target / path.name)
    model.half().save_pretrained(target)
    # The config names the type that weights are loaded as: training and sampling on a CPU want float32.
    config_path = target / "config.json"
    settings = json.loads(config_path.read_text(encoding="utf-8"))
    config_path.write_text(json.dumps(settings | {"dtype": "float32"}, indent=2) + "\n", encoding="utf-8")
    model.float()


def _batches(renderer: Renderer, model_dir: Path, config: PretrainConfig) -> Iterator[list[PlayTokens]]:
    """Batches without end: plays of one chunk, renamed, sorted into batches of like length, in random order."""
    play_of, rename = _player(model_dir, config)
    household = find_environment(config.env).student is not None
    things = {row["id"] for row in read_entities(model_dir)}
    rng = np.random.default_rng(config.seed)
    chunk = 512
    first = 0
    while True:
        plays: list[PlayTokens] = []
        num_tokens = 0
        # An environment may take seconds to play: no more of it than is used. (Household plays cost nothing.)
        while len(plays) < chunk and (household or config.passes * num_tokens < config.num_tokens):
            plays.append(play_tokens(play_of(first + len(plays)), renderer, things, config))
            num_tokens += len(plays[-1].token_ids)
        first += len(plays)
        for _ in range(config.passes):
            renamed = [_renamed(one, rename, rng) for one in plays]
            batches = batches_of_like_length(renamed, config.batch_tokens)
            for index in rng.permutation(len(batches)):
                yield batches[index]


def _player(model_dir: Path, config: PretrainConfig) -> tuple[Callable[[int], Play], Augmentation]:
    """From a seed to the play of that seed, and how its things get other names."""
    if find_environment(config.env).student is not None:
        return lambda seed: draw_play(seed, config), ObjectRenaming(
            model_dir,
            receptacles=config.rename_receptacles,
            object_numbers=config.renumber_objects,
            receptacle_numbers=config.renumber_receptacles,
        )
    tasks = load_tasks(config.env, "train", count=config.num_tasks, **config.env_options)
    return lambda seed: env_play(tasks[seed % len(tasks)], seed=config.seed + seed // len(tasks)), Renaming(model_dir)


def _renamed(play: PlayTokens, rename: Augmentation, rng: np.random.Generator) -> PlayTokens:
    new_ids = rename(np.concatenate([play.token_ids, play.targets]), rng)
    length = len(play.token_ids)
    return PlayTokens(new_ids[:length], play.positions, new_ids[length:], play.weights)


def batches_of_like_length(samples: list[PlayTokens], batch_tokens: int) -> list[list[PlayTokens]]:
    """Samples sorted by length and cut into batches of at most `batch_tokens` tokens with padding, at least one each."""
    batches: list[list[PlayTokens]] = []
    for one in sorted(samples, key=lambda sample: len(sample.token_ids)):
        if batches and len(one.token_ids) * (len(batches[-1]) + 1) <= batch_tokens:
            batches[-1].append(one)
        else:
            batches.append([one])
    return batches
