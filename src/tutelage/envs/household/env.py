"""The household game as an environment: one task, one episode.

In: a `Task` whose settings name a game. Out: the game's own texts, 1.0 for a win. Settings, all plain JSON:

  size, game_seed, task_type, layouts   a generated game (see `generator.generate_game`)
  folder, root                          a game read from disk: `folder` below `root`
  content_hash                          what the game must hash to, so that a changed file or generator is noticed
  max_steps                             steps before the episode is truncated; 50 where absent
  accept_put                            also understand `put O in/on R`; false where absent
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tutelage.envs.base import StepResult
from tutelage.envs.household.engine import Engine, Snapshot
from tutelage.envs.household.game import Game
from tutelage.envs.household.generator import generate_game
from tutelage.envs.household.layout import Layouts
from tutelage.envs.household.reader import read_game
from tutelage.envs.lifetime import Lifetime
from tutelage.errors import ConfigError, EnvError
from tutelage.types import Action, Observation, Task

DEFAULT_MAX_STEPS: Final = 50

FORMAT_HELP: Final = (
    "No command was found in that reply. Give one command of the game, such as go to fridge 1, open fridge 1, "
    "take apple 1 from fridge 1, move apple 1 to countertop 1, look, inventory or help."
)
"""The observation after a malformed action."""


def game_of(settings: Mapping[str, Any]) -> Game:
    """The game that the settings of a task name. Recent games are kept, so that further episodes share their tables.

    Raises ConfigError where the settings name none, FormatError where its files are broken.
    """
    if "game_seed" in settings:
        return _generated(
            settings["game_seed"],
            settings.get("size", "small"),
            settings.get("task_type"),
            settings.get("layouts", "any"),
        )
    if "folder" in settings:
        return _read(str(settings.get("root", "")), str(settings["folder"]))
    raise ConfigError(
        f"household task settings: neither 'game_seed' nor 'folder' in {sorted(settings)}.\n"
        "  A generated game needs 'size' and 'game_seed', a game on disk needs 'folder'."
    )


# A played game takes about 60 KB (small) or 130 KB (real size) with its tables.
@lru_cache(maxsize=1024)
def _generated(seed: int, size: str, task_type: str | None, layouts: Layouts) -> Game:
    return generate_game(seed, size=size, task_type=task_type, layouts=layouts)


@lru_cache(maxsize=1024)
def _read(root: str, folder: str) -> Game:
    return read_game(Path(root, folder), game_id=folder)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of an episode, for `HouseholdEnv.restore`."""

    state: Snapshot
    life: tuple[int, bool]


class HouseholdEnv:
    """One episode of one household game. The seed of `reset` changes nothing: the task alone decides the world."""

    inline = True

    def __init__(self, task: Task) -> None:
        """Raises ConfigError, FormatError (see `game_of`), or EnvError if the game is not the one the task was made of."""
        game = game_of(task.settings)
        expected = task.settings.get("content_hash")
        if expected is not None and game.content_hash != expected:
            raise EnvError(
                f"the game has content hash {game.content_hash[:12]}, the task was made of {expected[:12]}.\n"
                "  Its files or the generator have changed since. Load the tasks again and start a new run.",
                task_id=task.task_id,
            )
        self.task = task
        self.max_steps = int(task.settings.get("max_steps", DEFAULT_MAX_STEPS))
        self.engine = Engine(game, accept_put=bool(task.settings.get("accept_put", False)))
        """For planners and exact footprints; playing goes through `step`."""
        self.life = Lifetime(task, self.max_steps)

    def reset(self, seed: int) -> Observation:
        self.life.begin()
        return Observation.of(self.engine.reset())

    def step(self, action: Action) -> StepResult:
        self.life.check_step()
        text = FORMAT_HELP if action.command is None else self.engine.step(action.command)
        terminated = self.engine.won
        truncated = self.life.count_step(terminated)
        return StepResult(
            observation=Observation.of(text),
            reward=1.0 if terminated else 0.0,
            terminated=terminated,
            truncated=truncated,
        )

    def reward(self) -> float:
        """1.0 if the game is won, else 0.0."""
        return 1.0 if self.engine.won else 0.0

    def admissible(self) -> tuple[str, ...]:
        return self.engine.admissible()

    def state_hash(self) -> str:
        return self.engine.state_hash()

    def snapshot(self) -> Moment:
        return Moment(self.engine.snapshot(), self.life.moment())

    def restore(self, snapshot: object) -> None:
        if not isinstance(snapshot, Moment):
            raise TypeError(f"restore got a {type(snapshot).__name__}, expected what snapshot() gave")
        self.life.go_to(snapshot.life)
        self.engine.restore(snapshot.state)

    def progress(self) -> float:
        """Share of the goal's conditions that hold now; see `Engine.conditions`."""
        conditions = self.engine.conditions()
        return sum(conditions) / len(conditions)

    def close(self) -> None:
        """End the episode; again is harmless. What is still readable (reward, state_hash) stays so."""
        self.life.close()
