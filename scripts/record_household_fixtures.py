"""Make the household fixtures: generated games, and transcripts of the original engine playing them.

    python scripts/record_household_fixtures.py

Writes tests/fixtures/household/games/<game>/ and tests/fixtures/household/transcripts.jsonl.gz. Needs the extra
`alfworld`. Each game is played once at random and once along a solution, disturbed by commands that change nothing
and followed by some random ones, so that the won flag is seen to rise and to fall.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from tutelage.envs.household.engine import Engine
from tutelage.envs.household.game import TASK_TYPES, Game
from tutelage.envs.household.generator import generate_game, write_game
from tutelage.envs.household.parity import check_transcripts
from tutelage.envs.household.reader import GAME_FILE
from tutelage.envs.household.recording import OriginalEngine, random_command, record_episode, write_transcripts

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures" / "household"
APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
IDLE = ("look", "inventory", "help", "open", "eat apple")
AFTER_THE_WIN = 10


def solution(game: Game) -> Iterator[str]:
    """Commands that win a game from its start, chosen with full knowledge of where things are."""
    engine = Engine(game)
    goal = game.goal
    receptacle_types = dict(zip(engine.receptacle_names, (r.type for r in game.receptacles), strict=True))
    openable = {name for name, r in zip(engine.receptacle_names, game.receptacles, strict=True) if r.openable}
    treatment = goal.task_type.split("_")[1]

    def do(command: str) -> Iterator[str]:
        engine.step(command)
        yield command

    def visit(receptacle: str) -> Iterator[str]:
        if receptacle not in engine.here:
            yield from do(f"go to {receptacle}")
        if receptacle in openable and not engine.is_open(receptacle):
            yield from do(f"open {receptacle}")

    def of_type(kind: str | None) -> list[str]:
        return [name for name, it in receptacle_types.items() if it == kind]

    targets = of_type(goal.receptacle_type)
    lamps = [n for n, o in zip(engine.object_names, game.objects, strict=True) if o.type == goal.lamp_type]
    for name, thing in zip(engine.object_names, game.objects, strict=True):
        places = engine.containers(name)
        if thing.type != goal.object_type or not thing.pickupable or not places or engine.won:
            continue
        if treatment == "two" and targets[0] in places:
            continue
        yield from visit(places[0])
        yield from do(f"take {name} from {places[0]}")
        if treatment in APPLIANCES and not (treatment == "cool" and "cool" in engine.states(name)):
            appliance = of_type(APPLIANCES[treatment])[0]
            yield from visit(appliance)
            yield from do(f"{treatment} {name} with {appliance}")
        if lamps:
            yield from visit(engine.containers(lamps[0])[0])
            yield from do(f"use {lamps[0]}")
        else:
            yield from visit(targets[0])
            yield from do(f"move {name} to {targets[0]}")


def disturbed_solution(game: Game, rng: random.Random) -> Iterator[str]:
    for command in solution(game):
        while rng.random() < 0.25:
            yield rng.choice(IDLE)
        yield command


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the household fixtures with the original engine.")
    parser.add_argument("--output", type=Path, default=FIXTURES)
    parser.add_argument("--games-per-type", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40, help="length of the random episodes")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    games_folder = arguments.output / "games"
    if games_folder.exists():
        shutil.rmtree(games_folder)
    records = []
    for index, task_type in enumerate(TASK_TYPES * arguments.games_per_type):
        seed = arguments.seed + index
        game = generate_game(seed, size="real" if index % 2 else "small", task_type=task_type)
        name = f"{task_type}-{seed}"
        folder = games_folder / name
        write_game(game, folder)
        (folder / GAME_FILE).unlink(missing_ok=True)  # the problem and the trajectory file are enough to read it
        rng = random.Random(f"fixtures/{seed}")

        def at_random(engine: OriginalEngine, rng: random.Random = rng) -> str:
            return random_command(rng, engine.admissible)

        plan = disturbed_solution(game, rng)
        rest = iter(range(AFTER_THE_WIN))

        def along_the_plan(
            engine: OriginalEngine,
            plan: Iterator[str] = plan,
            rest: Iterator[int] = rest,
            rng: random.Random = rng,
        ) -> str | None:
            command = next(plan, None)
            if command is None and next(rest, None) is not None:
                command = random_command(rng, engine.admissible)
            return command

        for episode, choose, limit in (("random", at_random, arguments.steps), ("solution", along_the_plan, 200)):
            records.append(
                record_episode(folder, game=name, episode=episode, choose=choose, max_steps=limit, task=game.task)
            )
    transcripts = arguments.output / "transcripts.jsonl.gz"
    write_transcripts(records, transcripts)
    report = check_transcripts(transcripts, games_folder)
    print(f"{report.num_transcripts} transcripts, {report.num_steps} steps, {report.num_differences} differences")
    for difference in report.first_differences:
        print(difference)
    print(f"-> {arguments.output}")


if __name__ == "__main__":
    main()
