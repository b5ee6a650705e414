"""How far footprints from texts agree with those from the engine's facts, and the graphs made of them.

    OMP_NUM_THREADS=1 python benchmarks/footprint_agreement.py

Episodes on generated games of both sizes: random play (a verb, then one of its commands, one in ten invalid), the
expert, and random play for 0 to 30 steps with the expert after it. Three extractors read each: `text` (the default),
`exact` (the same table from the engine's facts) and `causal` (the facts that a step needs and turns). Then each step that
had an effect is left out and the rest acted again: which step is the first that now does nothing, or no longer wins, and
does the graph say so? There `needs` (what commands need, from texts) takes part too. About a quarter of a minute on one core.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tutelage.envs.base import Env
from tutelage.envs.household.engine import NOTHING_HAPPENS
from tutelage.envs.household.env import HouseholdEnv
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.scripted import RandomPolicy
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import ExpertOnly, Never, SwitchRule, UniformStep
from tutelage.supervision.dependency_graph import build_graph
from tutelage.supervision.footprints import footprints_of
from tutelage.supervision.footprints.household import parse_command
from tutelage.supervision.footprints.household_exact import causal_household_footprints, exact_household_footprints
from tutelage.supervision.footprints.household_needs import needed_household_footprints
from tutelage.tasks.household import HouseholdTasks
from tutelage.types import Actor, Footprint, Split, Task, Trajectory

RESULTS = Path(__file__).parent / "results"
RULES: dict[str, SwitchRule] = {
    "random play": Never(),
    "expert": ExpertOnly(),
    "random, then expert": UniformStep(low=0, high=30),
}
WRITERS = ("last", "any", "first")


def episodes(tasks: Sequence[Task], rule: SwitchRule) -> list[Trajectory]:
    """One per task, in the order of the tasks."""
    live: dict[str, HouseholdEnv] = {}

    def make_env(task: Task) -> Env:
        live[task.task_id] = HouseholdEnv(task)
        return live[task.task_id]

    def admissible(so_far: PartialTrajectory) -> Sequence[str]:
        return live[so_far.task.task_id].admissible()

    policies = {Actor.STUDENT: RandomPolicy(admissible), Actor.EXPERT: HouseholdExpert()}
    played: dict[str, Trajectory] = {}
    run_rollouts(
        make_jobs(tasks),
        policies=policies,
        rule=rule,
        make_env=make_env,
        on_trajectory=lambda one: played.__setitem__(one.task_id, one),
    )
    return [played[task.task_id] for task in tasks]


@dataclass
class Tally:
    """Counts over the steps and edges of many episodes."""

    steps: Counter[str] = field(default_factory=Counter)
    """Verb -> steps."""
    equal: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(verb, reads / writes / effect) -> steps where both extractors agree."""
    causes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(verb, what differs, kinds of keys that only one side has) -> steps."""
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(writer rule, only first / only second / both) -> edges."""
    equal_graphs: Counter[str] = field(default_factory=Counter)
    num_graphs: int = 0

    def add(self, trajectory: Trajectory, first: Sequence[Footprint], second: Sequence[Footprint]) -> None:
        for step, one, other in zip(trajectory.steps, first, second, strict=True):
            command = step.action.command
            verb = parse_command(command or "").verb or "no command"
            if one.effect == other.effect == "no_effect":
                verb = "nothing happens"
            self.steps[verb] += 1
            for what in ("reads", "writes", "effect"):
                if getattr(one, what) == getattr(other, what):
                    self.equal[verb, what] += 1
                elif what != "effect":
                    self.causes[verb, what, difference(getattr(one, what), getattr(other, what))] += 1
        self.num_graphs += 1
        for writer in WRITERS:
            ours, theirs = (
                {edge[:2] for edge in build_graph(footprints, writer=writer).edges} for footprints in (first, second)
            )
            self.edges[writer, "both"] += len(ours & theirs)
            self.edges[writer, "first"] += len(ours - theirs)
            self.edges[writer, "second"] += len(theirs - ours)
            self.equal_graphs[writer] += ours == theirs

    def precision(self, writer: str) -> float:
        return self.edges[writer, "both"] / (self.edges[writer, "both"] + self.edges[writer, "first"])

    def recall(self, writer: str) -> float:
        return self.edges[writer, "both"] / (self.edges[writer, "both"] + self.edges[writer, "second"])


