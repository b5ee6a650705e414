"""More in the context: what a model is told beforehand, so that it can teach the same model that was not told.

In: a task, and where needed the trajectory and its group. Out: a text, put before the first observation as a system
message; acting, scoring and imitation data all go through `with_privilege`, so that they meet the same tokens.

    teacher_texts = [context.text(task_of[one.task_id], one, group) for one in group]
    informed = PrivilegedPolicy(student, Plan())        # the same weights, acting with the plan before them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, runtime_checkable

import yaml

from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError, FormatError
from tutelage.policies.base import PartialTrajectory, Policy
from tutelage.policies.registry import USUAL, make_expert, shortest_commands
from tutelage.types import Action, Actor, Message, Observation, Step, Task, Trajectory, stable_hash

PRIVILEGED: Final = "+privileged"
"""What the id of a trajectory with privileged context ends with."""

LONGEST_PLAN: Final = 200
"""Steps after which an expert that plays for a plan is stopped; it counts as one that does not win."""

PlanSource = Literal["expert", "shortest"]


@runtime_checkable
class PrivilegedContext(Protocol):
    """What a teacher is told before an episode and its student is not."""

    name: str

    def text(self, task: Task, trajectory: Trajectory | None = None, group: Sequence[Trajectory] = ()) -> str | None:
        """The text for one trajectory of a task, or for acting on it anew. None: there is nothing to tell."""
        ...


class Skills:
    """Advice by kind of task.

    texts: task kind -> advice, or a YAML or JSON file with such a table. The entry ``default``, if there is one, is
    for kinds that are not named.
    """

    name = "skills"

    def __init__(self, texts: Mapping[str, str] | str | Path) -> None:
        self.texts = dict(texts) if isinstance(texts, Mapping) else _read_texts(Path(texts))

    def text(self, task: Task, trajectory: Trajectory | None = None, group: Sequence[Trajectory] = ()) -> str | None:
        return self.texts.get(task.kind, self.texts.get("default"))


class Plan:
    """Commands that win the task, one a line.

    source: ``expert`` plays the environment's scripted expert and tells what it did, search included; ``shortest``
    reads the full state and tells a shortest way (household only). None where these do not win.
    """

    name = "plan"

    def __init__(self, source: PlanSource = "expert", *, expert: Policy | None = None) -> None:
        """`expert`: None takes the environment's own with its defaults."""
        if source not in ("expert", "shortest"):
            raise ConfigError.unknown("privileged context 'plan': source", source, ("expert", "shortest"))
        if expert is not None and source != "expert":
            raise ConfigError(f"privileged context 'plan': source '{source}' asks no expert, but one was given")
        self.source = source
        self._expert = expert
        self._known: dict[str, str | None] = {}

    def text(self, task: Task, trajectory: Trajectory | None = None, group: Sequence[Trajectory] = ()) -> str | None:
        # The same task comes back in every round, and a plan costs a whole episode.
        if task.task_id not in self._known:
            commands = self._commands(task)
            self._known[task.task_id] = None if commands is None else as_text(commands)
        return self._known[task.task_id]

    def _commands(self, task: Task) -> list[str] | None:
        if self.source == "shortest":
            return shortest_commands(task)
        return play_alone(task, self._expert or make_expert(USUAL, env=task.env))


class Peer:
    """The commands of a successful trajectory of the same group: the shortest one, never the trajectory itself."""

    name = "peer"

    def text(self, task: Task, trajectory: Trajectory | None = None, group: Sequence[Trajectory] = ()) -> str | None:
        mine = None if trajectory is None else trajectory.trajectory_id
        peers = [
            one
            for one in group
            if one.task_id == task.task_id
            and one.trajectory_id != mine
            and one.terminated
            and (one.reward or 0.0) > 0.0
        ]
        if not peers:
            return None
        best = min(peers, key=lambda one: (len(one.steps), one.trajectory_id))
        return as_text(step.action.command for step in best.steps if step.action.command is not None)


PRIVILEGED_CONTEXTS: Final[dict[str, Callable[..., PrivilegedContext]]] = {
    "skills": Skills,
    "plan": Plan,
    "peer": Peer,
}
"""Name in recipes -> class."""


def make_context(kind: str, **options: Any) -> PrivilegedContext:
    """A privileged context by name, e.g. ``make_context("plan", source="shortest")``."""
    maker = PRIVILEGED_CONTEXTS.get(kind)
    if maker is None:
        raise ConfigError.unknown("privileged context", kind, PRIVILEGED_CONTEXTS)
    try:
        return maker(**options)
    except TypeError as error:
        raise ConfigError(f"privileged context '{kind}': options {sorted(options)} do not fit: {error}") from error


