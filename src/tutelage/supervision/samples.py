"""Trajectory + StepSupervision -> TrainingSample: flat tokens with an author and a mask for each.

In: trajectories, a step mask, the renderer and the context rule of the rollout. Out: samples, and a ledger that accounts
for every trajectory. The ids come from `render_episode`, as they do when a policy acts, so training sees what acting
saw. Ids that were sampled are kept; encoding the text again only detects drift and counts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from tutelage.errors import ConfigError, SupervisionError
from tutelage.rendering.base import Renderer
from tutelage.rendering.context import ContextRule, Full
from tutelage.rendering.episode import Segment, answer_to, made_ids, render_chains, render_episode
from tutelage.supervision.step_masks import StepMask
from tutelage.types import (
    Action,
    Actor,
    LossComponent,
    Message,
    Observation,
    ParseOutcome,
    Step,
    StepSupervision,
    Target,
    TrainingSample,
    Trajectory,
)

Layout = Literal["whole", "per_step"]

LAYOUTS: Final = ("whole", "per_step")
"""`whole`: a sample holds an episode. `per_step`: a sample holds one trained step and what was seen before it."""

STUDENT, EXPERT, OBSERVATION, TEMPLATE = "s", "e", "o", "."


@dataclass(kw_only=True, slots=True)
class SampleLedger:
    """What became of the trajectories: num_trajectories = those with samples + sum(refused)."""

    num_trajectories: int = 0
    num_samples: int = 0
    num_forks: int = 0
    """Samples that do not go on from the one before: a shortened context, a template that writes past turns otherwise,
    or a label broke the prefix."""
    refused: Counter[str] = field(default_factory=Counter)
    """Trajectories without a sample, by reason."""
    trained_tokens: Counter[str] = field(default_factory=Counter)
    """By author: ``s`` student, ``e`` expert."""
    total_tokens: int = 0
    sampled_actions: int = 0
    """Executed actions that carry the ids they were sampled as."""
    drifted_actions: int = 0
    """Of these, how many the tokenizer would encode otherwise. The sampled ids are trained."""
    trained_without_stop: int = 0
    """Trained actions whose author was cut off before the stop token."""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a summary file."""
        return asdict(self) | {"refused": dict(self.refused), "trained_tokens": dict(self.trained_tokens)}


def build_samples(
    trajectory: Trajectory,
    supervision: StepSupervision,
    renderer: Renderer,
    context_rule: ContextRule = Full(),
    layout: Layout = "whole",
    *,
    ledger: SampleLedger | None = None,
) -> list[TrainingSample]:
    """The samples of one trajectory; none if no token would be trained, which the ledger counts.

    The stop token that ends an action is trained with it, once; template, generation prompt and observations never are.

    Example, `whole`, expert steps only: obs [1,2], student [3,4], obs [5], expert [6,7,8], obs [9], expert [10]:
      token_ids     1 2 3 4 5 6 7 8 9 10
      token_actors  o o s s o e e e o e
      loss_mask     0 0 0 0 0 1 1 1 0 1
    `per_step`: [1,2,3,4,5,6,7,8] and [1,...,9,10], the last action of each trained.
    With `Target.EXPERT_LABEL` and `whole`, the first sample is the executed episode, trained where the label has the
    same ids; each other label ends a sample of its own (a fork).

    Raises:
        ConfigError: `whole` under a rule that elides, since one token string cannot show two views.
        SupervisionError: the supervision is of another trajectory, or ids come from another tokenizer.
    """
    ledger = ledger if ledger is not None else SampleLedger()
    _check_arguments(trajectory, supervision, context_rule, layout)
    ledger.num_trajectories += 1
    builder = _Builder(trajectory, supervision, renderer, context_rule)
    if not builder.trained_steps:
        ledger.refused["no_step" if not trajectory.steps else "no_trained_step"] += 1
        return []
    samples = builder.whole() if layout == "whole" else builder.per_step()
    builder.count_actions(ledger)
    for sample in samples:
        trained = (letter for letter, mask in zip(sample.token_actors, sample.loss_mask, strict=True) if mask)
        ledger.trained_tokens.update(trained)
        ledger.total_tokens += len(sample.token_ids)
    ledger.num_samples += len(samples)
    ledger.num_forks += max(sample.fork_index for sample in samples)
    return samples


def build_all_samples(
    trajectories: Iterable[Trajectory],
    step_mask: StepMask,
    renderer: Renderer,
    context_rule: ContextRule = Full(),
    layout: Layout = "whole",
) -> tuple[list[TrainingSample], SampleLedger]:
    """`build_samples` over many trajectories, with one ledger for all."""
    ledger = SampleLedger()
    samples = [
        sample
        for trajectory in trajectories
        for sample in build_samples(trajectory, step_mask(trajectory), renderer, context_rule, layout, ledger=ledger)
    ]
    return samples, ledger


