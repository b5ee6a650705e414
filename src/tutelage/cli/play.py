"""Verb `play`: a person plays a household game in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tutelage.errors import ConfigError


def play(
    game: Annotated[
        Path | None, typer.Option("--game", help="Folder of one game. Without it a game is generated.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Which generated game.")] = 0,
    size: Annotated[str, typer.Option("--size", help="small or real, of a generated game.")] = "small",
    task_type: Annotated[str | None, typer.Option("--type", help="Task type of a generated game.")] = None,
    hints: Annotated[bool, typer.Option("--hints", help="List the commands that do something now.")] = False,
) -> None:
    """Play a household game yourself. `quit` leaves."""
    from tutelage.envs.household.env import HouseholdEnv, game_of
    from tutelage.envs.household.game import TASK_TYPES
    from tutelage.errors import PolicyError
    from tutelage.policies.human import HumanPolicy
    from tutelage.rollout.episode import Limits, run_episode
    from tutelage.rollout.switch import Never
    from tutelage.types import Actor, Task

    if task_type is not None and task_type not in TASK_TYPES:
        raise ConfigError.unknown("play: --type", task_type, TASK_TYPES)
    settings: dict[str, object] = {"game_seed": seed, "size": size, "task_type": task_type}
    if game is not None:
        settings = {"root": str(game.parent), "folder": game.name}
    goal = game_of(settings)
    task = Task(
        task_id=f"play-{goal.game_id}", env="household", goal=goal.task, settings={**settings, "max_steps": 1000}
    )
    env = HouseholdEnv(task)

    def show(text: str) -> None:
        print(text)
        if hints:
            print("  [" + ", ".join(env.admissible()) + "]")

    try:
        trajectory = run_episode(
            task, env, {Actor.STUDENT: HumanPolicy(show=show)}, Never(), Limits(episode_seconds=None), seed=seed
        )
    except PolicyError:
        print("\nYou left the game.")
        return
    assert trajectory.final_observation is not None
    print(trajectory.final_observation.text)
    print("You won" if trajectory.reward == 1.0 else "The game is over", f"after {len(trajectory.steps)} steps.")
