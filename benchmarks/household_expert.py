"""How well the household expert plays: from the start, and from states that other policies left behind.

    python benchmarks/household_expert.py --games ../shared/data/alfworld

Each game is played from its texts alone, within 50 steps, next to the shortest plan from the full state. Then a
student plays 0 to 30 steps (random: a verb, then one of its commands, one command in ten invalid; looping: the same,
then the last one to three actions again and again), and the expert has 50 more. States from which no plan exists at
all are counted apart. Without --games the two panels of generated games are played. About a minute on one core.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tutelage.envs.household.engine import Engine
from tutelage.envs.household.game import TASK_TYPES, Game
from tutelage.envs.household.generator import generate_game
from tutelage.envs.household.reader import find_games, read_game
from tutelage.policies.base import PartialTrajectory, Policy
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.experts.household_planner import shortest_plan
from tutelage.policies.scripted import LoopingPolicy, RandomPolicy
from tutelage.types import Action, Actor, Observation, Step, Task, stable_hash

RESULTS = Path(__file__).parent / "results"
LIMIT = 50
LONGEST_PREFIX = 30


class Live:
    """One game under way: the engine, and the trajectory that policies are shown."""

    def __init__(self, game: Game, seed: int) -> None:
        self.engine = Engine(game)
        self.so_far = PartialTrajectory(
            trajectory_id=f"{game.game_id}/{seed}",
            task=Task(task_id=game.game_id, env="household", goal=game.task),
            steps=(),
            observation=Observation.of(self.engine.reset()),
            seed=seed,
        )

    def play(self, policy: Policy, actor: Actor, limit: int) -> tuple[int, float]:
        """Up to `limit` steps, fewer if won. Returns the steps made and the seconds spent in the policy."""
        seconds = 0.0
        for count in range(limit):
            if self.engine.won:
                return count, seconds
            began = time.perf_counter()
            action = policy.act(self.so_far)
            seconds += time.perf_counter() - began
            reply = self.engine.step(action.command or "")
            step = Step(observation=self.so_far.observation, action=Action.of(action.text), actor=actor)
            self.so_far = PartialTrajectory(
                trajectory_id=self.so_far.trajectory_id,
                task=self.so_far.task,
                steps=(*self.so_far.steps, step),
                observation=Observation.of(reply),
                seed=self.so_far.seed,
            )
        return limit, seconds


def random_student(live: Live, draw: int) -> Policy:
    return RandomPolicy(lambda _: live.engine.admissible(), seed=draw)


def looping_student(live: Live, draw: int) -> Policy:
    start = 1 + draw % 15
    return LoopingPolicy(random_student(live, draw), start=start, period=min(start, 1 + draw // 15 % 3))


STUDENTS: dict[str, Callable[[Live, int], Policy]] = {"random": random_student, "looping": looping_student}


@dataclass
class Tally:
    """What came of playing a panel of games in one way."""

    lengths: list[int] = field(default_factory=list)
    """Steps of the expert in the games it won."""
    bounds: list[int] = field(default_factory=list)
    """Shortest plans from where the expert began, in the same games."""
    failed: list[str] = field(default_factory=list)
    lost: int = 0
    """Games that nobody can win from where the expert began."""
    won_before: int = 0
    in_all: int = 0
    """Games won within 50 steps, the student's included."""
    seconds: float = 0.0
    actions: int = 0

    def row(self) -> str:
        played = len(self.lengths) + len(self.failed)
        mean, bound = (sum(values) / max(len(values), 1) for values in (self.lengths, self.bounds))
        return (
            f"{len(self.lengths)} / {played} ({100 * len(self.lengths) / played:.2f} %) | {mean:.2f} | "
            f"{max(self.lengths)} | {bound:.2f} | {mean / bound:.2f} | {1e6 * self.seconds / self.actions:.0f}"
        )


