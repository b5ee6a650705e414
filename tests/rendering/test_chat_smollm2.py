"""The renderer over the real tokenizer and template of SmolLM2."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tutelage.rendering.chat import ChatRenderer
from tutelage.rendering.context import Full
from tutelage.rendering.episode import render_episode
from tutelage.rendering.load import load_renderer
from tutelage.supervision.samples import build_samples
from tutelage.supervision.step_masks import expert_steps
from tutelage.testing import make_trajectory
from tutelage.types import Action


@pytest.fixture(scope="module")
def renderer(smollm2: Path) -> ChatRenderer:
    loaded = load_renderer(smollm2, instructions="Reply with one command.")
    assert isinstance(loaded, ChatRenderer)
    return loaded


def test_it_is_chatml_and_extends(renderer: ChatRenderer) -> None:
    assert (renderer.name, renderer.rewrites_history, renderer.stop_token_ids) == ("chat:chatml", False, (2,))
    assert (renderer.pad_token_id, renderer.vocab_size) == (2, 49152)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.lists(st.sampled_from(["go ", "<|im_end|>", "<|im_start|>user\n", "🙂", "e\u0301", "\n", "12", "שלום"])).map("".join), min_size=1, max_size=4))  # fmt: skip
def test_trained_tokens_are_the_texts_and_the_stop_token(texts: list[str], renderer: ChatRenderer) -> None:
    trajectory = make_trajectory("e" * len(texts), [Action.of(text) for text in texts], texts)
    [sample] = build_samples(trajectory, expert_steps(trajectory), renderer)
    trained = [token for token, mask in zip(sample.token_ids, sample.loss_mask, strict=True) if mask]
    assert renderer.decode(trained) == "".join(f"{text}<|im_end|>" for text in texts)
    assert trained.count(2) == len(texts)
    assert sample.token_ids.count(2) == 1 + 2 * len(texts)
    assert sample.token_ids.count(1) == 1 + 2 * len(texts)


def test_a_whole_conversation_has_the_ids_that_transformers_gives(renderer: ChatRenderer, smollm2: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(smollm2)
    texts = ["You are in a kitchen.\n\nYou see a fridge 12. 🙂", " Nothing\thappens. ", "You open the fridge."]
    commands = ["go to fridge 12", "open fridge 12"]
    messages = [{"role": "system", "content": "Reply with one command."}, {"role": "user", "content": texts[0]}]
    for command, text in zip(commands, texts[1:], strict=True):
        messages += [{"role": "assistant", "content": command}, {"role": "user", "content": text}]
    trajectory = make_trajectory("eee", [*map(Action.of, commands), Action.of("x")], texts)
    segments = render_episode(trajectory.steps[:2], trajectory.steps[2].observation, renderer, Full())
    ids = [token for segment in segments for token in segment.token_ids]
    assert ids == list(
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    )
