"""The records that every stage exchanges. Frozen, checked at birth, free of tensors.

    Task -> Trajectory (Steps: Observation, Action, Actor) -> Verdict, Footprint, StepSupervision -> TrainingSample

Facts and judgements are separate: a Trajectory never changes after its rollout; a Verdict, a Footprint and a
StepSupervision are new records that name it. None means "not computed"; zero means zero.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tutelage.errors import SupervisionError

_FOOTPRINT_KEY = re.compile(r"[a-z_]+(:.+)?", re.DOTALL)

SCHEMA_VERSION = 1
"""Version of the records as they stand in files. A reader refuses a newer one."""


class Actor(enum.StrEnum):
    """Who made a step."""

    STUDENT = "student"
    EXPERT = "expert"


class StopReason(enum.StrEnum):
    """Why an episode ended. Only `COMPLETED` is an end that the task itself made."""

    COMPLETED = "completed"
    MAX_STEPS = "max_steps"
    MAX_TOKENS = "max_tokens"
    CONTEXT_OVERFLOW = "context_overflow"
    PARSE_ERROR = "parse_error"
    TIMEOUT = "timeout"
    ENV_ERROR = "env_error"
    POLICY_ERROR = "policy_error"
    INTERRUPTED = "interrupted"

    @property
    def is_infrastructure(self) -> bool:
        """True: the machinery failed, so the reward is None and the episode may be tried again."""
        return self in (StopReason.TIMEOUT, StopReason.ENV_ERROR, StopReason.POLICY_ERROR, StopReason.INTERRUPTED)


class ParseOutcome(enum.StrEnum):
    """What came of reading an action out of a reply."""

    CLEAN = "clean"
    ENDED_WITHOUT_STOP = "ended_without_stop"
    MALFORMED = "malformed"


class LossComponent(enum.StrEnum):
    """The parts of the training loss; each has its own weights and its own normaliser."""

    SFT = "sft"
    PG = "pg"
    DISTILL = "distill"


class Effect(enum.StrEnum):
    """What a step did to the environment's state."""

    CHANGED = "changed"
    READ_ONLY = "read_only"
    NO_EFFECT = "no_effect"
    MALFORMED = "malformed"


class Fallback(enum.StrEnum):
    """Where a step credit had nothing to go by, and a stated rule took its place."""

    SINGLE_STEP = "single_step"
    NO_EDGES = "no_edges"
    CONSTANT_STRUCTURE = "constant_structure"
    CONSTANT_DIVERGENCE = "constant_divergence"
    CONSTANT_APTITUDE = "constant_aptitude"
    MISSING_DIVERGENCE = "missing_divergence"
    NO_ELIGIBLE_STEP = "no_eligible_step"


class FailureCategory(enum.StrEnum):
    """Why an episode failed, as a judge says it. The keys are published; `evaluation.judge.taxonomy` has their meaning."""

    IDENTIFIED_INCORRECT_FILE = "identified_incorrect_file"
    MISSED_EDGE_CASE = "missed_edge_case"
    MISUNDERSTOOD_PROBLEM_STATEMENT = "misunderstood_problem_statement"
    WRONG_SOLUTION = "wrong_solution"
    TOOL_ERROR = "tool_error"
    INFINITE_LOOP = "infinite_loop"
    ENDLESS_FILE_READING = "endless_file_reading"
    CONTEXT_OVERFLOW_FROM_LISTING = "context_overflow_from_listing"
    SYNTAX_ERROR = "syntax_error"
    OTHER = "other"


class UnscoredReason(enum.StrEnum):
    """Why a judge's answer gave no judgement."""

    NO_JSON = "no_json"
    TRUNCATED = "truncated"
    SCHEMA = "schema"
    OUT_OF_RANGE = "out_of_range"
    REFUSED = "refused"
    TRANSPORT = "transport"


class Target(enum.StrEnum):
    """Which action of a masked step is learnt. The context always holds the executed ones."""

    EXECUTED = "executed"
    EXPERT_LABEL = "expert_label"


