"""Time from footprints to the chosen steps, by length of the trajectory and by number of trajectories.

    OMP_NUM_THREADS=1 python benchmarks/graph_speed.py

Episodes of random play in generated household games of real size, cut to the length asked for; divergences are drawn.
CPU seconds on one thread; times of one trajectory are medians over trajectories of the mean over repeats. Extracting the
footprints from the texts is measured apart. A few seconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from footprint_agreement import episodes
from machine import machine
from tutelage.rollout.switch import Never
from tutelage.supervision.aptitude import step_aptitude
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import footprints_of
from tutelage.supervision.step_credit import STEP_WEIGHTS, choose_steps, weigh_steps
from tutelage.tasks.household import HouseholdTasks
from tutelage.types import Split, Trajectory

RESULTS = Path(__file__).parent / "results"
LENGTHS = (6, 12, 25, 50, 100)
COUNTS = (64, 128, 256, 512, 1024)
PANEL = 48
"""Different trajectories; larger numbers go round them."""


def trajectories() -> list[Trajectory]:
    """Of 100 steps each, none of them won."""
    tasks = HouseholdTasks("real", max_steps=max(LENGTHS)).load(Split.TRAIN, start=5000, count=PANEL + 16)
    played = [one for one in episodes(tasks, Never()) if len(one.steps) == max(LENGTHS)]
    return played[:PANEL]


def cut(trajectory: Trajectory, num_steps: int) -> Trajectory:
    steps = trajectory.steps
    final = steps[num_steps].observation if num_steps < len(steps) else trajectory.final_observation
    return replace(trajectory, steps=steps[:num_steps], final_observation=final)


def microseconds(work: Callable[[], object], repeats: int) -> float:
    """CPU time of one call."""
    work()
    began = time.process_time()
    for _ in range(repeats):
        work()
    return 1e6 * (time.process_time() - began) / repeats


class Case:
    """One trajectory with everything that the steps are chosen from."""

    def __init__(self, trajectory: Trajectory) -> None:
        num_steps = len(trajectory.steps)
        rng = np.random.default_rng(num_steps)
        self.trajectory = trajectory
        self.footprints = footprints_of(trajectory)
        self.divergence = rng.gamma(2.0, 0.1, num_steps).tolist()
        self.eligible = [True] * num_steps
        self.num_tokens = rng.integers(4, 12, num_steps).tolist()

    def weigh(self) -> object:
        return weigh_steps(
            "graphopd", self.trajectory, self.footprints, self.divergence, self.eligible, self.num_tokens, seed=0
        )


def row(cases: Sequence[Case], repeats: int) -> list[float]:
    """Microseconds per trajectory: extraction; graph, aptitude, choice; all three after the extraction; edges."""
    config, mask = STEP_WEIGHTS["graphopd"]
    times: list[list[float]] = []
    for case in cases:
        graph = build_graph(case.footprints)
        aptitude = step_aptitude(graph, case.divergence, config)
        times.append(
            [
                microseconds(lambda: footprints_of(case.trajectory), repeats),  # noqa: B023
                microseconds(lambda: build_graph(case.footprints), repeats),  # noqa: B023
                microseconds(lambda: step_aptitude(graph, case.divergence, config), repeats),  # noqa: B023
                microseconds(lambda: choose_steps(aptitude, case.eligible, case.num_tokens, mask), repeats),  # noqa: B023
                microseconds(case.weigh, repeats),
                float(len(graph.edges)),
            ]
        )
    return [statistics.median(column) for column in zip(*times, strict=True)]


def grow(cases: Sequence[Case], repeats: int) -> list[tuple[int, float]]:
    """(number of trajectories, CPU seconds for all of them), medians."""
    found = []
    for count in COUNTS:
        seconds = []
        for _ in range(repeats):
            began = time.process_time()
            for index in range(count):
                cases[index % len(cases)].weigh()
            seconds.append(time.process_time() - began)
        found.append((count, statistics.median(seconds)))
    return found


def report(repeats: int, command: str) -> str:
    panel = trajectories()
    lines = [
        "# Graph credit: time from footprints to the chosen steps",
        "",
        f"Command: `{command}`  ",
        f"Machine: {machine('numpy')}",
        "",
        f"{len(panel)} episodes of random play in generated games of real size, cut to length. CPU microseconds per",
        "trajectory, medians. `footprints`: from the texts. `all` (graph, aptitude, choice) is what an update spends on a",
        "trajectory whose footprints are at hand; the budget for 50 steps is 1,000.",
        "",
        "| steps | edges | footprints | graph | walk and aptitude | choice | all |",
        "|---|---|---|---|---|---|---|",
    ]
    for length in LENGTHS:
        cases = [Case(cut(one, length)) for one in panel]
        extract, graph, aptitude, choice, whole, edges = row(cases, repeats)
        lines.append(
            f"| {length} | {edges:.0f} | {extract:.0f} | {graph:.0f} | {aptitude:.0f} | {choice:.0f} | **{whole:.0f}** |"
        )
    lines += [
        "",
        "## Growth with the number of trajectories (50 steps each)",
        "",
        "| trajectories | CPU seconds | microseconds each |",
        "|---|---|---|",
    ]
    cases = [Case(cut(one, 50)) for one in panel]
    for count, seconds in grow(cases, repeats=5):
        lines.append(f"| {count:,} | {seconds:.3f} | {1e6 * seconds / count:.0f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    text = report(
        arguments.repeats, f"OMP_NUM_THREADS=1 python benchmarks/graph_speed.py --repeats {arguments.repeats}"
    )
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "graph_speed.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
