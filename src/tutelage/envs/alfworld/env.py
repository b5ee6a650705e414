"""The original ALFWorld text game as an environment: one task, one episode, one process.

In: a household `Task`; the settings are those of `HouseholdEnv`, so a task of the one plays in the other as it stands.
Out: the same texts, admissible commands and rewards, said by the original engine. One setting more:

  python    a Python interpreter that has alfworld and textworld; the running one where absent
"""

from __future__ import annotations

import warnings
from pathlib import Path

from tutelage.envs.alfworld.process import RULES_HASH, OriginalEngine
from tutelage.envs.base import StepResult
from tutelage.envs.household.engine import as_move
from tutelage.envs.household.env import DEFAULT_MAX_STEPS, FORMAT_HELP, game_of
from tutelage.envs.household.reader import problem_of
from tutelage.envs.household.writer import problem_text
from tutelage.envs.lifetime import Lifetime
from tutelage.errors import EnvError
from tutelage.types import Action, Observation, Task


class DataMismatch(UserWarning):
    """Game data, or the rules of the installed alfworld, are not those that a task was recorded with."""


def problem_of_task(task: Task) -> str:
    """What the original engine is given: the problem in the folder as it stands, or that of the generated game.

    Raises ConfigError, FormatError; see `household.env.game_of`.
    """
    settings = task.settings
    if "folder" in settings and "game_seed" not in settings:
        return problem_of(Path(str(settings.get("root", "")), str(settings["folder"])))
    return problem_text(game_of(settings))


class AlfworldEnv:
    """One episode of one game in the original engine. The seed of `reset` changes nothing: the task decides the world.

    The process is started by `reset` and killed by `close`; one that dies is an EnvError.
    """

    inline = False

    def __init__(self, task: Task) -> None:
        """Raises ConfigError or FormatError where the settings name no game that can be read.

        Warns `DataMismatch` where the game has another content hash than the task says.
        """
        game = game_of(task.settings)
        expected = task.settings.get("content_hash")
        if expected is not None and game.content_hash != expected:
            _warn(
                f"task {task.task_id}: the game has content hash {game.content_hash[:12]}, the task was made of "
                f"{expected[:12]}. Its results are not comparable with earlier ones; load the tasks again."
            )
        self.task = task
        self.max_steps = int(task.settings.get("max_steps", DEFAULT_MAX_STEPS))
        self.accept_put = bool(task.settings.get("accept_put", False))
        self._sentence = game.task
        self._engine = OriginalEngine(task.settings.get("python"))
        self.life = Lifetime(task, self.max_steps)

    def reset(self, seed: int) -> Observation:
        """Start the process and the game; a second or two.

        Raises MissingExtra where alfworld is not installed, EnvError where the engine refuses or dies. Warns
        `DataMismatch` where the installed alfworld has other rules than version 0.4.2.
        """
        self.life.begin(ready=False)
        intro = self._engine.load(problem_of_task(self.task), self._sentence, self.task.task_id)
        if self.life.closed:  # From another thread, maybe before there was a process to kill.
            self._engine.close()
            raise EnvError("closed while the game was started", task_id=self.task.task_id)
        if self._engine.rules_hash != RULES_HASH:
            _warn(
                f"the rules and grammar of the installed alfworld have hash {self._engine.rules_hash[:12]}, those of "
                f"version 0.4.2 {RULES_HASH[:12]}. Texts may differ from household's; install alfworld==0.4.2."
            )
        self.life.ready()
        return Observation.of(intro)

    def step(self, action: Action) -> StepResult:
        self.life.check_step()
        text = FORMAT_HELP if action.command is None else self._engine.step(self._spoken(action.command))
        terminated = self._engine.won
        truncated = self.life.count_step(terminated)
        return StepResult(
            observation=Observation.of(text),
            reward=1.0 if terminated else 0.0,
            terminated=terminated,
            truncated=truncated,
        )

    def reward(self) -> float:
        """1.0 if the game is won, else 0.0."""
        return 1.0 if self._engine.won else 0.0

    def admissible(self) -> tuple[str, ...]:
        return self._engine.admissible

    def state_hash(self) -> None:
        """None: the engine does not tell its state."""

    def close(self) -> None:
        """Kill the process; again is harmless. What is still readable (reward, admissible) stays so."""
        self.life.close()
        self._engine.close()

    def _spoken(self, command: str) -> str:
        if self.accept_put and command.strip() not in self._engine.admissible:
            return as_move(command.strip())
        return command


def _warn(message: str) -> None:
    warnings.warn(DataMismatch(message), stacklevel=3)
