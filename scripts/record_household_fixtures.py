"""Make the household fixtures: generated games, and transcripts of the original engine playing them.

    python scripts/record_household_fixtures.py

Writes tests/fixtures/household/games/<game>/ and tests/fixtures/household/transcripts.jsonl.gz. Needs the extra
`alfworld`. Each game is played once at random and once along a solution, disturbed by commands that change nothing
and followed by some random ones, so that the won flag is seen to rise and to fall; with a knife around, also slicing.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from tutelage.envs.alfworld.process import OriginalEngine
from tutelage.envs.household.engine import Engine
from tutelage.envs.household.game import TASK_TYPES, Game
from tutelage.envs.household.generator import generate_game
from tutelage.envs.household.parity import check_transcripts
from tutelage.envs.household.reader import GAME_FILE
from tutelage.envs.household.recording import random_command, record_episode, write_transcripts
from tutelage.envs.household.tables import KNIVES
from tutelage.envs.household.writer import write_game

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures" / "household"
APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
IDLE = ("look", "inventory", "help", "open", "eat apple")
AFTER_THE_WIN = 10


class Guide:
    """Commands chosen with full knowledge of a game, which our engine keeps up to date."""

    def __init__(self, game: Game) -> None:
        self.goal = game.goal
        self.engine = Engine(game)
        self.receptacles = dict(zip(self.engine.receptacle_names, game.receptacles, strict=True))
        self.objects = dict(zip(self.engine.object_names, game.objects, strict=True))

    def do(self, command: str) -> Iterator[str]:
        self.engine.step(command)
        yield command

    def visit(self, receptacle: str, *, opening: bool = True) -> Iterator[str]:
        if receptacle not in self.engine.here:
            yield from self.do(f"go to {receptacle}")
        if opening and self.receptacles[receptacle].openable and not self.engine.is_open(receptacle):
            yield from self.do(f"open {receptacle}")

    def fetch(self, name: str) -> Iterator[str]:
        place = self.engine.containers(name)[0]
        yield from self.visit(place)
        yield from self.do(f"take {name} from {place}")

    def of_type(self, kind: str | None) -> list[str]:
        return [name for name, receptacle in self.receptacles.items() if receptacle.type == kind]

    def solve(self) -> Iterator[str]:
        """Win the game from its start."""
        treatment = self.goal.task_type.split("_")[1]
        targets = self.of_type(self.goal.receptacle_type)
        lamps = [name for name, thing in self.objects.items() if thing.type == self.goal.lamp_type]
        for name, thing in self.objects.items():
            places = self.engine.containers(name)
            if thing.type != self.goal.object_type or not places or self.engine.won:
                continue
            if treatment == "two" and targets[0] in places:
                continue
            yield from self.fetch(name)
            if treatment in APPLIANCES and not (treatment == "cool" and "cool" in self.engine.states(name)):
                appliance = self.of_type(APPLIANCES[treatment])[0]
                yield from self.visit(appliance)
                yield from self.do(f"{treatment} {name} with {appliance}")
            if lamps:
                yield from self.visit(self.engine.containers(lamps[0])[0])
                yield from self.do(f"use {lamps[0]}")
            else:
                yield from self.visit(targets[0])
                yield from self.do(f"move {name} to {targets[0]}")

    def slice_all(self) -> Iterator[str]:
        """Slice everything that a knife can slice, doors shut, then look at one piece. Nothing without a knife."""
        knives = [name for name, thing in self.objects.items() if thing.type in KNIVES and self.engine.containers(name)]
        pieces = [name for name, thing in self.objects.items() if thing.sliceable and self.engine.containers(name)]
        if not knives or not pieces:
            return
        home = self.engine.containers(knives[0])[0]
        yield from self.fetch(knives[0])
        for name in pieces:
            yield from self.visit(self.engine.containers(name)[0], opening=False)
            yield from self.do(f"slice {name} with {knives[0]}")
        yield from self.visit(home)
        yield from self.do(f"move {knives[0]} to {home}")
        yield from self.fetch(pieces[0])
        yield from self.do(f"examine {pieces[0]}")


def disturbed(commands: Iterator[str], rng: random.Random) -> Iterator[str]:
    """The same commands with some between them that change nothing."""
    for command in commands:
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
        game = generate_game(seed, size=("small", "real")[(index + index // len(TASK_TYPES)) % 2], task_type=task_type)
        folder = games_folder / f"{task_type}-{seed}"
        write_game(game, folder)
        (folder / GAME_FILE).unlink(missing_ok=True)  # the problem and the trajectory file are enough to read it
        rng = random.Random(f"fixtures/{seed}")

        def play(episode: str, commands: Iterator[str], at_random: int, *, rng=rng, folder=folder, game=game) -> None:
            """Along the commands, then a number of random ones."""
            rest = iter(range(at_random))

            def choose(engine: OriginalEngine) -> str | None:
                command = next(commands, None)
                if command is None and next(rest, None) is not None:
                    command = random_command(rng, engine.admissible)
                return command

            record = record_episode(folder, game=folder.name, episode=episode, choose=choose, task=game.task)
            if record["steps"]:
                records.append(record)

        play("random", iter(()), arguments.steps)
        play("solution", disturbed(Guide(game).solve(), rng), AFTER_THE_WIN)
        play("slicing", Guide(game).slice_all(), 0)
    transcripts = arguments.output / "transcripts.jsonl.gz"
    write_transcripts(records, transcripts)
    report = check_transcripts(transcripts, games_folder)
    print(f"{report.num_episodes} transcripts, {report.num_steps} steps, {report.num_differences} differences")
    for difference in report.first_differences:
        print(difference)
    print(f"-> {arguments.output}")


if __name__ == "__main__":
    main()