def play_panel(games: Sequence[Game], expert: Policy, student: str | None = None, repeats: int = 1) -> Tally:
    tally = Tally()
    for seed in range(repeats):
        for game in games:
            live = Live(game, seed)
            if student is not None:
                draw = stable_hash("benchmark", student, game.game_id, seed)
                live.play(STUDENTS[student](live, draw >> 8), Actor.STUDENT, draw % (LONGEST_PREFIX + 1))
                if live.engine.won:
                    tally.won_before += 1
                    continue
            plan = shortest_plan(live.engine)
            if plan is None:
                tally.lost += 1
                continue
            steps, seconds = live.play(expert, Actor.EXPERT, LIMIT)
            expert.release(live.so_far.trajectory_id)
            tally.seconds += seconds
            tally.actions += steps
            if live.engine.won:
                tally.lengths.append(steps)
                tally.in_all += len(live.so_far.steps) <= LIMIT
                tally.bounds.append(len(plan))
            else:
                tally.failed.append(f"{game.game_id}: {game.task} ({len(game.receptacles)} receptacles)")
    return tally


def report(panels: dict[str, Sequence[Game]], command: str) -> str:
    lines = [
        "# Household expert",
        "",
        f"`{command}`, Python {platform.python_version()}, one core.",
        "",
        "Bound: mean length of the shortest plan from the full state, over the games the expert won. "
        "Time: microseconds per action of the expert.",
        "",
        "## From the start, within 50 steps",
        "",
        "| games | search | won | mean steps | longest | bound | steps / bound | time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    failures = []
    for name, games in panels.items():
        for search, skip in (("auto", False), ("list", False), ("list", True), ("likely", False), ("random", False)):
            tally = play_panel(games, HouseholdExpert(search=search, skip=skip))
            lines.append(f"| {name} | {search}{', skip' if skip else ''} | {tally.row()} |")
            failures += [f"- start, {name}, {search}: {one}" for one in tally.failed if search == "auto"]
    lines += [
        "",
        "## Mean steps by task type (`auto`), with the bound",
        "",
        "| task type | " + " | ".join(panels) + " |",
    ]
    lines.append("|---|" + "---|" * len(panels))
    for kind in TASK_TYPES:
        cells = []
        for games in panels.values():
            tally = play_panel([game for game in games if game.goal.task_type == kind], HouseholdExpert())
            mean, bound = (sum(values) / len(values) for values in (tally.lengths, tally.bounds))
            cells.append(f"{mean:.1f} ({bound:.1f})")
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## After 0 to 30 steps of a student, within 50 more (`auto`)",
        "",
        "Lost: the student put the game out of anybody's reach (in real games a paper towel roll or a teddy bear fits",
        "nowhere, so the hand that took it stays full). Lost games and those that the student won are not in `won`.",
        "",
        "| games | student | won by student | lost | won | mean steps | longest | bound | steps / bound | time | within 50 in all |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, games in panels.items():
        for student in STUDENTS:
            tally = play_panel(games, HouseholdExpert(), student, repeats=1 if len(games) >= 1000 else 5)
            share = f"{100 * tally.in_all / (len(tally.lengths) + len(tally.failed)):.2f} %"
            lines.append(f"| {name} | {student} | {tally.won_before} | {tally.lost} | {tally.row()} | {share} |")
            failures += [f"- after {student}, {name}: {one}" for one in tally.failed]
    return "\n".join([*lines, "", "## Games not won (`auto`)", "", *(failures or ["None."]), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=Path, help="folder of real games")
    parser.add_argument("--num-games", type=int, default=1000, help="generated games of each size")
    parser.add_argument("--out", type=Path, default=RESULTS / "household_expert.md")
    arguments = parser.parse_args()
    panels: dict[str, Sequence[Game]] = {
        f"generated {size}": [generate_game(seed, size=size) for seed in range(arguments.num_games)]
        for size in ("small", "real")
    }
    command = "python benchmarks/household_expert.py"
    if arguments.games:
        panels["real"] = [read_game(folder) for folder in find_games(arguments.games)]
        command += f" --games {arguments.games}"
    text = report(panels, command)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
