"""Speed of the household engine against the original (textworld), on the same games and the same commands.

    python benchmarks/household_speed.py
    python benchmarks/household_speed.py --games ../shared/data/alfworld --num-games 24

Without a folder of games it plays generated ones of real size, and writes no result. Both play the same random commands; each step fetches the feedback, the sorted admissible commands and the won flag.
The engines alternate game by game, on one thread. `fresh` plays each episode on a new Game record, so that the
tables and texts of the game are made within the time measured; `shared` plays further episodes on one record, as
a rollout does. Reading the files is measured apart. Needs the extra `alfworld`, or --ours-only.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from machine import machine
from tutelage.envs.household.engine import Engine
from tutelage.envs.household.game import Game
from tutelage.envs.household.generator import generate_game
from tutelage.envs.household.reader import find_games, read_game
from tutelage.envs.household.recording import original_engine, random_command
from tutelage.envs.household.writer import write_game

RESULTS = Path(__file__).parent / "results"
ROUNDS = 20
"""Repeats of our play of one game, since a single one takes under a millisecond."""


def random_commands(game: Game, num_steps: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    engine = Engine(game)
    commands = []
    for _ in range(num_steps):
        commands.append(random_command(rng, engine.admissible()))
        engine.step(commands[-1])
    return commands


def play_ours(game: Game, commands: list[str]) -> tuple[float, list[tuple[str, tuple[str, ...], bool]]]:
    began = time.perf_counter()
    engine = Engine(game)
    engine.reset()
    seen = [(engine.step(command), engine.admissible(), engine.won) for command in commands]
    return time.perf_counter() - began, seen


def play_original(
    folder: Path, game: Game, commands: list[str]
) -> tuple[float, list[tuple[str, tuple[str, ...], bool]]]:
    with original_engine(folder, game.task) as engine:
        engine.reset()
        began = time.perf_counter()
        seen = []
        for command in commands:
            engine.step(command)
            seen.append((engine.feedback, tuple(engine.admissible), engine.won))
        return time.perf_counter() - began, seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--games", type=Path, help="folder of games in the ALFWorld layout; default: generated games")
    parser.add_argument("--num-games", type=int, default=24, help="games, spread evenly over the folder")
    parser.add_argument("--steps", type=int, default=50, help="commands per game")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ours-only", action="store_true", help="do not run the original")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        if arguments.games is None:
            for seed in range(arguments.num_games):
                write_game(generate_game(seed, size="real"), Path(scratch, f"game-{seed:03d}"))
        result = measure(arguments, find_games(arguments.games or Path(scratch)))
    text = table(result)
    print(text)
    if arguments.games is not None:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "household_speed.json").write_text(json.dumps(result, indent=1) + "\n")
        (RESULTS / "household_speed.md").write_text(text)


def measure(arguments: argparse.Namespace, found: list[Path]) -> dict[str, Any]:
    folders = [found[i * len(found) // arguments.num_games] for i in range(min(arguments.num_games, len(found)))]
    seconds = {"textworld": 0.0, "fresh": 0.0, "shared": 0.0}
    num_steps = num_different = num_admissible = 0
    read_seconds, reset_seconds, ratios = [], [], []
    for index, folder in enumerate(folders):
        began = time.perf_counter()
        game = read_game(folder)
        read_seconds.append(time.perf_counter() - began)
        commands = random_commands(game, arguments.steps, arguments.seed + index)
        num_steps += len(commands)
        fresh = [play_ours(replace(game), commands) for _ in range(ROUNDS)]
        shared = [play_ours(game, commands) for _ in range(ROUNDS)]
        ours = statistics.median(taken for taken, _ in fresh)
        seconds["fresh"] += ours
        seconds["shared"] += statistics.median(taken for taken, _ in shared)
        num_admissible += sum(len(admissible) for _, admissible, _ in shared[0][1])
        engine = Engine(game)
        began = time.perf_counter()
        for _ in range(100):
            engine.reset()
        reset_seconds.append((time.perf_counter() - began) / 100)
        if not arguments.ours_only:
            taken, seen = play_original(folder, game, commands)
            seconds["textworld"] += taken
            ratios.append(taken / ours)
            num_different += sum(a != b for a, b in zip(seen, shared[0][1], strict=True))

    speed = {name: num_steps / taken for name, taken in seconds.items() if taken}
    return {
        "command": f"python benchmarks/household_speed.py{' --games GAMES' if arguments.games else ''}"
        f" --num-games {arguments.num_games} --steps {arguments.steps} --seed {arguments.seed}",
        "machine": machine(),
        "num_games": len(folders),
        "num_steps": num_steps,
        "mean_admissible": num_admissible / num_steps,
        "steps_per_second": speed,
        "ratio_fresh": speed["fresh"] / speed["textworld"] if ratios else None,
        "ratio_shared": speed["shared"] / speed["textworld"] if ratios else None,
        "ratio_fresh_per_game": [min(ratios), statistics.median(ratios), max(ratios)] if ratios else None,
        "num_different_steps": num_different if ratios else None,
        "read_ms": statistics.median(read_seconds) * 1e3,
        "reset_us": statistics.median(reset_seconds) * 1e6,
    }


def table(result: dict) -> str:
    speed = result["steps_per_second"]
    rows = [
        "# Household engine: steps per second",
        "",
        f"Command: `{result['command']}` (GAMES: a folder of ALFWorld games; without it: generated games of real size)  ",
        f"Machine: {result['machine']}  ",
        f"{result['num_games']} games, {result['num_steps']} random commands; every step fetches feedback, sorted "
        f"admissible commands ({result['mean_admissible']:.1f} on average) and won. Ours is the median of {ROUNDS} plays per "
        "game, textworld is played once; making and loading a game is outside the time of both, except for `new record`.",
        "",
        "| engine | steps/s | times textworld |",
        "|---|---|---|",
    ]
    if "textworld" in speed:
        rows.append(f"| textworld | {speed['textworld']:,.1f} | 1 |")
    for name, what in (("fresh", "ours, new Game record each episode"), ("shared", "ours, one Game record")):
        ratio = result[f"ratio_{name}"]
        rows.append(f"| {what} | {speed[name]:,.0f} | {f'{ratio:,.0f}' if ratio else '-'} |")
    rows += ["", f"Reading a game: {result['read_ms']:.2f} ms. Reset: {result['reset_us']:.1f} us."]
    if result["ratio_fresh_per_game"]:
        low, middle, high = result["ratio_fresh_per_game"]
        rows.append(f"Ratio per game (new record): {low:,.0f} to {high:,.0f}, median {middle:,.0f}.")
        rows.append(f"Steps in which the two engines differed: {result['num_different_steps']}.")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