def as_text(commands: Iterable[str]) -> str:
    """One command a line. In the vocabulary of small students a line break is one token.

    Example: ``go to fridge 1`` and ``open fridge 1`` with their line break are five tokens.
    """
    return "\n".join(commands)


def play_alone(task: Task, policy: Policy) -> list[str] | None:
    """The commands with which a policy wins a task from its start. None: it does not.

    The seed of the episode is the task's own, so the same task gives the same commands.
    """
    env = make_env(task)
    trajectory_id = f"{task.task_id}.alone"
    steps: list[Step] = []
    try:
        observation = env.reset(task.seed)
        while len(steps) < LONGEST_PLAN:
            so_far = PartialTrajectory(
                trajectory_id=trajectory_id,
                task=task,
                steps=tuple(steps),
                observation=observation,
                seed=stable_hash("alone", task.task_id),
            )
            action = policy.act(so_far)
            result = env.step(action)
            steps.append(Step(observation=observation, action=action, actor=Actor.EXPERT))
            observation = result.observation
            if result.terminated or result.truncated:
                won = result.terminated and (env.reward() or 0.0) > 0.0
                return [step.action.command for step in steps if step.action.command is not None] if won else None
        return None
    finally:
        env.close()
        policy.release(trajectory_id)


# Putting it into the context


def with_privilege(observation: Observation, text: str) -> Observation:
    """The observation with `text` as a system message before it.

    A system message that is there already keeps its place and gets the text after a blank line: templates take one.
    """
    messages = observation.messages
    if messages and messages[0].role == "system":
        joined = Message(role="system", content=f"{messages[0].content}\n\n{text}")
        return Observation(messages=(joined, *messages[1:]))
    return Observation(messages=(Message(role="system", content=text), *messages))


def with_privileged_context(trajectory: Trajectory, text: str) -> Trajectory:
    """The same episode as a model saw it that was told `text`: a new record, to build imitation samples from.

    Its id ends with ``+privileged``, and its parent is the trajectory. Sampled ids and their log-probabilities stay
    those of the original, so a policy gradient must not be taken from it unless the episode was played that way.
    """
    return replace(
        trajectory,
        trajectory_id=trajectory.trajectory_id + PRIVILEGED,
        parent_id=trajectory.trajectory_id,
        steps=_informed_steps(trajectory.steps, text),
    )


def _informed_steps(steps: tuple[Step, ...], text: str) -> tuple[Step, ...]:
    return tuple(
        replace(step, observation=with_privilege(step.observation, text)) if index == 0 else step
        for index, step in enumerate(steps)
    )


class PrivilegedPolicy:
    """A policy that acts with a privileged context before its first observation.

    The record of its episodes is plain: the environment said nothing more. Episodes without a text are played plainly
    and counted in `num_plain`. `groups`: task id -> trajectories, for contexts that need peers.
    """

    def __init__(
        self,
        policy: Policy,
        context: PrivilegedContext,
        *,
        groups: Mapping[str, Sequence[Trajectory]] | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name or f"{policy.name}+{context.name}"
        self.version = f"{policy.version}+{context.name}"
        self.batched = policy.batched
        self.num_plain = 0
        self._policy = policy
        self._context = context
        self._groups = groups or {}
        self._texts: dict[str, str | None] = {}

    def act(self, so_far: PartialTrajectory) -> Action:
        return self._policy.act(self.informed(so_far))

    def act_batch(self, so_far: Sequence[PartialTrajectory]) -> list[Action]:
        return self._policy.act_batch([self.informed(one) for one in so_far])

    def release(self, trajectory_id: str) -> None:
        self._texts.pop(trajectory_id, None)
        self._policy.release(trajectory_id)

    def informed(self, so_far: PartialTrajectory) -> PartialTrajectory:
        """The same episode with the privileged context in its first observation."""
        if so_far.trajectory_id not in self._texts:
            group = self._groups.get(so_far.task.task_id, ())
            self._texts[so_far.trajectory_id] = self._context.text(so_far.task, None, group)
            self.num_plain += self._texts[so_far.trajectory_id] is None
        text = self._texts[so_far.trajectory_id]
        if text is None:
            return so_far
        if not so_far.steps:
            return replace(so_far, observation=with_privilege(so_far.observation, text))
        return replace(so_far, steps=_informed_steps(so_far.steps, text))


def _read_texts(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise ConfigError(f"privileged context 'skills': {path} does not exist, expected a YAML or JSON file of texts")
    try:
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: not readable as YAML or JSON: {error}") from error
    if not isinstance(table, dict) or not all(isinstance(x, str) for pair in table.items() for x in pair):
        raise FormatError(f"{path}: expected a table of task kind -> text, all of them strings")
    return table