@dataclass
class Omissions:
    """Steps with an effect, left out one at a time, and what the graph of one extractor foretold."""

    num_steps: int = 0
    broken: int = 0
    """Steps whose omission makes some later one do nothing."""
    told: int = 0
    """Of these, the step broken first has an edge from the omitted one."""
    nearest: int = 0
    """Of all steps: the nearest later step with an edge is the one broken first, or there is neither."""

    def add(self, footprints: Sequence[Footprint], first_broken: dict[int, int | None]) -> None:
        edges = [edge[:2] for edge in build_graph(footprints).edges]
        for omitted, broken in first_broken.items():
            later = [target for source, target in edges if source == omitted]
            self.num_steps += 1
            self.broken += broken is not None
            self.told += broken in later
            self.nearest += broken == min(later, default=None)


def first_broken(task: Task, trajectory: Trajectory) -> dict[int, int | None]:
    """Step with an effect -> the first later step that, without it, does nothing or no longer wins. None: there is none.

    Left out: steps without which the game is won earlier, since nothing follows there.
    """
    engine = HouseholdEnv(task).engine
    commands = [step.action.command or "" for step in trajectory.steps]
    before, effective, won = [], [], []
    for command in commands:
        before.append(engine.snapshot())
        effective.append(engine.step(command) != NOTHING_HAPPENS)
        won.append(engine.won)
    found: dict[int, int | None] = {}
    for omitted in [t for t in range(len(commands)) if effective[t]]:
        engine.restore(before[omitted])
        found[omitted] = None
        for t in range(omitted + 1, len(commands)):
            idle = engine.step(commands[t]) == NOTHING_HAPPENS
            if engine.won and not won[t]:
                del found[omitted]
                break
            if (effective[t] and idle) or (won[t] and not engine.won):
                found[omitted] = t
                break
    return found


def omission_table(omissions: dict[str, Omissions]) -> list[str]:
    rows = [
        "| graph | steps left out | of them break another | edge to the step broken first % | nearest dependent is right % |",
        "|---|---|---|---|---|",
    ]
    for name, one in omissions.items():
        rows.append(
            f"| {name} | {one.num_steps:,} | {one.broken:,} | {percent(one.told, one.broken)} "
            f"| {percent(one.nearest, one.num_steps)} |"
        )
    return rows


def difference(one: frozenset[str], other: frozenset[str]) -> str:
    """Kinds of the keys that one side has alone, e.g. ``-location +visible_at``: - only the text, + only the facts."""
    signs = [(key.partition(":")[0], sign) for sign, keys in (("-", one - other), ("+", other - one)) for key in keys]
    return " ".join(sorted({f"{sign}{kind}" for kind, sign in signs}))


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}"


def step_table(tally: Tally) -> list[str]:
    rows = ["| command | steps | reads equal % | writes equal % | effect equal % |", "|---|---|---|---|---|"]
    for verb, count in [*tally.steps.most_common(), ("all", sum(tally.steps.values()))]:
        cells = []
        for what in ("reads", "writes", "effect"):
            equal = (
                sum(number for (_, named), number in tally.equal.items() if named == what)
                if verb == "all"
                else tally.equal[verb, what]
            )
            cells.append(percent(equal, count))
        rows.append(f"| {verb} | {count:,} | {' | '.join(cells)} |")
    return rows


