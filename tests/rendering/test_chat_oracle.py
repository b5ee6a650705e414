"""Against the package `renderers`, which has each family written by hand: the same ids, and forks where it gives no bridge."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tutelage.errors import RenderError
from tutelage.rendering.chat import ChatRenderer
from tutelage.rendering.chat_template import ChatTemplate
from tutelage.rendering.chat_tokens import ChatTokens
from tutelage.rendering.context import Full
from tutelage.rendering.episode import render_chains, render_episode
from tutelage.rendering.load import load_renderer
from tutelage.types import Action, Actor, Observation, ParseOutcome, Step

CASES = [
    ("qwen3", "renderers.qwen3", "Qwen3Renderer", "<think>\nwhy\n</think>\n\nopen it", "<|im_end|>"),
    ("glm", "renderers.glm45", "GLM45Renderer", "\n<think>why</think>\nopen it", "<|observation|>"),
]
SPECIAL = re.compile(
    r"<[|｜][^<>{}'\"\s]+?[|｜]>|<(?:bos|eos|start_of_turn|end_of_turn|turn\|)>|<\|turn>|\[gMASK\]|<sop>"
)
TAG = re.compile(r"</?(?:think|tool_call|tool_response|arg_key|arg_value)>")


@pytest.mark.parametrize(("family", "module", "name", "text", "stop"), CASES)
def test_two_turns_as_renderers_writes_them(
    family: str, module: str, name: str, text: str, stop: str, model_folder: Callable[[str], Path]
) -> None:
    pytest.importorskip("renderers")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(model_folder(family))
    theirs: Any = getattr(importlib.import_module(module), name)(tokenizer)
    ours = load_renderer(model_folder(family))
    assert isinstance(ours, ChatRenderer)
    assert set(ours.stop_token_ids) <= set(theirs.get_stop_token_ids())

    question = {"role": "user", "content": "q"}
    prompt = ours.observation_ids(Observation.of("q"), after=None)
    assert prompt == theirs.render_ids([question], add_generation_prompt=True)
    made = ours.action_ids(Action(text=text, parse=ParseOutcome.MALFORMED))
    action = ours.parse([*made[:-1], ours._tokens.vocabulary[stop]], stopped=True)
    answer = {"role": "assistant", "reasoning_content": "why", "content": "open it"}
    for role in ("tool", "user"):
        steps = [
            Step(observation=Observation.of("q"), action=action, actor=Actor.STUDENT),
            Step(observation=Observation.of("r", role=role), action=action, actor=Actor.STUDENT),
        ]
        segments = render_episode(steps[:1], steps[1].observation, ours, Full())
        ids = [token for segment in segments for token in segment.token_ids]
        told = [question, answer, {"role": role, "content": "r"}]
        assert ids == theirs.render_ids(told, add_generation_prompt=True)
        bridge = theirs.bridge_to_next_turn(prompt, list(action.token_ids or ()), told[2:])
        forks = len(render_chains(steps, ours, Full())) - 1
        assert (bridge is None, forks) == ((False, 0) if role == "tool" else (True, 1))
        assert bridge is None or ids == bridge.token_ids


def test_templates_of_trl_are_rendered_or_refused(byte_level: Callable[..., Any]) -> None:
    found = importlib.util.find_spec("trl")
    if found is None or found.origin is None:
        pytest.skip("the templates of TRL are not here; the extra 'dev' brings them")
    refused = {}
    folder = Path(found.origin).parent / "chat_templates"
    for path in (one for one in sorted(folder.glob("*.jinja")) if not one.stem.endswith("_training")):
        source = path.read_text(encoding="utf-8")
        specials = ["<s>", "</s>", *dict.fromkeys(SPECIAL.findall(source))]
        tokens = ChatTokens(
            byte_level(specials, tuple(dict.fromkeys(TAG.findall(source)))).to_str(), source, where="trl"
        )
        variables = {"tools": None, "bos_token": "<s>", "eos_token": "</s>"}
        try:
            ChatRenderer(ChatTemplate(source, variables, where=path.stem), tokens)
        except RenderError as error:
            refused[path.stem] = str(error)
    # Templates for images want lists of parts and write no plain text.
    assert refused.keys() <= {"idefics3", "llava_next", "smolvlm"}
    assert all("does not write a conversation of user and assistant" in error for error in refused.values())
