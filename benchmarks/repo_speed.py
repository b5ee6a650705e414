"""Repo environment: seconds of a reset, a command, an edit and a judgement, and how well the expert does.

    OMP_NUM_THREADS=1 python benchmarks/repo_speed.py

The first tasks of every split, one episode after the other: one in which nothing is done but submit, and one of the
expert. `--all` plays every task instead.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from statistics import fmean, median

from machine import machine
from tutelage.envs.action_formats import action_of
from tutelage.envs.repo.env import RepoEnv
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.repo import RepoExpert
from tutelage.tasks.registry import load_tasks
from tutelage.types import Actor, ParsedCall, Split, Step, Task

RESULTS = Path(__file__).parent / "results"


class Timed:
    """One episode under way, its seconds by kind of step."""

    def __init__(self, task: Task, seconds: dict[str, list[float]]) -> None:
        self.seconds = seconds
        self.env = RepoEnv(task)
        began = time.perf_counter()
        self.observation = self.env.reset(task.seed)
        seconds["reset"].append(time.perf_counter() - began)
        self.task = task
        self.steps: list[Step] = []

    def play(self, call: ParsedCall | None, expert: RepoExpert) -> bool:
        """Make a call, or what the expert says. True: the episode has ended."""
        so_far = PartialTrajectory(
            trajectory_id=self.task.task_id,
            task=self.task,
            steps=tuple(self.steps),
            observation=self.observation,
            seed=0,
        )
        action = expert.act(so_far) if call is None else action_of(self.env.action_format, call)
        assert action.call is not None
        kind = action.call.name
        if "pytest" in str(action.call.arguments.get("command")):
            kind = "bash, pytest"
        began = time.perf_counter()
        result = self.env.step(action)
        self.seconds[kind].append(time.perf_counter() - began)
        self.steps.append(Step(observation=self.observation, action=action, actor=Actor.EXPERT))
        self.observation = result.observation
        return result.terminated or result.truncated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10, help="of each split")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "repo_speed.md")
    arguments = parser.parse_args()
    seconds: dict[str, list[float]] = {
        name: [] for name in ("reset", "edit", "bash", "bash, pytest", "submit", "episode")
    }
    solved: Counter[str] = Counter()
    played: Counter[str] = Counter()
    lengths = []
    expert = RepoExpert()
    for split in Split:
        for task in load_tasks("repo", split, count=100_000 if arguments.all else arguments.tasks):
            nothing = Timed(task, seconds)
            nothing.play(ParsedCall(name="submit"), expert)
            began = time.perf_counter()
            episode = Timed(task, seconds)
            while not episode.play(None, expert):
                pass
            seconds["episode"].append(time.perf_counter() - began)
            played[split] += 1
            solved[f"expert {split}"] += episode.env.reward() == 1.0
            solved[f"nothing {split}"] += nothing.env.reward() != 0.0
            lengths.append(len(episode.steps))
            nothing.env.close()
            episode.env.close()
    command = f"python benchmarks/repo_speed.py{' --all' if arguments.all else f' --tasks {arguments.tasks}'}"
    lines = [
        "# Repo environment",
        "",
        f"`{command}`: {machine('pytest')}.",
        "",
        "| | number | median s | mean s |",
        "|---|---|---|---|",
        *(f"| {name} | {len(all_)} | {median(all_):.3f} | {fmean(all_):.3f} |" for name, all_ in seconds.items()),
        "",
        "`submit` is mostly the judgement; `episode` is a whole one of the expert.",
        "",
        "| split | tasks | expert solves | doing nothing solves |",
        "|---|---|---|---|",
        *(f"| {s} | {played[s]} | {solved[f'expert {s}']} | {solved[f'nothing {s}']} |" for s in Split),
        "",
        f"Steps of the expert: {fmean(lengths):.2f} on average, {max(lengths)} at the most.",
        "",
    ]
    text = "\n".join(lines)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