def edge_table(tallies: dict[str, Tally]) -> list[str]:
    rows = [
        "| episodes | writer | edges of text | of facts | precision % | recall % | equal graphs % |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, tally in tallies.items():
        for writer in WRITERS:
            both, ours, theirs = (tally.edges[writer, side] for side in ("both", "first", "second"))
            rows.append(
                f"| {name} | {writer} | {both + ours:,} | {both + theirs:,} | {100 * tally.precision(writer):.2f} "
                f"| {100 * tally.recall(writer):.2f} | {percent(tally.equal_graphs[writer], tally.num_graphs)} |"
            )
    return rows


def cause_table(tally: Tally) -> list[str]:
    rows = ["| command | what | keys that only text (-) or only facts (+) have | steps |", "|---|---|---|---|"]
    for (verb, what, keys), count in tally.causes.most_common(20):
        rows.append(f"| {verb} | {what} | {keys} | {count:,} |")
    return rows


WHY = """
Why text and exact differ:

- *Shared spots.* Going to one receptacle brings the agent to all that stand there. The text extractor enters only the one
  that was named, as the table says, so acting on a neighbour reads a `location` that nobody wrote. Facts enter all of them.
- *`look`* lists only what was moved between receptacles of one spot. The table lets it write `visible_at`; by the facts it
  shows no contents and writes nothing.
- *Nothing new.* Heating a hot thing or lighting a lit lamp is confirmed by the text and changes no fact.
- *Heat and cool undo each other.* By the facts, heating a cold thing also ends that it is cold.
- *Failed commands* try to read what they name. Facts know whether a name is a receptacle's, which spot it would take, and
  what has a door.

Causal footprints are another notion, not another reading of the table: see `docs/methods/graph_credit.md`.
"""


def report(groups: dict[str, list[tuple[Task, Trajectory]]], command: str) -> str:
    exact = {name: Tally() for name in groups}
    causal = {name: Tally() for name in groups}
    all_exact, all_causal = Tally(), Tally()
    omissions = {name: Omissions() for name in ("text", "exact", "needs", "causal")}
    seconds: Counter[str] = Counter()
    num_steps = 0
    for name, played in groups.items():
        for task, trajectory in played:
            text = timed(seconds, "text", lambda: footprints_of(trajectory))  # noqa: B023
            facts = timed(seconds, "exact", lambda: exact_household_footprints(trajectory, task))  # noqa: B023
            causes = timed(seconds, "causal", lambda: causal_household_footprints(trajectory, task))  # noqa: B023
            num_steps += len(trajectory.steps)
            for tally in (exact[name], all_exact):
                tally.add(trajectory, text, facts)
            for tally in (causal[name], all_causal):
                tally.add(trajectory, text, causes)
            broken = first_broken(task, trajectory)
            by_need = needed_household_footprints(trajectory)
            for kind, footprints in (("text", text), ("exact", facts), ("needs", by_need), ("causal", causes)):
                omissions[kind].add(footprints, broken)
    num_episodes = sum(map(len, groups.values()))
    speed = ", ".join(f"{name} {1e6 * taken / num_steps:.0f}" for name, taken in seconds.items())
    return "\n".join(
        [
            "# Footprints: texts against facts",
            "",
            f"`{command}`, Python {platform.python_version()}, one of {os.cpu_count()} cores.",
            "",
            f"{num_episodes:,} episodes, {num_steps:,} steps: "
            + ", ".join(f"{len(played)} of {name}" for name, played in groups.items())
            + f". Microseconds per step (the engine's replay included): {speed}.",
            "",
            "## Text and exact: steps",
            "",
            *step_table(all_exact),
            "",
            "## Text and exact: edges",
            "",
            "Precision: edges of the text graph that the exact graph has. Recall: the reverse.",
            "",
            *edge_table({**exact, "all": all_exact}),
            "",
            "## What differs",
            "",
            *cause_table(all_exact),
            WHY,
            "## Text and causal: edges",
            "",
            *edge_table({**causal, "all": all_causal}),
            "",
            "## What leaving a step out does, and what the graphs say of it",
            "",
            "Last-writer graphs. Broken: does nothing now, or no longer wins. The last column counts, over all steps left out,",
            "those whose nearest dependent step is the one broken first, and those with neither.",
            "",
            *omission_table(omissions),
            "",
        ]
    )


def timed(seconds: Counter[str], name: str, extract: object) -> tuple[Footprint, ...]:
    began = time.process_time()
    footprints: tuple[Footprint, ...] = extract()  # type: ignore[operator]
    seconds[name] += time.process_time() - began
    return footprints


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--num-episodes", type=int, default=1000, help="in all: a third of each kind, both sizes")
    parser.add_argument("--out", type=Path, default=RESULTS / "footprint_agreement.md")
    arguments = parser.parse_args()
    each = -(-arguments.num_episodes // (2 * len(RULES)))
    groups: dict[str, list[tuple[Task, Trajectory]]] = {}
    for number, (name, rule) in enumerate(RULES.items()):
        groups[name] = []
        for size in ("small", "real"):
            tasks = HouseholdTasks(size).load(Split.TRAIN, start=number * each, count=each)
            groups[name] += zip(tasks, episodes(tasks, rule), strict=True)
    text = report(groups, f"python benchmarks/footprint_agreement.py --num-episodes {arguments.num_episodes}")
    print(text)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
