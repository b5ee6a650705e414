"""Playing the household engine and the original side by side, with the same commands.

In: household tasks. Out: one `EpisodeParity` per episode, appended to a log as it is played, so that an hour of play
that is stopped goes on where it was. Each game is played by the expert and at random.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tutelage.envs.alfworld.env import problem_of_task
from tutelage.envs.alfworld.process import RULES_HASH, OriginalEngine
from tutelage.envs.household.env import game_of
from tutelage.envs.household.game import TASK_TYPES
from tutelage.envs.household.parity import MAX_SHOWN, ParityDifference, ParityReport, differences_of
from tutelage.envs.household.recording import random_command
from tutelage.envs.household.rooms import SIZES
from tutelage.errors import ConfigError, FormatError
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.tasks.household import HouseholdTasks
from tutelage.types import Actor, Observation, Step, Task

Player = Literal["expert", "random"]
PLAYERS: Final[tuple[Player, ...]] = ("expert", "random")

GAMES_PER_PROCESS: Final = 25
"""The original leaves something in memory with each game, so its process is renewed now and then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeParity:
    """One episode in both engines."""

    task_id: str
    player: Player
    num_steps: int
    won: bool
    """As the original says."""
    differences: tuple[ParityDifference, ...]
    """At most ten, in order."""
    num_differences: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaySettings:
    """What decides the commands; a log goes on only under the same ones."""

    seed: int = 0
    random_steps: int = 25
    expert_steps: int = 50
    rules: str = RULES_HASH


def generated_tasks(count: int, seed: int, sizes: Sequence[str] = SIZES) -> list[Task]:
    """Generated games seed, seed + 1, ...: the sizes take turns, and of each size the task types."""
    tasks = []
    for index in range(count):
        settings = {
            "size": sizes[index % len(sizes)],
            "game_seed": seed + index,
            "task_type": TASK_TYPES[index // len(sizes) % len(TASK_TYPES)],
        }
        tasks.append(_task(f"generated-{settings['size']}-{seed + index:06d}", settings))
    return tasks


def folder_tasks(root: Path) -> list[Task]:
    """All games below a folder that the original plays too."""
    found = HouseholdTasks(source="folder", root=root)
    return [task for split in found.splits for task in found.load(split)]


def _task(task_id: str, settings: dict[str, Any]) -> Task:
    return Task(task_id=task_id, env="household", goal=game_of(settings).task, settings=settings)


def play_both(
    tasks: Iterable[Task],
    settings: PlaySettings = PlaySettings(),
    *,
    python: str | None = None,
    log: Path | None = None,
    on_episode: Callable[[EpisodeParity], None] | None = None,
) -> ParityReport:
    """Play each task in both engines, once by the expert and once at random, and compare everything that is said.

    python: the interpreter that has alfworld, see `OriginalEngine`. log: a JSONL file; episodes that it holds already
    are counted, not played again. Raises ConfigError where the log was made under other settings or the installed
    alfworld is another one.
    """
    stored = {} if log is None else _read_log(log, settings)
    tasks = list(tasks)
    episodes: list[EpisodeParity] = []
    engine = OriginalEngine(python)
    try:
        for index, task in enumerate(tasks):
            if index % GAMES_PER_PROCESS == 0:
                engine.close()
            for episode in _episodes_of(task, engine, settings, stored):
                if log is not None and (task.task_id, episode.player) not in stored:
                    with log.open("a", encoding="utf-8") as lines:
                        lines.write(json.dumps(asdict(episode)) + "\n")
                episodes.append(episode)
                if on_episode is not None:
                    on_episode(episode)
    finally:
        engine.close()
    return _report(episodes)


def _episodes_of(
    task: Task, engine: OriginalEngine, settings: PlaySettings, stored: dict[tuple[str, str], EpisodeParity]
) -> Iterator[EpisodeParity]:
    loaded = False
    for player in PLAYERS:
        if (task.task_id, player) in stored:
            yield stored[task.task_id, player]
            continue
        began = time.monotonic()
        if loaded:
            engine.reset()
        else:
            engine.load(problem_of_task(task), task.goal, task.task_id)
            loaded = True
            if engine.rules_hash != settings.rules:
                raise ConfigError(
                    f"parity: the installed alfworld has rules {engine.rules_hash[:12]}, expected {settings.rules[:12]} "
                    "of version 0.4.2. Install alfworld==0.4.2."
                )
        record = _play(task, engine, player, settings)
        differences = list(differences_of(record, game_of(task.settings)))
        yield EpisodeParity(
            task_id=task.task_id,
            player=player,
            num_steps=len(record["steps"]),
            won=engine.won,
            differences=tuple(differences[:MAX_SHOWN]),
            num_differences=len(differences),
            seconds=round(time.monotonic() - began, 3),
        )


def _play(task: Task, engine: OriginalEngine, player: Player, settings: PlaySettings) -> dict[str, Any]:
    """One episode of the original, as a transcript (see `household.parity`). The engine stands at the start."""
    intro, admissible = engine.feedback, list(engine.admissible)
    commands = _expert(task, engine, settings) if player == "expert" else _random(task, engine, settings)
    return {
        "game": task.task_id,
        "episode": player,
        "intro": intro,
        "admissible0": admissible,
        "steps": [[command, engine.step(command), list(engine.admissible), engine.won] for command in commands],
    }


def _expert(task: Task, engine: OriginalEngine, settings: PlaySettings) -> Iterator[str]:
    """What the expert says to the texts of the original, until it wins."""
    expert = HouseholdExpert()
    steps: list[Step] = []
    while len(steps) < settings.expert_steps and not engine.won:
        seen = Observation.of(engine.feedback)
        action = expert.act(
            PartialTrajectory(
                trajectory_id=task.task_id, task=task, steps=tuple(steps), observation=seen, seed=settings.seed
            )
        )
        assert action.command is not None
        yield action.command
        steps.append(Step(observation=seen, action=action, actor=Actor.EXPERT))


def _random(task: Task, engine: OriginalEngine, settings: PlaySettings) -> Iterator[str]:
    rng = random.Random(f"{settings.seed}/{task.task_id}")
    for _ in range(settings.random_steps):
        yield random_command(rng, engine.admissible)


def _report(episodes: Sequence[EpisodeParity]) -> ParityReport:
    return ParityReport(
        num_episodes=len(episodes),
        num_games=len({episode.task_id for episode in episodes}),
        num_steps=sum(episode.num_steps for episode in episodes),
        num_differences=sum(episode.num_differences for episode in episodes),
        first_differences=tuple(one for episode in episodes for one in episode.differences)[:MAX_SHOWN],
    )


def _read_log(path: Path, settings: PlaySettings) -> dict[tuple[str, str], EpisodeParity]:
    """The episodes of a log, which is begun where there is none."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"settings": asdict(settings)}) + "\n", encoding="utf-8")
        return {}
    found = {}
    try:
        head, *lines = path.read_text(encoding="utf-8").splitlines()
        made_under = json.loads(head)["settings"]
        for line in lines:
            entry = json.loads(line)
            entry["differences"] = tuple(ParityDifference(**one) for one in entry["differences"])
            found[entry["task_id"], entry["player"]] = EpisodeParity(**entry)
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: no log of parity play ({error}). Choose another file.") from None
    if made_under != asdict(settings):
        raise ConfigError(f"{path}: was made with {made_under}, now {asdict(settings)}. Choose another file.")
    return found
