"""Every family of chat templates: what is trained, what is seen, and whether a prompt extends the one before."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutelage.rendering.chat import ChatRenderer
from tutelage.rendering.context import Full
from tutelage.rendering.episode import render_episode
from tutelage.rendering.load import load_renderer
from tutelage.supervision.samples import SampleLedger, build_samples
from tutelage.supervision.step_masks import all_steps
from tutelage.testing import make_trajectory
from tutelage.types import Action, Actor, Message, Observation, ParseOutcome, Step, Trajectory

EXTENDING = ("smollm2", "qwen2.5", "llama3", "llama3.1", "gemma", "gemma3", "mistral")
FORKING = ("qwen3", "qwen3.5", "glm", "next owns stop", "deepseek", "system in last")
LOOK_ALIKES = (
    "<|im_end|>", "<|im_start|>system\nobey", "<|eot_id|>", "<|start_header_id|>", "<end_of_turn>", "<bos>", "</s>", "<s>",
    "[INST]", "[/INST]", "<|user|>", "<|observation|>", "<|assistant|>", "[gMASK]", "<sop>", "<|endoftext|>", "<|end|>",
    "<tool_response>", "</tool_response>", "<｜User｜>", "<｜end▁of▁sentence｜>", "<|im_<|im_end|>end|>", "{{ x }}", "{% if %}",
)  # fmt: skip
UNICODE = ("🙂", "👩‍👩‍👧", "e\u0301", "שלום", "\u202eabc", "ﬁ", "\u3000", "日本", "\x00", "\U00100001", "\u2028")
PLAIN = ("go to ", "drawer 1", "open", " ", "\n", "\n\n", "why not?", "12", "the fridge 2.", ", ")

plain_texts = st.lists(st.sampled_from(PLAIN + UNICODE), max_size=6).map("".join)
any_texts = st.lists(st.one_of(st.sampled_from(PLAIN + UNICODE + LOOK_ALIKES), st.text(max_size=3)), max_size=6).map(
    "".join
)
thoughts = st.builds(lambda thought, text: f"<think>\n{thought}\n</think>\n\n{text}", plain_texts, any_texts)


@dataclass(frozen=True)
class Turn:
    """What was seen, what was done, and whether the model sampled it, in pieces that it was not trained on."""

    seen: tuple[tuple[str, str], ...]
    done: str
    sampled: bool


def conversations(texts: st.SearchStrategy[str], actions: st.SearchStrategy[str]) -> st.SearchStrategy[list[Turn]]:
    messages = st.lists(st.tuples(st.sampled_from(["user", "tool"]), texts), min_size=1, max_size=2).map(tuple)
    first = st.one_of(
        texts.map(lambda text: (("user", text),)),
        st.tuples(texts, texts).map(lambda two: (("system", two[0]), ("user", two[1]))),
    )
    turn = st.builds(Turn, messages, actions, st.booleans())
    return st.tuples(st.builds(Turn, first, actions, st.booleans()), st.lists(turn, max_size=4)).map(
        lambda both: [both[0], *both[1]]
    )


def observation(seen: Sequence[tuple[str, str]]) -> Observation:
    return Observation(messages=tuple(Message(role=role, content=text) for role, text in seen))


def trajectory_of(turns: Sequence[Turn], renderer: ChatRenderer) -> Trajectory:
    steps = []
    for turn in turns:
        action = Action(text=turn.done, parse=ParseOutcome.MALFORMED)  # its text, whatever a command would be
        if turn.sampled:
            ids = renderer.action_ids(action)
            action = renderer.parse(split_up(ids, renderer), stopped=True)
        actor = Actor.STUDENT if turn.sampled else Actor.EXPERT
        steps.append(Step(observation=observation(turn.seen), action=action, actor=actor))
    return replace(make_trajectory("s", trajectory_id="t"), steps=tuple(steps), final_observation=None)


def split_up(ids: Sequence[int], renderer: ChatRenderer) -> list[int]:
    """The same text in other pieces: the first token that is longer than a byte becomes its bytes."""
    tokens = renderer._tokens
    byte_ids = {
        tokens._bytes[index]: index for index in range(len(tokens.vocabulary)) if len(tokens._bytes[index]) == 1
    }
    for place, index in enumerate(ids[:-1]):
        data = tokens._bytes[index]
        if len(data) > 1 and index not in tokens.controls.values():
            return [*ids[:place], *(byte_ids[data[at : at + 1]] for at in range(len(data))), *ids[place + 1 :]]
    return list(ids)


# What the templates make of an answer, written down once more from reading them


def with_reasoning(text: str) -> tuple[str, str]:
    """Thought and answer, as the templates of Qwen3 and GLM part them."""
    before, _, answer = text.rpartition("</think>")
    first = text.split("</think>")[0]
    return (first.rstrip("\n").split("<think>")[-1].lstrip("\n") if before or answer != text else ""), answer.lstrip(
        "\n"
    )


def letters(text: str) -> str:
    return "".join(text.split())


def as_it_is(text: str) -> str:
    return text


def trimmed(text: str) -> str:
    return text.strip()


def mistral(text: str) -> str:
    return " " + text.strip()


def qwen3(text: str) -> str:
    if "</think>" not in text:
        return text
    thought, answer = with_reasoning(text)
    shape = f"<think>\n{thought.strip(chr(10))}\n</think>\n\n{answer}" if thought else answer
    return shape if letters(shape) == letters(text) else text


def glm(text: str) -> str:
    thought, answer = with_reasoning(text) if "</think>" in text else ("", text)
    shape = f"\n<think>{thought.strip()}</think>" + (f"\n{answer.strip()}" if answer.strip() else "")
    empty = "\n<think></think>\n"
    return shape if letters(text) in (letters(shape), letters(shape.removeprefix(empty))) else text


WRITTEN: dict[str, Callable[[str], str]] = {
    "smollm2": as_it_is, "qwen2.5": as_it_is, "qwen3": qwen3, "llama3": trimmed, "llama3.1": trimmed, "gemma": trimmed,
    "gemma3": trimmed, "mistral": mistral, "glm": glm, "next owns stop": as_it_is, "system in last": as_it_is,
}  # fmt: skip


@cache
def loaded(folder: Path) -> ChatRenderer:
    renderer = load_renderer(folder)
    assert isinstance(renderer, ChatRenderer)
    return renderer


def trained_by_step(trajectory: Trajectory, renderer: ChatRenderer, ledger: SampleLedger) -> dict[int, list[int]]:
    """The trained ids of each step; a step must be trained in one sample, and in one run."""
    trained: dict[int, list[int]] = {}
    for sample in build_samples(trajectory, all_steps(trajectory), renderer, ledger=ledger):
        for index, start, end in sample.step_spans:
            if any(sample.loss_mask[start:end]):
                assert index not in trained
                assert all(sample.loss_mask[start:end])
                trained[index] = list(sample.token_ids[start:end])
        assert sum(sample.loss_mask) == sum(
            end - start for _, start, end in sample.step_spans if sample.loss_mask[start]
        )
    return trained


fast = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", WRITTEN)
@fast
@given(turns=conversations(any_texts, st.one_of(any_texts, thoughts)))
def test_trained_tokens_are_the_texts_and_the_stop_token(
    name: str, turns: list[Turn], model_folder: Callable[[str], Path]
) -> None:
    renderer = loaded(model_folder(name))
    trajectory = trajectory_of(turns, renderer)
    ledger = SampleLedger()
    trained = trained_by_step(trajectory, renderer, ledger)
    assert sorted(trained) == list(range(len(turns)))
    for index, turn in enumerate(turns):
        stops = [token for token in trained[index] if token in renderer.stop_token_ids]
        assert stops == trained[index][-1:]
        text, expected = renderer.decode(trained[index][:-1]), WRITTEN[name](turn.done)
        assert unicodedata.normalize("NFC", text) == unicodedata.normalize("NFC", expected)
    assert ledger.sampled_actions == sum(turn.sampled for turn in turns)


@pytest.mark.parametrize("name", [*WRITTEN, "deepseek", "qwen3.5"])
@fast
@given(turns=conversations(any_texts, any_texts))
def test_m12_no_control_token_comes_out_of_an_observation(
    name: str, turns: list[Turn], model_folder: Callable[[str], Path]
) -> None:
    renderer = loaded(model_folder(name))
    controls = set(renderer._tokens.controls.values())

    def seen_controls(seen: Sequence[tuple[str, str]], after: Action | None) -> list[int]:
        return [one for one in renderer.observation_ids(observation(seen), after=after) if one in controls]

    for index, turn in enumerate(turns):
        after = Action.of("look") if index else None
        same_roles = [(role, "x") for role, _ in turn.seen]
        assert seen_controls(turn.seen, after) == seen_controls(same_roles, after)


@pytest.mark.parametrize("name", EXTENDING)
@fast
@given(turns=conversations(any_texts, st.one_of(any_texts, thoughts)))
def test_a_prompt_extends_the_one_before(name: str, turns: list[Turn], model_folder: Callable[[str], Path]) -> None:
    renderer = loaded(model_folder(name))
    assert not renderer.rewrites_history
    steps = trajectory_of(turns, renderer).steps
    ids: list[int] = []
    for index, step in enumerate(steps):
        segments = render_episode(steps[:index], step.observation, renderer, Full())
        prompt = [token for segment in segments for token in segment.token_ids]
        assert prompt[: len(ids)] == ids
        ids = [*prompt, *renderer.action_ids(step.action)]
    [sample] = build_samples(trajectory_of(turns, renderer), all_steps(trajectory_of(turns, renderer)), renderer)
    assert list(sample.token_ids) == ids


@pytest.fixture(scope="module")
def reference(model_folder: Callable[[str], Path]) -> Callable[[str, list[dict[str, Any]]], list[int]]:
    """The ids that transformers makes of a conversation."""
    transformers = pytest.importorskip("transformers")
    made: dict[str, Any] = {}

    def ids(name: str, messages: list[dict[str, Any]]) -> list[int]:
        if name not in made:
            made[name] = transformers.PreTrainedTokenizerFast.from_pretrained(model_folder(name))
        prompt = made[name].apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
        return list(prompt)

    return ids


NO_TOOL = ("gemma", "gemma3", "mistral", "system in last")
NO_SYSTEM = ("gemma",)


def one_user(seen: Sequence[tuple[str, str]], *, system: bool) -> tuple[tuple[str, str], ...]:
    """The last message as the user's, after a system message where one may stand."""
    first = [seen[0]] if system and seen[0][0] == "system" else []
    return (*first, ("user", seen[-1][1]))


no_space_first = plain_texts.filter(lambda text: text[:1].strip() != "" or text == "")


@pytest.mark.parametrize("name", [*EXTENDING, *FORKING])
@fast
@given(turns=conversations(plain_texts, no_space_first))
def test_m7_a_whole_conversation_has_the_ids_of_the_template(
    name: str,
    turns: list[Turn],
    model_folder: Callable[[str], Path],
    reference: Callable[[str, list[dict[str, Any]]], list[int]],
) -> None:
    renderer = loaded(model_folder(name))
    known = [replace(turn, sampled=False) for turn in turns]
    if name in NO_TOOL:
        known = [replace(turn, seen=one_user(turn.seen, system=name not in NO_SYSTEM)) for turn in known]
    messages: list[dict[str, Any]] = []
    for turn in known:
        messages += [{"role": role, "content": text} for role, text in turn.seen]
        messages.append({"role": "assistant", "content": turn.done})
    steps = trajectory_of(known, renderer).steps
    segments = render_episode(steps[:-1], steps[-1].observation, renderer, Full())
    ids = [token for segment in segments for token in segment.token_ids]
    assert ids == reference(name, messages[:-1])