def check_layout(layout: str, context_rule: ContextRule) -> None:
    """Raise ConfigError for a layout that is unknown, or cannot hold what the context rule shows."""
    if layout not in LAYOUTS:
        raise ConfigError.unknown("sample layout", layout, LAYOUTS)
    if layout == "whole" and not context_rule.extends_prefix:
        raise ConfigError(
            f"layout 'whole' with context rule {context_rule!r}: the rule shows the same observation in different ways at "
            "different steps, and one sample can show it in one way only. Use layout 'per_step' or the context rule 'full'."
        )


def _check_arguments(
    trajectory: Trajectory, supervision: StepSupervision, context_rule: ContextRule, layout: str
) -> None:
    check_layout(layout, context_rule)
    if supervision.trajectory_id != trajectory.trajectory_id:
        raise SupervisionError(
            f"trajectory {trajectory.trajectory_id}: the supervision names {supervision.trajectory_id}, expected the same id"
        )
    if len(supervision.step_mask) != len(trajectory.steps):
        raise SupervisionError.length(
            "step_mask",
            got=len(supervision.step_mask),
            expected=len(trajectory.steps),
            trajectory_id=trajectory.trajectory_id,
        )


class _Builder:
    """The samples of one trajectory under one supervision."""

    def __init__(
        self, trajectory: Trajectory, supervision: StepSupervision, renderer: Renderer, context_rule: ContextRule
    ) -> None:
        self.trajectory = trajectory
        self.supervision = supervision
        self.renderer = renderer
        self.context_rule = context_rule
        self.trained_steps = [
            index
            for index, mask in enumerate(supervision.step_mask)
            if mask and any(weights[index] > 0.0 for weights in supervision.step_weights.values())
        ]
        self._template_ids: dict[tuple[tuple[str, ...], bool, int | None], list[int]] = {}

    def whole(self) -> list[TrainingSample]:
        """One sample over the executed episode, more where its context forks, and one for each label not executed."""
        samples: list[TrainingSample] = []
        forked: list[int] = []
        chains = render_chains(
            self.trajectory.steps, self.renderer, self.context_rule, final=self.trajectory.final_observation
        )
        for number, chain in enumerate(chains):
            made = {one.step_index: one.token_ids for one in chain.segments if one.kind == "action"}
            mine = [index for index in self.trained_steps if index in chain.step_indices]
            kept = {index for index in mine if self._target_ids(index) == made[index]}
            forked += [index for index in mine if index not in kept]
            if kept:
                name = "whole" if number == 0 else f"from-{chain.step_indices[0]}"
                samples.append(self._sample(name, chain.segments, kept, fork_index=len(samples)))
        for index in forked:
            samples.append(self._sample(f"step-{index}", self._view(index), {index}, fork_index=len(samples)))
        return samples

    def per_step(self) -> list[TrainingSample]:
        """One sample for each trained step, with the view its author's student would have had."""
        samples: list[TrainingSample] = []
        fork_index = 0
        for index in self.trained_steps:
            sample = self._sample(f"step-{index}", self._view(index), {index}, fork_index=fork_index)
            if samples and sample.token_ids[: len(samples[-1].token_ids)] != samples[-1].token_ids:
                fork_index += 1
                sample = replace(sample, fork_index=fork_index)
            samples.append(sample)
        return samples

    def count_actions(self, ledger: SampleLedger) -> None:
        """Count ids that the tokenizer would not give again, and trained actions that were cut off."""
        for step in self.trajectory.steps:
            if step.action.token_ids is not None:
                ledger.sampled_actions += 1
                ledger.drifted_actions += self._drifted(step.action)
        for index in self.trained_steps:
            ledger.trained_without_stop += self._target_ids(index)[-1] not in self.renderer.stop_token_ids

    def _view(self, index: int) -> list[Segment]:
        """What was seen before step `index`, then the action to learn there."""
        steps = self.trajectory.steps
        context = render_episode(steps[:index], steps[index].observation, self.renderer, self.context_rule)
        return [*context, Segment("action", index, self._target_ids(index))]

    def _target_ids(self, index: int) -> tuple[int, ...]:
        action = self._target(self.trajectory.steps[index])
        return tuple(made_ids(action, answer_to(self.trajectory, index), self.renderer))

    def _target(self, step: Step) -> Action:
        if self.supervision.target is Target.EXECUTED:
            return step.action
        assert step.expert_action is not None, "the step mask has checked that every step has a label"
        return step.expert_action

    def _sample(self, name: str, segments: Sequence[Segment], trained: set[int], *, fork_index: int) -> TrainingSample:
        """Join the segments and spread the weights of the trained steps over their tokens."""
        token_ids: list[int] = []
        actors: list[str] = []
        weights: dict[LossComponent, list[float]] = {component: [] for component in self.supervision.step_weights}
        logprobs: list[float | None] = []
        advantages: list[float] = []
        spans: list[tuple[int, int, int]] = []
        for segment in segments:
            start, length = len(token_ids), len(segment.token_ids)
            learns = segment.kind == "action" and segment.step_index in trained
            token_ids.extend(segment.token_ids)
            actors.append(self._letters(segment, learns))
            for component, stream in weights.items():
                weight = self.supervision.step_weights[component][segment.step_index] if learns else 0.0
                stream.extend([weight] * length)
            logprobs.extend(self._logprobs(segment, learns))
            credit = self.supervision.step_advantages
            advantages.extend([credit[segment.step_index] if credit is not None and learns else 0.0] * length)
            if segment.kind == "action":
                spans.append((segment.step_index, start, start + length))
        for index, start, end in spans:
            if index in trained:
                self._check_trained(index, token_ids[start:end])
        return TrainingSample(
            sample_id=f"{self.trajectory.trajectory_id}/{name}",
            trajectory_id=self.trajectory.trajectory_id,
            token_ids=tuple(token_ids),
            token_actors="".join(actors),
            loss_mask=tuple(any(values) for values in zip(*weights.values(), strict=True)),
            loss_weights={component: tuple(stream) for component, stream in weights.items()},
            advantages=None if self.supervision.step_advantages is None else tuple(advantages),
            rollout_logprobs=tuple(logprobs) if any(value is not None for value in logprobs) else None,
            fork_index=fork_index,
            step_spans=tuple(spans),
        )

    def _letters(self, segment: Segment, learns: bool) -> str:
        """The author of each token; a label is the expert's, whoever acted."""
        length = len(segment.token_ids)
        if segment.kind == "observation":
            return self._observation_letters(segment)
        labelled = learns and self.supervision.target is Target.EXPERT_LABEL
        acted = self.trajectory.steps[segment.step_index].actor
        return (EXPERT if labelled or acted is Actor.EXPERT else STUDENT) * length

    def _observation_letters(self, segment: Segment) -> str:
        """Template where the ids equal those of an empty observation at the front and at the end, text between."""
        steps = self.trajectory.steps
        after = steps[segment.step_index - 1].action if segment.step_index else None
        # What an action ended with decides the template after it; its other ids do not.
        ended = None if after is None else (after.token_ids or (None,))[-1]
        key = tuple(message.role for message in steps[segment.step_index].observation.messages), after is None, ended
        if key not in self._template_ids:
            empty = Observation(messages=tuple(Message(role=role, content="") for role in key[0]))
            self._template_ids[key] = self.renderer.observation_ids(empty, after=after)
        template = self._template_ids[key]
        front = _common_length(template, segment.token_ids)
        back = _common_length(template[front:][::-1], segment.token_ids[front:][::-1])
        return TEMPLATE * front + OBSERVATION * (len(segment.token_ids) - front - back) + TEMPLATE * back

    def _logprobs(self, segment: Segment, learns: bool) -> Sequence[float | None]:
        """The sampler's log-probabilities of an action, None at every other token."""
        if segment.kind == "action":
            step = self.trajectory.steps[segment.step_index]
            action = self._target(step) if learns else step.action
            if action.rollout_logprobs is not None and action.token_ids == segment.token_ids:
                return action.rollout_logprobs
        return [None] * len(segment.token_ids)

    def _drifted(self, action: Action) -> bool:
        """Whether encoding the text gives other ids than were sampled; ids of another tokenizer are refused."""
        sampled = list(action.token_ids or ())
        stopped = sampled[-1] in self.renderer.stop_token_ids if sampled else False
        # As text alone: what it would be in a student's own format is not asked.
        encoded = self.renderer.action_ids(Action(text=action.text, parse=ParseOutcome.MALFORMED))
        if sampled[: len(sampled) - stopped] == encoded[:-1]:
            return False
        in_range = all(0 <= token < self.renderer.vocab_size for token in sampled)
        if not in_range or self.renderer.parse(sampled, stopped=stopped).text != action.text:
            raise SupervisionError(
                f"trajectory {self.trajectory.trajectory_id}: action {action.text!r} carries ids that do not read as this "
                f"text in renderer {self.renderer.name!r}; they were sampled with another tokenizer. "
                "Build with the renderer of the rollout, or drop the ids, so that the text is encoded "
                "(`tutelage import native FILE --drop-token-ids`)."
            )
        return True

    def _check_trained(self, index: int, token_ids: Sequence[int]) -> None:
        """The stop token stands once, at the end; only a reply that was cut off may lack it."""
        stops = self.renderer.stop_token_ids
        cut_off = self._target(self.trajectory.steps[index]).parse is not ParseOutcome.CLEAN
        if not set(stops).isdisjoint(token_ids[:-1]) or (token_ids[-1] not in stops and not cut_off):
            raise SupervisionError(
                f"trajectory {self.trajectory.trajectory_id}, step {index}: ids {list(token_ids)}, expected the stop token "
                f"{stops[0]} once, at the end. Record sampled ids up to and including the stop token."
            )


def _common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Length of the common start of two id lists."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
