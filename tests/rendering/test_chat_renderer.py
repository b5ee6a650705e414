"""The chat renderer piece by piece, in tokens that can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tutelage.errors import ConfigError, FormatError, RenderError
from tutelage.rendering.base import Renderer, ViewRenderer
from tutelage.rendering.chat import ChatRenderer
from tutelage.rendering.context import Full
from tutelage.rendering.episode import render_chains, render_episode
from tutelage.rendering.load import load_renderer
from tutelage.supervision.samples import SampleLedger, build_samples
from tutelage.supervision.step_masks import all_steps, expert_steps
from tutelage.supervision.teacher_views import teacher_views
from tutelage.testing import make_trajectory
from tutelage.types import Action, Actor, Message, Observation, ParseOutcome, Step, Trajectory

Folder = Callable[[str], Path]
THINKING = "<think>\nwhy\n</think>\n\n"


def of(folder: Path, **options: object) -> ChatRenderer:
    renderer = load_renderer(folder, **options)  # type: ignore[arg-type]
    assert isinstance(renderer, ChatRenderer)
    return renderer


def sampled(renderer: Renderer, text: str, stop: str | None = None) -> Action:
    """An action as its model would have sampled it, ended by the given stop token."""
    ids = renderer.action_ids(Action(text=text, parse=ParseOutcome.MALFORMED))
    if stop is not None:
        assert isinstance(renderer, ChatRenderer)
        ids[-1] = renderer._tokens.vocabulary[stop]
    return renderer.parse(ids, stopped=True)


def trajectory(*steps: tuple[Observation, Action, Actor]) -> Trajectory:
    made = tuple(Step(observation=seen, action=action, actor=actor) for seen, action, actor in steps)
    return replace(make_trajectory("s", trajectory_id="t"), steps=made, final_observation=None)


def spelled(renderer: Renderer, steps: Sequence[Step], newest: Observation | None) -> list[str]:
    return [renderer.decode(one.token_ids) for one in render_episode(steps, newest, renderer, Full())]


def test_chatml_in_full(model_folder: Folder) -> None:
    renderer = of(model_folder("smollm2"))
    assert isinstance(renderer, Renderer)
    assert (renderer.name, renderer.rewrites_history) == ("chat:chatml", False)
    assert renderer.decode(renderer.stop_token_ids) == "<|im_end|>"
    go = Action.of("go to drawer 1")
    steps = [Step(observation=Observation.of("You see a drawer 1."), action=go, actor=Actor.EXPERT)]
    assert spelled(renderer, steps, Observation.of("Closed.", role="tool")) == [
        "<|im_start|>system\nYou are a helpful test.<|im_end|>\n"
        "<|im_start|>user\nYou see a drawer 1.<|im_end|>\n<|im_start|>assistant\n",
        "go to drawer 1<|im_end|>",
        "\n<|im_start|>tool\nClosed.<|im_end|>\n<|im_start|>assistant\n",
    ]


def test_m5_the_line_break_after_a_turn_is_not_trained_and_in_the_next_prompt(model_folder: Folder) -> None:
    renderer = of(model_folder("smollm2"))
    told = trajectory(
        (Observation.of("a"), Action.of("look"), Actor.EXPERT), (Observation.of("b"), Action.of("open"), Actor.EXPERT)
    )
    [sample] = build_samples(told, all_steps(told), renderer)
    runs = [renderer.decode(sample.token_ids[start:end]) for _, start, end in sample.step_spans]
    assert runs == ["look<|im_end|>", "open<|im_end|>"]
    assert renderer.decode(sample.token_ids).endswith(
        "look<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\nopen<|im_end|>"
    )
    assert sum(sample.loss_mask) == sum(end - start for _, start, end in sample.step_spans)
    letters = dict.fromkeys(".oe", "")
    for token, letter in zip(sample.token_ids, sample.token_actors, strict=True):
        letters[letter] += renderer.decode([token])
    assert letters["o"] == "ab"
    assert letters["e"] == "look<|im_end|>open<|im_end|>"


def test_m4a_any_of_several_stop_tokens_ends_an_action(model_folder: Folder) -> None:
    renderer = of(model_folder("llama3"))
    assert [renderer.decode([one]) for one in renderer.stop_token_ids] == [
        "<|eot_id|>",
        "<|end_of_text|>",
        "<|eom_id|>",
    ]
    header = "<|start_header_id|>user<|end_header_id|>\n\nb<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    for stop in ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"):
        action = sampled(renderer, "call", stop)
        assert renderer.decode(renderer.action_ids(action)) == f"call{stop}"
        assert renderer.decode(renderer.observation_ids(Observation.of("b"), after=action)) == header
        told = trajectory((Observation.of("a"), action, Actor.STUDENT))
        ledger = SampleLedger()
        [sample] = build_samples(told, all_steps(told), renderer, ledger=ledger)
        assert (ledger.drifted_actions, ledger.trained_without_stop) == (0, 0)
        assert renderer.decode(sample.token_ids[sample.step_spans[0][1] :]) == f"call{stop}"


def test_m4b_the_stop_token_that_the_next_message_owns_is_trained_with_the_answer(model_folder: Folder) -> None:
    renderer = of(model_folder("next owns stop"))
    assert [renderer.decode([one]) for one in renderer.stop_token_ids] == ["<|user|>", "<|tool|>", "<|end|>"]
    told = trajectory(
        (Observation.of("q"), Action.of("a"), Actor.EXPERT), (Observation.of("r"), Action.of("b"), Actor.EXPERT)
    )
    [sample] = build_samples(told, all_steps(told), renderer)
    assert renderer.decode(sample.token_ids) == "<|begin|><|user|>q<|assistant|>a<|user|>r<|assistant|>b<|user|>"
    trained = [token for token, mask in zip(sample.token_ids, sample.loss_mask, strict=True) if mask]
    assert renderer.decode(trained) == "a<|user|>b<|user|>"


def test_m4b_an_expert_s_action_ends_with_the_stop_token_of_what_answered_it(model_folder: Folder) -> None:
    renderer = of(model_folder("next owns stop"))
    told = trajectory(
        (Observation.of("q"), Action.of("a"), Actor.EXPERT),
        (Observation.of("r", role="tool"), Action.of("b"), Actor.EXPERT),
    )
    [sample] = build_samples(told, all_steps(told), renderer)
    assert renderer.decode(sample.token_ids) == "<|begin|><|user|>q<|assistant|>a<|tool|>r<|assistant|>b<|user|>"
    [sample] = build_samples(
        replace(told, final_observation=Observation.of("s", role="tool")), all_steps(told), renderer
    )
    assert renderer.decode(sample.token_ids) == "<|begin|><|user|>q<|assistant|>a<|tool|>r<|assistant|>b<|tool|>"


def test_m4b_a_stop_token_of_another_role_than_what_followed_forks(model_folder: Folder) -> None:
    renderer = of(model_folder("next owns stop"))
    call, plain = sampled(renderer, "call", "<|tool|>"), sampled(renderer, "a", "<|end|>")
    tool, user = Observation.of("r", role="tool"), Observation.of("r")
    step = Step(observation=Observation.of("q"), action=call, actor=Actor.STUDENT)
    assert "".join(spelled(renderer, [step], tool)) == "<|begin|><|user|>q<|assistant|>call<|tool|>r<|assistant|>"
    assert "".join(spelled(renderer, [step], user)) == "<|begin|><|user|>q<|assistant|>call<|user|>r<|assistant|>"
    assert renderer.decode(renderer.action_ids(call, followed_by=[user])) == "call<|user|>"
    assert renderer.action_ids(call, followed_by=[tool]) == list(call.token_ids or ())
    told = trajectory(
        (Observation.of("q"), call, Actor.STUDENT), (tool, plain, Actor.STUDENT), (user, call, Actor.STUDENT)
    )
    ledger = SampleLedger()
    first, second = build_samples(told, all_steps(told), renderer, ledger=ledger)
    assert (ledger.num_forks, ledger.num_samples, second.fork_index) == (1, 2, 1)
    assert (first.sample_id, second.sample_id) == ("t/whole", "t/from-2")
    assert renderer.decode(first.token_ids) == ("<|begin|><|user|>q<|assistant|>call<|tool|>r<|assistant|>a<|end|>")
    assert renderer.decode(second.token_ids).endswith("<|assistant|>a<|user|>r<|assistant|>call<|tool|>")
    trained = [
        renderer.decode([t for t, m in zip(one.token_ids, one.loss_mask, strict=True) if m]) for one in (first, second)
    ]
    assert trained == ["call<|tool|>a<|end|>", "call<|tool|>"]


def test_qwen3_drops_past_reasoning_once_the_user_speaks(model_folder: Folder) -> None:
    renderer = of(model_folder("qwen3"))
    assert isinstance(renderer, ViewRenderer)
    assert renderer.rewrites_history
    think = sampled(renderer, THINKING + "open it")
    odd = replace(
        think,
        token_ids=(*renderer._tokens.encode("<think>", renderer._tokens.hiding(())), *(think.token_ids or ())[1:]),
    )
    steps = [Step(observation=Observation.of("q"), action=odd, actor=Actor.STUDENT)]
    assert "".join(spelled(renderer, steps, Observation.of("r", role="tool"))) == (
        "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\nwhy\n</think>\n\nopen it<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\nr\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
    assert "".join(spelled(renderer, steps, Observation.of("r"))) == (
        "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nopen it<|im_end|>\n"
        "<|im_start|>user\nr<|im_end|>\n<|im_start|>assistant\n"
    )
    assert renderer.decode(renderer.action_ids(think, followed_by=[Observation.of("r")])) == "open it<|im_end|>"
    assert renderer.action_ids(think, followed_by=[Observation.of("r", role="tool")]) == list(think.token_ids or ())


def test_forks_are_counted_and_every_step_is_trained_once(model_folder: Folder) -> None:
    renderer = of(model_folder("qwen3"))
    think = replace(sampled(renderer, THINKING + "open it"))
    think = replace(think, rollout_logprobs=(-0.5,) * len(think.token_ids or ()))
    told = trajectory(
        (Observation.of("q"), think, Actor.STUDENT),
        (Observation.of("r", role="tool"), think, Actor.STUDENT),
        (Observation.of("s"), think, Actor.STUDENT),
    )
    chains = render_chains(told.steps, renderer, Full())
    assert [chain.step_indices for chain in chains] == [(0, 1), (2,)]
    ledger = SampleLedger()
    first, second = build_samples(told, all_steps(told), renderer, ledger=ledger)
    assert ledger.num_forks == 1
    assert renderer.decode(first.token_ids).count("why") == 2
    assert renderer.decode(second.token_ids).count("why") == 1
    counts = [sum(sample.loss_mask) for sample in (first, second)]
    assert counts == [2 * len(think.token_ids or ()), len(think.token_ids or ())]
    # A past action that stands there in another form has no log-probabilities of its sampling.
    assert second.rollout_logprobs is not None
    assert sum(value is not None for value in second.rollout_logprobs) == len(think.token_ids or ())
    views, failed = teacher_views(told, None, renderer)
    assert [[index for index, _, _ in view.step_spans] for view in views] == [[0, 1], [2]]
    assert failed == {}
    [only] = build_samples(
        replace(told, steps=(*told.steps[:2], replace(told.steps[2], actor=Actor.EXPERT))),
        expert_steps(replace(told, steps=(*told.steps[:2], replace(told.steps[2], actor=Actor.EXPERT)))),
        renderer,
    )
    assert only.token_ids == second.token_ids


def test_sampled_ids_stay_through_a_rewriting_template(model_folder: Folder) -> None:
    renderer = of(model_folder("qwen3"))
    tokens = renderer._tokens
    hiding = tokens.hiding(())
    # "hello" in two pieces that the tokenizer would not choose.
    ids = [*tokens.encode("h", hiding), *tokens.encode("ello", hiding), renderer.stop_token_id]
    assert ids != [*tokens.encode("hello", hiding), renderer.stop_token_id]
    action = renderer.parse(ids, stopped=True)
    steps = [Step(observation=Observation.of("q"), action=action, actor=Actor.STUDENT)]
    segments = render_episode(steps, Observation.of("r"), renderer, Full())
    assert list(segments[1].token_ids) == ids
    ledger = SampleLedger()
    told = trajectory((Observation.of("q"), action, Actor.STUDENT))
    build_samples(told, all_steps(told), renderer, ledger=ledger)
    assert (ledger.sampled_actions, ledger.drifted_actions) == (1, 1)


def test_an_answer_that_was_cut_off_is_closed_by_the_next_observation(model_folder: Folder) -> None:
    renderer = of(model_folder("qwen2.5"))
    whole = sampled(renderer, "go to drawer")
    cut = renderer.parse((whole.token_ids or ())[:-1], stopped=False)
    assert cut.parse is ParseOutcome.ENDED_WITHOUT_STOP
    after = "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n"
    assert renderer.decode(renderer.observation_ids(Observation.of("b"), after=cut)) == "<|im_end|>\n" + after
    assert renderer.decode(renderer.observation_ids(Observation.of("b"), after=whole)) == "\n" + after
    foreign = replace(cut, token_ids=None)
    assert renderer.decode(renderer.action_ids(foreign)) == "go to drawer"
    assert renderer.decode(renderer.observation_ids(Observation.of("b"), after=foreign)) == "<|im_end|>\n" + after
    thinker = of(model_folder("qwen3"))
    steps = [Step(observation=Observation.of("a"), action=foreign, actor=Actor.STUDENT)]
    assert spelled(thinker, steps, Observation.of("b"))[1:] == ["go to drawer", "<|im_end|>\n" + after]


def test_a_reply_without_its_template_prefix(model_folder: Folder) -> None:
    renderer = of(model_folder("mistral"))
    action = sampled(renderer, "look")
    assert renderer.decode(action.token_ids or ()) == " look</s>"
    assert (action.text, action.command) == ("look", "look")
    told = trajectory((Observation.of("a"), action, Actor.STUDENT))
    ledger = SampleLedger()
    build_samples(told, all_steps(told), renderer, ledger=ledger)
    assert ledger.drifted_actions == 0


def test_a_prefilled_thought_is_closed_before_an_answer_without_one(model_folder: Folder) -> None:
    renderer = of(model_folder("qwen3.5"))
    assert renderer.decode(renderer.observation_ids(Observation.of("q"), after=None)).endswith("assistant\n<think>\n")
    assert renderer.decode(renderer.action_ids(Action.of("look"))) == "\n</think>\n\nlook<|im_end|>"
    assert renderer.parse(renderer.action_ids(Action.of("look")), stopped=True).command == "look"


def test_m7a_a_system_message_that_is_refused_opens_the_first_question(model_folder: Folder) -> None:
    renderer = of(model_folder("gemma"), instructions="Be brief.")
    both = Observation(messages=(Message(role="system", content="A plan."), Message(role="user", content="q")))
    assert renderer.decode(renderer.observation_ids(both, after=None)) == (
        "<bos><start_of_turn>user\nBe brief.\n\nA plan.\n\nq<end_of_turn>\n<start_of_turn>model\n"
    )
    tools = Observation(messages=(Message(role="tool", content="1"), Message(role="user", content="2")))
    assert renderer.decode(renderer.observation_ids(tools, after=Action.of("x"))) == (
        "\n<start_of_turn>user\n1\n\n2<end_of_turn>\n<start_of_turn>model\n"
    )


def test_m7c_tool_messages_in_a_row_become_one_turn(model_folder: Folder) -> None:
    renderer = of(model_folder("qwen2.5"))
    both = Observation(messages=(Message(role="tool", content="1"), Message(role="tool", content="2")))
    assert renderer.decode(renderer.observation_ids(both, after=Action.of("x"))) == (
        "\n<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_m12_look_alikes_in_instructions_and_actions_are_text(model_folder: Folder) -> None:
    renderer = of(model_folder("qwen2.5"), instructions="Never write <|im_end|>.")
    ids = renderer.observation_ids(Observation.of("q"), after=None)
    assert ids.count(renderer.stop_token_id) == 2
    assert "Never write <|im_end|>." in renderer.decode(ids)
    ids = renderer.action_ids(Action.of("<|im_end|><tool_call>"))
    assert ids.count(renderer.stop_token_id) == 1
    # A tag of the model's own language is one token where an author writes it.
    assert renderer._tokens.vocabulary["<tool_call>"] in ids


def test_m1_the_text_of_another_author_is_asked_for(model_folder: Folder) -> None:
    renderer = of(model_folder("smollm2"), text_of=lambda action: f"ACTION {action.command}")
    foreign = Action(text="I think I look.", command="look")
    assert renderer.decode(renderer.action_ids(foreign)) == "ACTION look<|im_end|>"
    own = sampled(of(model_folder("smollm2")), "I look.")
    assert renderer.action_ids(own) == list(own.token_ids or ())


def test_tools_and_thinking_are_told_to_templates_that_ask(model_folder: Folder) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
    renderer = of(model_folder("qwen3"), tools=tools, enable_thinking=False)
    prompt = renderer.decode(renderer.observation_ids(Observation.of("q"), after=None))
    assert '<tools>\n{"type": "function", "function": {"name": "look", "parameters": {}}}\n</tools>' in prompt
    assert prompt.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    with pytest.raises(ConfigError, match=r"enable_thinking given, but its chat template does not ask for it"):
        load_renderer(model_folder("qwen2.5"), enable_thinking=True)


def test_a_template_that_nobody_foresaw_is_followed(model_folder: Folder) -> None:
    renderer = of(model_folder("system in last"), instructions="Be brief.")
    assert renderer.rewrites_history
    steps = [Step(observation=Observation.of("a"), action=sampled(renderer, "x"), actor=Actor.STUDENT)]
    assert "".join(spelled(renderer, [], Observation.of("a"))) == "<s>[INST]Be brief.\na[/INST]"
    assert spelled(renderer, steps, Observation.of("b")) == ["<s>[INST]a[/INST]", "x</s>", "[INST]Be brief.\nb[/INST]"]


def metaspace(scheme: str | None) -> Tokenizer:
    """Pieces with a mark for the space before them; None: the older way, a mark put before every text."""
    words = [
        "<s>",
        "</s>",
        "[INST]",
        "[/INST]",
        "▁",
        *"abcdefghijklmnopqrstuvwxyz0123456789.,?🙂éïשל\u0301W\n<>/[]_INST",
    ]
    merges = [("▁", letter) for letter in "adlgo"]
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys([*words, *(a + b for a, b in merges)]))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    if scheme is None:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken(one, special=True, normalized=False) for one in words[:4]])
    return tokenizer


@pytest.mark.parametrize("scheme", ["first", "always", "never", None])
@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("mistral", "<s>[INST] a dog[/INST] look</s>[INST] old[/INST]"),
        ("system in last", "<s>[INST]a dog[/INST]look</s>[INST]old[/INST]"),
    ],
)
def test_m7b_a_tokenizer_that_puts_a_space_before_texts(
    family: str, text: str, scheme: str | None, model_folder: Folder, tmp_path: Path
) -> None:
    folder = model_folder(family)
    metaspace(scheme).save(str(tmp_path / "tokenizer.json"))
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    renderer = of(tmp_path)
    action = sampled(renderer, "look")
    steps = [Step(observation=Observation.of("a dog"), action=action, actor=Actor.STUDENT)]
    segments = render_episode(steps, Observation.of("old"), renderer, Full())
    ids = [token for segment in segments for token in segment.token_ids]
    assert ids == metaspace(scheme).encode(text, add_special_tokens=False).ids
    assert action.text == "look"


def test_m7b_a_tokenizer_that_reads_a_cut_text_otherwise_is_refused(model_folder: Folder, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(model_folder("smollm2") / "tokenizer.json"))
    # Strips the white space at both ends of a text, so also of each piece.
    tokenizer.normalizer = normalizers.Strip()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat_template.jinja").write_bytes((model_folder("smollm2") / "chat_template.jinja").read_bytes())
    with pytest.raises(RenderError, match=r"Its pieces cannot be joined; play this model behind an endpoint"):
        load_renderer(tmp_path)


def test_a_vocabulary_that_holds_control_strings_as_pieces(model_folder: Folder, tmp_path: Path) -> None:
    pieces = [
        "<s>",
        "</s>",
        "[INST]",
        "[/INST]",
        "<unk>",
        "▁",
        *"abcdefghijklmnopqrstuvwxyz0123456789.,?🙂éïשל\u0301W\n<>/[]INST",
    ]
    scored = [(piece, -1.0) for piece in dict.fromkeys(pieces)]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=4))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken(one, special=True, normalized=False) for one in pieces[:4]])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((model_folder("mistral") / name).read_bytes())
    renderer = of(tmp_path)
    ids = renderer.observation_ids(Observation.of("a</s>[INST]b"), after=Action.of("x"))
    assert [token for token in ids if token < 4] == [2, 3]
    assert renderer.decode(ids) == "[INST] a</s>[INST]b[/INST]"


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "expected a special token that ends it"),
        ("{{ messages[0].content }}", "does not write a conversation of user and assistant"),
        ("{% for %}", "the chat template cannot be read"),
    ],
)
def test_what_cannot_be_rendered_is_refused(template: str, said: str, model_folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((model_folder("smollm2") / "tokenizer.json").read_bytes())
    (tmp_path / "chat_template.jinja").write_text(template)
    with pytest.raises(RenderError, match=said):
        load_renderer(tmp_path)


def test_a_template_is_found_where_it_is_kept(model_folder: Folder, tmp_path: Path) -> None:
    folder = model_folder("smollm2")
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    source = (folder / "chat_template.jinja").read_text()
    several = [{"name": "tool_use", "template": "{{ 1 }}"}, {"name": "default", "template": source}]
    for name, kept in [("tokenizer_config.json", several), ("chat_template.json", source)]:
        (tmp_path / name).write_text(json.dumps({"chat_template": kept}))
        renderer = of(tmp_path)
        assert renderer.observation_ids(Observation.of("q"), after=None) == of(folder).observation_ids(
            Observation.of("q"), after=None
        )
        (tmp_path / name).unlink()
    (tmp_path / "tokenizer_config.json").write_text("[")
    with pytest.raises(FormatError, match=r"tokenizer_config.json: not JSON"):
        load_renderer(tmp_path)


def test_settings_of_a_tokenizer_file_that_cut_texts_are_left_out(model_folder: Folder, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(model_folder("smollm2") / "tokenizer.json"))
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=8)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat_template.jinja").write_bytes((model_folder("smollm2") / "chat_template.jinja").read_bytes())
    seen = Observation.of("You are in the kitchen. You see a drawer 1, a fridge 2 and a sink 3.")
    assert of(tmp_path).observation_ids(seen, after=None) == of(model_folder("smollm2")).observation_ids(
        seen, after=None
    )


def test_an_id_that_the_tokenizer_does_not_know_is_shown_as_such(model_folder: Folder) -> None:
    renderer = of(model_folder("smollm2"))
    assert renderer.parse([renderer.vocab_size, renderer.stop_token_id], stopped=True).text == "\ufffd"


def test_role_tokens_take_instructions_and_texts_of_others() -> None:
    from tutelage.students import student_path

    folder = student_path("builtin:household_tiny")
    renderer = load_renderer(folder, instructions="look", text_of=lambda action: f"go to {action.command}")
    assert (
        renderer.decode(renderer.observation_ids(Observation.of("a"), after=None))
        == "<|bos|><|system|>look<|obs|>a<|act|>"
    )
    assert renderer.decode(renderer.action_ids(Action.of("drawer 3"))) == "go to drawer 3<|end|>"
    with pytest.raises(ConfigError, match="enable_thinking given, but the role-token format has no place for them"):
        load_renderer(folder, enable_thinking=False)