class Split(enum.StrEnum):
    """Which panel a task belongs to."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


def stable_hash(*parts: object) -> int:
    """First 8 bytes, big-endian, of SHA-256 over the parts joined by '|'. Equal in every process and version.

    Example: ``stable_hash(0, "tw-0001", 0) % 31 == 25``
    """
    text = "|".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One problem for an environment."""

    task_id: str
    env: str
    """Name of the environment that plays it, e.g. ``household``."""
    goal: str
    """What is asked, in words."""
    split: Split = Split.TRAIN
    seed: int = 0
    """Seed of the environment. It comes from the task alone, so that all attempts meet the same world."""
    kind: str = ""
    """Task type for tables, e.g. ``pick_two_obj_and_place``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the environment needs to build the world; plain JSON values."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One chat message."""

    role: str
    content: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of a foreign message beyond these two, plain JSON, e.g. ``tool_call_id``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What the policy sees next: the messages that are new since its last action."""

    messages: tuple[Message, ...]

    @property
    def text(self) -> str:
        """All message contents, joined by newlines."""
        return "\n".join(message.content for message in self.messages)

    @classmethod
    def of(cls, text: str, role: str = "user") -> Observation:
        return cls(messages=(Message(role=role, content=text),))


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedCall:
    """An action as the environment understands it."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedAttempt:
    """A reply that gave no action and was asked for again; kept for the cost account."""

    text: str
    num_tokens: int | None = None
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """What a policy did. Sampled ids are the truth, text is a view of them."""

    text: str
    """The reply as its author wrote it."""
    command: str | None = None
    """What the environment executes. None: the reply gave no command (`MALFORMED`)."""
    call: ParsedCall | None = None
    """The parsed call, for environments whose actions have arguments."""
    parse: ParseOutcome = ParseOutcome.CLEAN
    token_ids: tuple[int, ...] | None = None
    """[T] ids as sampled, the stop token included. None: not sampled by us."""
    rollout_logprobs: tuple[float, ...] | None = None
    """[T] natural log of the probability under the sampling policy, one per id."""
    attempts: tuple[FailedAttempt, ...] = ()
    raw: Mapping[str, Any] | None = None
    """The assistant message as a server or a foreign file gave it, plain JSON: calls with ids and the argument strings
    as they came, keys without a field here. None: made by tutelage."""

    def __post_init__(self) -> None:
        if (self.command is None) != (self.parse is ParseOutcome.MALFORMED):
            raise ValueError(f"action {self.text!r}: command is {self.command!r} but parse outcome is {self.parse}")
        if self.rollout_logprobs is not None and len(self.rollout_logprobs) != len(self.token_ids or ()):
            raise ValueError(
                f"action {self.text!r}: {len(self.rollout_logprobs)} rollout_logprobs for {len(self.token_ids or ())} token_ids"
            )

    @classmethod
    def of(cls, command: str) -> Action:
        """A clean action of a scripted or human author."""
        return cls(text=command, command=command)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One decision: what was seen, what was done, and by whom."""

    observation: Observation
    action: Action
    """The action the environment executed."""
    actor: Actor
    """Who produced `action`."""
    expert_action: Action | None = None
    """The expert's label for this step. None: the expert was not asked."""
    reward: float | None = None
    """None: this environment scores only at the end."""
    policy_version: str = ""
    """Which weights or script acted, e.g. ``imitation@update-240``."""
    state_hash: str | None = None
    """Hash of the environment's state after the step, where it can tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SwitchEvent:
    """A handover. `step_index` is the first step of the new actor."""

    step_index: int
    actor: Actor
    reason: str
    """Rule and cause, e.g. ``uniform k=12`` or ``student_limit``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trajectory:
    """The frozen record of one episode.

    Example, switch at 2:
      actor          student student expert expert
      switch_index   2          num_student_steps 2, num_expert_steps 2
    """

    trajectory_id: str
    task_id: str
    env: str
    task_kind: str = ""
    goal: str = ""
    split: Split = Split.TRAIN
    steps: tuple[Step, ...]
    final_observation: Observation | None
    stop_reason: StopReason
    reward: float | None
    """Of the whole episode. None: not scored (crashed, timed out); never read as 0."""
    seed: int
    sample_index: int = 0
    """Which sample of the task this is."""
    attempt: int = 0
    """How often it had been tried before, after failures of the machinery."""
    switch_rule: str = "never"
    drawn_switch: int | None = None
    """The step the rule drew for the handover, whether or not it was reached."""
    switch_events: tuple[SwitchEvent, ...] = ()
    error: str | None = None
    seconds: float = 0.0
    """Wall-clock time of the episode."""
    parent_id: str | None = None
    fork_index: int | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    """What a foreign file told beyond these fields, plain JSON, e.g. ``exit_status`` and ``model``."""

    def __post_init__(self) -> None:
        if self.stop_reason.is_infrastructure and self.reward is not None:
            raise ValueError(
                f"trajectory {self.trajectory_id}: {self.stop_reason} carries reward {self.reward}, expected None"
            )

    @property
    def switch_index(self) -> int | None:
        """Number of student steps before the expert's first step. None: the expert never acted."""
        for index, step in enumerate(self.steps):
            if step.actor is Actor.EXPERT:
                return index
        return None

    @property
    def num_student_steps(self) -> int:
        return sum(step.actor is Actor.STUDENT for step in self.steps)

    @property
    def num_expert_steps(self) -> int:
        return sum(step.actor is Actor.EXPERT for step in self.steps)

    @property
    def terminated(self) -> bool:
        """The task itself ended."""
        return self.stop_reason is StopReason.COMPLETED

    def __repr__(self) -> str:
        actors = "".join("s" if step.actor is Actor.STUDENT else "e" for step in self.steps)
        return f"Trajectory({self.trajectory_id}, steps={actors or '-'}, {self.stop_reason}, reward={self.reward})"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrajectoryGroup:
    """Trajectories of one task, for a relative baseline."""

    group_id: str
    trajectories: tuple[Trajectory, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Keep or drop, and why."""

    trajectory_id: str
    keep: bool
    filter: str
    """Which filter decided, e.g. ``no_repetition``."""
    reason: str
    """``kept``, or the reason of the drop, e.g. ``identical_actions``."""
    span: tuple[int, int] | None = None
    """First and last step index (both included) that the reason points at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What one judge says of one failed trajectory: a category, or why there is none."""

    trajectory_id: str
    source: str
    """Which part of a run holds the trajectory, e.g. ``evaluations/corrected``: arms share trajectory ids. Empty: a file
    by itself."""
    judge: str
    """Which judge, with all that decides its answers, e.g. ``rules-1``."""
    attempt: int
    """How often it had been asked before without a category."""
    category: FailureCategory | None = None
    """None: unscored, never a default class."""
    reason: UnscoredReason | None = None
    """Why there is no category. None: there is one."""
    detail: str = ""
    """Of an unscored one: what was wrong, in words."""
    explanation: str = ""
    rule: str = ""
    """Which rule found it. Empty: a model judged, or no rule found anything."""
    span: tuple[int, int] | None = None
    """First and last step index (both included) that the category rests on."""
    unparsed: bool = False
    """The last answer could not be read in the form asked for."""
    repaired: bool = False
    """Brackets or commas of the answer were mended before it could be read."""
    cached: bool = False
    """Taken over from an equal question that was answered before."""
    model: str = ""
    """As the server names it."""
    prompt_hash: str = ""
    """Of all that was asked. Empty: nothing was asked."""
    temperature: float | None = None
    """None: no model, or the server's own."""
    votes: tuple[str, ...] = ()
    """What each vote said: a category, or ``unscored:REASON``."""
    raw_answers: tuple[str, ...] = ()
    """As they came, tries that failed included."""

    def __post_init__(self) -> None:
        if (self.category is None) == (self.reason is None):
            raise ValueError(
                f"judgement of {self.trajectory_id}: category is {self.category} and reason {self.reason}, "
                "expected exactly one of them"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Footprint:
    """Keys of the environment's state that a step read and wrote.

    Example: ``take apple 1 from fridge 1`` reads ``location:fridge 1`` and writes ``holding:apple 1``.
    """

    trajectory_id: str
    step_index: int
    reads: frozenset[str]
    """Keys as ``kind:name``, lower case."""
    writes: frozenset[str]
    effect: Effect

    def __post_init__(self) -> None:
        where = f"trajectory {self.trajectory_id}, step {self.step_index}"
        if self.step_index < 0:
            raise SupervisionError(f"{where}: footprint with a negative step index, expected 0 or more")
        for key in (*self.reads, *self.writes):
            if not _FOOTPRINT_KEY.fullmatch(key) or key != key.lower():
                raise SupervisionError(f"{where}: key {key!r}, expected lower case in the form 'kind:name' or 'kind'")
        if self.writes and self.effect is not Effect.CHANGED:
            raise SupervisionError(
                f"{where}: effect '{self.effect}' with writes {sorted(self.writes)}, expected none unless 'changed'"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class DependencyGraph:
    """Which step used what an earlier step produced. Nodes are steps."""

    trajectory_id: str
    num_steps: int
    edges: tuple[tuple[int, int, int], ...]
    """(source step, target step, number of keys), sorted; source < target."""
    writer_rule: str
    """Which earlier writer of a key counts: ``last``, ``any`` or ``first``."""

    def __post_init__(self) -> None:
        if list(self.edges) != sorted(set(self.edges)):
            raise SupervisionError(f"trajectory {self.trajectory_id}: edges are not sorted and unique")
        for source, target, num_keys in self.edges:
            if not (0 <= source < target < self.num_steps and num_keys >= 1):
                raise SupervisionError(
                    f"trajectory {self.trajectory_id}: edge {source} -> {target} with {num_keys} keys, expected "
                    f"0 <= source < target < {self.num_steps} and at least one key"
                )

    @property
    def density(self) -> float:
        """Edges over the pairs of steps, E / (N (N - 1) / 2); 0 for a single step."""
        pairs = self.num_steps * (self.num_steps - 1) / 2
        return len(self.edges) / pairs if pairs else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StepAptitude:
    """Structural credit and divergence of each step, and their mix."""

    trajectory_id: str
    stationary: tuple[float, ...]
    """[N] weight of each step in the random walk over the dependency graph; sums to 1."""
    l_graph: tuple[float, ...]
    """[N] the same, normalised within the trajectory."""
    divergence: tuple[float | None, ...]
    """[N] mean divergence of teacher and student over the step's tokens, nats. None: not scored."""
    l_model: tuple[float | None, ...]
    """[N] the same, normalised within the trajectory."""
    aptitude: tuple[float | None, ...]
    """[N] (1 - alpha) l_graph + alpha l_model. None: not scored, and alpha above 0."""
    fallbacks: frozenset[Fallback] = frozenset()
    config_id: str = ""
    """Which settings made it."""

    def __post_init__(self) -> None:
        for name in ("l_graph", "divergence", "l_model", "aptitude"):
            if len(getattr(self, name)) != len(self.stationary):
                raise SupervisionError.length(
                    name, got=len(getattr(self, name)), expected=len(self.stationary), trajectory_id=self.trajectory_id
                )
        if abs(sum(self.stationary) - 1.0) > 1e-9:
            raise SupervisionError(
                f"trajectory {self.trajectory_id}: stationary weights sum to {sum(self.stationary)!r}, expected 1"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSupervision:
    """Per step of one trajectory, who learns and how much.

    Example, N=4, switch at 2, expert steps only:
      step_mask            0 0 1 1
      step_weights["sft"]  0 0 1 1
    """

    trajectory_id: str
    step_mask: tuple[bool, ...]
    """[N] whether a step may learn at all."""
    step_weights: Mapping[LossComponent, tuple[float, ...]]
    """Per component [N], >= 0; 0 outside the mask."""
    source: str
    """Name of the producer, e.g. ``expert_steps``."""
    target: Target = Target.EXECUTED
    """Which action is learnt at the masked steps."""
    step_advantages: tuple[float, ...] | None = None
    """[N] signed credit for `pg`. None: the supervision has no reward in it."""

    def __post_init__(self) -> None:
        if self.step_advantages is not None and len(self.step_advantages) != len(self.step_mask):
            raise SupervisionError.length(
                "step_advantages",
                got=len(self.step_advantages),
                expected=len(self.step_mask),
                trajectory_id=self.trajectory_id,
            )
        for component, weights in self.step_weights.items():
            if len(weights) != len(self.step_mask):
                raise SupervisionError.length(
                    f"step_weights[{component.value!r}]",
                    got=len(weights),
                    expected=len(self.step_mask),
                    trajectory_id=self.trajectory_id,
                )
            for index, (weight, mask) in enumerate(zip(weights, self.step_mask, strict=True)):
                if not weight >= 0.0 or (weight > 0.0 and not mask):
                    raise SupervisionError(
                        f"trajectory {self.trajectory_id}, step {index}: weight {weight} of '{component.value}' with "
                        f"step_mask {mask}; expected >= 0, and 0 outside the mask"
                    )


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSample:
    """Flat tokens for one forward pass, with one weight stream per loss component.

    Example: obs [1,2], student [3,4], obs [5], expert [6,7,8]; expert steps only:
      token_ids   1 2 3 4 5 6 7 8
      token_actor . . s s . e e e
      loss_mask   0 0 0 0 0 1 1 1
    """

    sample_id: str
    trajectory_id: str
    token_ids: tuple[int, ...]
    """[T]"""
    token_actors: str
    """[T] one letter per token: ``s`` student, ``e`` expert, ``o`` observation, ``.`` template."""
    loss_mask: tuple[bool, ...]
    """[T] True where a token is trained by some component. Index t is trained as a target, given ids before t."""
    loss_weights: Mapping[LossComponent, tuple[float, ...]]
    """Per component [T], >= 0; 0 outside the mask."""
    advantages: tuple[float, ...] | None = None
    """[T] signed credit for `pg`."""
    rollout_logprobs: tuple[float | None, ...] | None = None
    """[T] natural log; None at tokens that were not sampled by us."""
    teacher_logprobs: tuple[float | None, ...] | None = None
    """[T] natural log; None at tokens that were not scored."""
    reference_logprobs: tuple[float | None, ...] | None = None
    """[T] of the frozen model that a KL anchor holds to; natural log, None at tokens that were not scored."""
    fork_index: int = 0
    """0 for the first sample of a trajectory, then counting: the context broke the prefix there."""
    step_spans: tuple[tuple[int, int, int], ...] = ()
    """(step_index, first token, one past the last token) of each action in the sample."""

    def __post_init__(self) -> None:
        expected = len(self.token_ids)
        streams: dict[str, int] = {"token_actors": len(self.token_actors), "loss_mask": len(self.loss_mask)}
        streams |= {f"loss_weights[{c.value!r}]": len(w) for c, w in self.loss_weights.items()}
        for name in ("advantages", "rollout_logprobs", "teacher_logprobs", "reference_logprobs"):
            values = getattr(self, name)
            if values is not None:
                streams[name] = len(values)
        for name, got in streams.items():
            if got != expected:
                raise SupervisionError.length(name, got=got, expected=expected, trajectory_id=self.trajectory_id)
        if not any(self.loss_mask):
            raise SupervisionError(
                f"trajectory {self.trajectory_id}, sample {self.sample_id}: no token is trained. "
                "Drop the trajectory in selection (no_expert_steps) or choose another step mask."
            )
        if self.loss_mask[0]:
            raise SupervisionError(
                f"trajectory {self.trajectory_id}, sample {self.sample_id}: token 0 is trained, but nothing precedes it"
            )

    @property
    def num_trained_tokens(self) -> int:
        return sum(self.loss_mask)

    def __repr__(self) -> str:
        return f"TrainingSample({self.sample_id}, T={len(self.token_ids)}, trained={self.num_trained_tokens})"
