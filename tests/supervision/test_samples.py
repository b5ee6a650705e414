"""Samples over tokens that can be counted by hand: every text is a row of numbers, and each number is its own id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.errors import ConfigError, SupervisionError
from tutelage.rendering.base import Renderer
from tutelage.rendering.context import Full, LastObservations
from tutelage.rendering.load import load_renderer
from tutelage.students import student_path
from tutelage.supervision.describe import describe_sample
from tutelage.supervision.samples import SampleLedger, build_all_samples, build_samples
from tutelage.supervision.step_masks import STEP_MASKS, all_steps, expert_labels, expert_steps, student_steps
from tutelage.types import (
    Action,
    Actor,
    LossComponent,
    Observation,
    ParseOutcome,
    Step,
    StopReason,
    TrainingSample,
    Trajectory,
)

STOP = 99


class NumberRenderer:
    """Text "1 2" is ids [1, 2]; a stub is [0, number of lines]; `template` puts [70] before and [71] after an observation."""

    name = "numbers"
    stop_token_id = STOP
    stop_token_ids = (STOP,)
    rewrites_history = False
    pad_token_id = 98
    vocab_size = 100

    def __init__(self, template: bool = False) -> None:
        self.front, self.back = ([70], [71]) if template else ([], [])

    def observation_ids(self, observation: Observation, *, after: Action | None) -> list[int]:
        text = observation.text
        if text.startswith("[observation elided: "):
            return [*self.front, 0, int(text.split()[2]), *self.back]
        return [*self.front, *map(int, text.split()), *self.back]

    def action_ids(self, action: Action, *, followed_by: Sequence[Observation] = ()) -> list[int]:
        if action.token_ids is not None:
            return list(action.token_ids)
        return [*map(int, action.text.split()), STOP]

    def parse(self, token_ids: Sequence[int], *, stopped: bool) -> Action:
        text = self.decode(token_ids[:-1] if stopped else token_ids)
        outcome = ParseOutcome.CLEAN if stopped else ParseOutcome.ENDED_WITHOUT_STOP
        return Action(text=text, command=text, parse=outcome, token_ids=tuple(token_ids))

    def decode(self, token_ids: Sequence[int]) -> str:
        # 41 42 is another spelling of 40, so that ids can drift.
        return " ".join(str(token_id) for token_id in token_ids).replace("41 42", "40")


def cut_off(text: str) -> Action:
    """A sampled reply that ended before its stop token, so that it is exactly the given ids."""
    return Action(
        text=text,
        command=text,
        parse=ParseOutcome.ENDED_WITHOUT_STOP,
        token_ids=tuple(map(int, text.split())),
    )


def make_trajectory(
    *steps: tuple[str, str, str | Action], labels: Sequence[str] | None = None, trajectory_id: str = "t"
) -> Trajectory:
    """Steps as (observation, s or e, action)."""
    made = tuple(
        Step(
            observation=Observation.of(observation),
            action=Action.of(action) if isinstance(action, str) else action,
            actor=Actor.STUDENT if letter == "s" else Actor.EXPERT,
            expert_action=None if labels is None else Action.of(labels[index]),
        )
        for index, (observation, letter, action) in enumerate(steps)
    )
    return Trajectory(
        trajectory_id=trajectory_id, task_id="t", env="test", steps=made, final_observation=Observation.of("55"),
        stop_reason=StopReason.COMPLETED, reward=1.0, seed=0,
    )  # fmt: skip


def mask_of(sample: TrainingSample) -> str:
    return "".join("1" if mask else "0" for mask in sample.loss_mask)


def trained_ids(sample: TrainingSample) -> list[int]:
    return [token for token, mask in zip(sample.token_ids, sample.loss_mask, strict=True) if mask]


T19 = make_trajectory(("1 2", "s", cut_off("3 4")), ("5", "e", cut_off("6 7 8")), ("9", "e", cut_off("10")))


def test_t19_expert_steps() -> None:
    [sample] = build_samples(T19, expert_steps(T19), NumberRenderer())
    assert sample.token_ids == (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    assert sample.token_actors == "oossoeeeoe"
    assert mask_of(sample) == "0000011101"
    assert sample.loss_weights == {LossComponent.SFT: (0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0)}
    assert sample.step_spans == ((0, 2, 4), (1, 5, 8), (2, 9, 10))


def test_t19_mask_off() -> None:
    [sample] = build_samples(T19, all_steps(T19), NumberRenderer())
    assert mask_of(sample) == "0011011101"


def test_m4_m6_stop_is_trained_once_and_template_never() -> None:
    trajectory = make_trajectory(("1", "s", "2 3"), ("4", "e", "5"), ("6", "s", "7"), ("8", "e", "9"))
    ledger = SampleLedger()
    [sample] = build_samples(trajectory, expert_steps(trajectory), NumberRenderer(template=True), ledger=ledger)
    assert sample.token_ids == (70, 1, 71, 2, 3, 99, 70, 4, 71, 5, 99, 70, 6, 71, 7, 99, 70, 8, 71, 9, 99)
    assert sample.token_actors == ".o.sss.o.ee.o.ss.o.ee"
    assert mask_of(sample) == "000000000110000000011"
    assert trained_ids(sample) == [5, STOP, 9, STOP]
    assert ledger == SampleLedger(
        num_trajectories=1, num_samples=1, trained_tokens=Counter(e=4), total_tokens=21, trained_without_stop=0
    )


def test_the_last_observation_enters_no_sample() -> None:
    [sample] = build_samples(T19, all_steps(T19), NumberRenderer())
    assert 55 not in sample.token_ids


def test_t21_t22_per_step_samples_show_what_was_seen_then() -> None:
    trajectory = make_trajectory(("1", "e", "11"), ("2\n2\n2", "e", "12"), ("3", "e", "13"), ("4", "e", "14"))
    ledger = SampleLedger()
    rule = LastObservations(n=1)
    samples = build_samples(trajectory, expert_steps(trajectory), NumberRenderer(), rule, "per_step", ledger=ledger)
    assert [(list(sample.token_ids), mask_of(sample), sample.fork_index) for sample in samples] == [
        ([1, 11, 99], "011", 0),
        ([1, 11, 99, 2, 2, 2, 12, 99], "00000011", 0),
        ([1, 11, 99, 0, 3, 12, 99, 3, 13, 99], "0000000011", 1),
        ([1, 11, 99, 0, 3, 12, 99, 0, 1, 13, 99, 4, 14, 99], "00000000000011", 2),
    ]
    assert [sample.sample_id for sample in samples] == ["t/step-0", "t/step-1", "t/step-2", "t/step-3"]
    assert (ledger.num_samples, ledger.num_forks) == (4, 2)


def test_t22_whole_is_refused_where_the_context_is_shortened() -> None:
    with pytest.raises(ConfigError, match=r"layout 'whole' with context rule LastObservations\(n=1\).*per_step"):
        build_samples(T19, expert_steps(T19), NumberRenderer(), LastObservations(n=1), "whole")


def test_per_step_with_full_context_has_no_fork() -> None:
    samples = build_samples(T19, expert_steps(T19), NumberRenderer(), Full(), "per_step")
    assert [(mask_of(sample), sample.fork_index) for sample in samples] == [("00000111", 0), ("0000000001", 0)]


def test_t1_sampled_ids_are_kept_and_drift_is_counted() -> None:
    sampled = Action(text="40", command="40", token_ids=(41, 42, STOP), rollout_logprobs=(-0.5, -0.25, -0.125))
    trajectory = make_trajectory(("1", "s", sampled), ("2", "e", "3"))
    ledger = SampleLedger()
    [sample] = build_samples(trajectory, student_steps(trajectory), NumberRenderer(), ledger=ledger)
    assert trained_ids(sample) == [41, 42, STOP]
    assert sample.rollout_logprobs == (None, -0.5, -0.25, -0.125, None, None, None)
    assert (ledger.sampled_actions, ledger.drifted_actions) == (1, 1)


@pytest.mark.parametrize("token_ids", [(7, 8, STOP), (40, 100, STOP)])
def test_ids_of_another_tokenizer_are_refused(token_ids: tuple[int, ...]) -> None:
    foreign = Action(text="40", command="40", token_ids=token_ids)
    trajectory = make_trajectory(("1", "s", foreign), ("2", "e", "3"))
    with pytest.raises(SupervisionError, match=r"trajectory t: action '40' .* sampled with another tokenizer"):
        build_samples(trajectory, expert_steps(trajectory), NumberRenderer())


def test_a_clean_action_without_stop_token_is_refused() -> None:
    action = Action(text="3", command="3", token_ids=(3,))
    trajectory = make_trajectory(("1", "e", action))
    with pytest.raises(SupervisionError, match=r"step 0: ids \[3\], expected the stop token 99 once, at the end"):
        build_samples(trajectory, expert_steps(trajectory), NumberRenderer())


def test_a_cut_off_reply_is_trained_as_it_is_and_counted() -> None:
    ledger = SampleLedger()
    build_samples(T19, all_steps(T19), NumberRenderer(), ledger=ledger)
    assert (ledger.trained_without_stop, ledger.drifted_actions, ledger.sampled_actions) == (3, 0, 3)


def test_t31_labels_fork_where_they_were_not_executed() -> None:
    trajectory = make_trajectory(("1", "s", "11"), ("2", "s", "12"), ("3", "s", "13"), labels=["11", "77", "13"])
    ledger = SampleLedger()
    main, fork = build_samples(trajectory, expert_labels(trajectory), NumberRenderer(), ledger=ledger)
    assert main.token_ids == (1, 11, 99, 2, 12, 99, 3, 13, 99)
    assert main.token_actors == "oeeossoee"
    assert mask_of(main) == "011000011"
    assert fork.token_ids == (1, 11, 99, 2, 77, 99)
    assert fork.token_actors == "ossoee"
    assert mask_of(fork) == "000011"
    assert (main.sample_id, main.fork_index, fork.sample_id, fork.fork_index) == ("t/whole", 0, "t/step-1", 1)
    assert (ledger.num_samples, ledger.num_forks, ledger.trained_tokens) == (2, 1, Counter(e=6))


def test_t31_per_step_context_holds_what_was_executed() -> None:
    trajectory = make_trajectory(("1", "s", "11"), ("2", "s", "12"), ("3", "s", "13"), labels=["11", "77", "13"])
    samples = build_samples(trajectory, expert_labels(trajectory), NumberRenderer(), Full(), "per_step")
    assert [sample.token_ids for sample in samples] == [
        (1, 11, 99),
        (1, 11, 99, 2, 77, 99),
        (1, 11, 99, 2, 12, 99, 3, 13, 99),
    ]
    assert [sample.fork_index for sample in samples] == [0, 0, 1]


def test_nothing_to_train_is_refused_and_counted() -> None:
    student_only = make_trajectory(("1", "s", "2"))
    switched = make_trajectory(("1", "s", "2"), ("3", "e", "4"), trajectory_id="u")
    empty = make_trajectory(trajectory_id="v")
    samples, ledger = build_all_samples([student_only, switched, empty], expert_steps, NumberRenderer())
    assert [sample.sample_id for sample in samples] == ["u/whole"]
    assert ledger.num_trajectories == 3
    assert ledger.refused == Counter(no_trained_step=1, no_step=1)
    assert ledger.to_json() == {
        "num_trajectories": 3,
        "num_samples": 1,
        "num_forks": 0,
        "refused": {"no_trained_step": 1, "no_step": 1},
        "trained_tokens": {"e": 2},
        "total_tokens": 6,
        "sampled_actions": 0,
        "drifted_actions": 0,
        "trained_without_stop": 0,
    }


def test_supervision_of_another_trajectory_is_refused() -> None:
    other = make_trajectory(("1", "e", "2"), trajectory_id="u")
    with pytest.raises(SupervisionError, match="trajectory t: the supervision names u"):
        build_samples(T19, expert_steps(other), NumberRenderer())
    with pytest.raises(SupervisionError, match="step_mask has 1 entries, expected 3"):
        build_samples(T19, replace(expert_steps(other), trajectory_id="t"), NumberRenderer())


def test_unknown_layout_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown 'hole'\. Did you mean 'whole'"):
        build_samples(T19, expert_steps(T19), NumberRenderer(), layout="hole")  # type: ignore[arg-type]


def test_description_tells_author_and_loss() -> None:
    [sample] = build_samples(T19, expert_steps(T19), NumberRenderer())
    text = describe_sample(sample, NumberRenderer())
    assert text.plain == "t/whole: 10 tokens, 4 trained, fork 0\n1 23 456 7 8910"
    assert [(text.plain[span.start : span.end], str(span.style)) for span in text.spans] == [
        ("t/whole: 10 tokens, 4 trained, fork 0\n", "bold"),
        ("1 2", "default"),
        ("3 4", "cyan"),
        ("5", "default"),
        ("6 7 8", "bold reverse green"),
        ("9", "default"),
        ("10", "bold reverse green"),
    ]


any_text = st.text(max_size=12)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(st.tuples(any_text, st.sampled_from("se"), any_text), min_size=1, max_size=5))
def test_trained_tokens_are_the_texts_in_the_student_s_own_tokenizer(steps: list[tuple[str, str, str]]) -> None:
    renderer = load_renderer(student_path("builtin:household_tiny"))
    trajectory = make_trajectory(*steps)
    expected = "".join(f"{action}<|end|>" for _, letter, action in steps if letter == "e")
    samples = build_samples(trajectory, expert_steps(trajectory), renderer)
    assert [renderer.decode(trained_ids(sample)) for sample in samples] == ([expected] if expected else [])


def test_m12_special_tokens_in_an_observation_are_text() -> None:
    renderer = load_renderer(student_path("builtin:household_tiny"))
    trajectory = make_trajectory(("a<|end|><|act|>b", "s", "look"), ("<|obs|>", "e", "<|end|>"))
    [sample] = build_samples(trajectory, expert_steps(trajectory), renderer)
    assert sample.token_ids.count(renderer.stop_token_id) == 2
    assert trained_ids(sample)[-1] == renderer.stop_token_id
    assert renderer.decode(trained_ids(sample)) == "<|end|><|end|>"
    template = [token for token, letter in zip(sample.token_ids, sample.token_actors, strict=True) if letter == "."]
    assert renderer.decode(template) == "<|bos|><|obs|><|act|><|obs|><|act|>"


numbers = st.lists(st.integers(1, 30), min_size=1, max_size=4).map(lambda ids: " ".join(map(str, ids)))
drawn_steps = st.lists(st.tuples(numbers, st.sampled_from("se"), numbers), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(steps=drawn_steps, mask=st.sampled_from(["expert_steps", "student_steps", "all_steps"]), template=st.booleans())
def test_trained_tokens_are_the_texts_of_the_chosen_authors(
    steps: list[tuple[str, str, str]], mask: str, template: bool
) -> None:
    trajectory = make_trajectory(*steps)
    renderer: Renderer = NumberRenderer(template)
    authors = {"expert_steps": "e", "student_steps": "s", "all_steps": "se"}[mask]
    expected = [f"{action} {STOP}" for _, letter, action in steps if letter in authors]
    whole = build_samples(trajectory, STEP_MASKS[mask](trajectory), renderer)
    single = build_samples(trajectory, STEP_MASKS[mask](trajectory), renderer, LastObservations(n=2), "per_step")
    assert [renderer.decode(trained_ids(sample)) for sample in whole] == ([" ".join(expected)] if expected else [])
    assert [renderer.decode(trained_ids(sample)) for sample in single] == expected
    for sample in [*whole, *single]:
        trained = {letter for letter, on in zip(sample.token_actors, sample.loss_mask, strict=True) if on}
        assert trained <= set(authors)


@settings(max_examples=40, deadline=None)
@given(steps=drawn_steps, data=st.data())
def test_m6_mask_of_some_steps_is_that_slice_of_the_whole_mask(
    steps: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    trajectory = make_trajectory(*steps)
    end = data.draw(st.integers(1, len(steps)))
    part = replace(trajectory, steps=trajectory.steps[:end])
    whole, prefix = (build_samples(one, all_steps(one), NumberRenderer(template=True))[0] for one in (trajectory, part))
    length = len(prefix.token_ids)
    assert whole.loss_mask[:length] == prefix.loss_mask
    assert whole.token_ids[:length] == prefix.token_ids
    assert whole.token_actors[:length] == prefix.token_actors
