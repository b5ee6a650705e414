"""The in-process policy: cached play equals a full forward, whatever joins, leaves, or was done by others."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)
from transformers.utils import logging as transformers_logging

from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError, ContextOverflow, PolicyError
from tutelage.policies import local
from tutelage.policies.base import PartialTrajectory, Policy
from tutelage.policies.kv_cache import SlotTable
from tutelage.policies.local import LocalPolicy, draw
from tutelage.rendering.context import Full, LastObservations, LastSteps
from tutelage.students import student_path
from tutelage.tasks.registry import load_tasks
from tutelage.types import Action, Actor, Observation, ParseOutcome, Step, Task

BEGIN, ACT, END, PAD = 32, 33, 34, 35
TASK = Task(task_id="t-1", env="toy", goal="say something")


class LetterRenderer:
    """Ids 0..31 are characters; begin, generation prompt, end and padding follow."""

    name = "letters"
    stop_token_id = END
    stop_token_ids = (END,)
    rewrites_history = False
    pad_token_id = PAD
    vocab_size = 36

    def observation_ids(self, observation: Observation, *, after: Action | None) -> list[int]:
        return [BEGIN] * (after is None) + [ord(letter) % 32 for letter in observation.text] + [ACT]

    def action_ids(self, action: Action, *, followed_by: Sequence[Observation] = ()) -> list[int]:
        if action.token_ids is not None:
            return list(action.token_ids)
        return [ord(letter) % 32 for letter in action.text] + [END]

    def parse(self, token_ids: Sequence[int], *, stopped: bool) -> Action:
        text = self.decode(token_ids[:-1] if stopped else token_ids)
        outcome = ParseOutcome.CLEAN if stopped else ParseOutcome.ENDED_WITHOUT_STOP
        return Action(text=text, command=text, parse=outcome, token_ids=tuple(token_ids))

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(96 + token_id) if token_id < 32 else f"<{token_id}>" for token_id in token_ids)


def save_model(folder: Path, model: torch.nn.Module, stop_bias: float = 0.0) -> Path:
    """Save a random model whose stop token is about exp(stop_bias) times as probable as another one."""
    transformers_logging.disable_progress_bar()
    if stop_bias:
        # A tied head has no bias: the common part of all hidden states serves as one.
        with torch.no_grad():
            hidden = model.model(torch.arange(36)[None]).last_hidden_state[0]
            common = hidden.mean(0)
            model.lm_head.weight[END] += stop_bias * common / common.dot(common)
    model.save_pretrained(folder)
    return folder


def llama(**options: object) -> LlamaForCausalLM:
    torch.manual_seed(5)
    settings = {
        "vocab_size": 36, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
        "initializer_range": 0.2, "tie_word_embeddings": False, "bos_token_id": BEGIN, "eos_token_id": END,
        "pad_token_id": PAD,
    }  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**(settings | options)))


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("models") / "letters", llama(), stop_bias=3.0)


def policy(folder: Path, **options: object) -> LocalPolicy:
    return LocalPolicy(folder, renderer=LetterRenderer(), max_action_tokens=6, max_context=256, **options)


def start(number: int, text: str = "open the door") -> PartialTrajectory:
    return PartialTrajectory(
        trajectory_id=f"tr-{number}", task=TASK, steps=(), observation=Observation.of(text), seed=100 + number
    )


def after(so_far: PartialTrajectory, action: Action, text: str, actor: Actor = Actor.STUDENT) -> PartialTrajectory:
    step = Step(observation=so_far.observation, action=action, actor=actor)
    return dataclasses.replace(so_far, steps=(*so_far.steps, step), observation=Observation.of(text))


def expected_action(student: LocalPolicy, reference: torch.nn.Module, so_far: PartialTrajectory) -> Action:
    """The same sampling, one token at a time, each from a full forward of everything before it."""
    token_ids = student.context_ids(so_far)
    uniforms = student._uniforms(so_far)
    sampled: list[int] = []
    logprobs: list[float] = []
    while len(sampled) < student.max_action_tokens and END not in sampled:
        with torch.inference_mode():
            logits = reference(input_ids=torch.tensor([token_ids + sampled]), use_cache=False).logits[0, -1].double()
        probabilities = (logits / (student.temperature or 1.0)).softmax(-1).numpy()
        if student.temperature == 0.0:
            sampled.append(int(probabilities.argmax()))
        else:
            sampled.append(int(np.searchsorted(np.cumsum(probabilities), uniforms[len(sampled)], side="right")))
        logprobs.append(math.log(probabilities[sampled[-1]]))
    action = LetterRenderer().parse(sampled, stopped=sampled[-1] == END)
    return dataclasses.replace(action, rollout_logprobs=tuple(logprobs))


def assert_same(got: Action, expected: Action) -> None:
    assert got.rollout_logprobs == pytest.approx(expected.rollout_logprobs, abs=1e-5)
    assert got == dataclasses.replace(expected, rollout_logprobs=got.rollout_logprobs)


def play_ragged(student: LocalPolicy, reference: torch.nn.Module, turns: int = 6) -> list[Action]:
    """Six episodes that begin at turns 0, 0, 0, 1, 2, 2, end at turns 2, 4, never, ..., sometimes acted by an expert."""
    live: dict[int, PartialTrajectory] = {}
    actions: list[Action] = []
    begins, ends = (0, 0, 0, 1, 2, 2), (2, 4, 9, 9, 4, 9)
    for turn in range(turns):
        for number in range(6):
            if begins[number] == turn:
                live[number] = start(number, "abcdefghij" * (number + 1))
            if ends[number] == turn:
                student.release(live.pop(number).trajectory_id)
        acting = [number for number in live if (turn + number) % 4 != 3]
        got = dict(zip(acting, student.act_batch([live[number] for number in acting]), strict=True))
        for number in acting:
            assert_same(got[number], expected_action(student, reference, live[number]))
        actions += got.values()
        for number in live:
            action = got.get(number, Action.of("take the key"))
            actor = Actor.STUDENT if number in got else Actor.EXPERT
            live[number] = after(live[number], action, "you see" + " a door" * ((turn * number) % 5), actor)
    return actions


@pytest.mark.parametrize("rule", [Full(), LastObservations(n=2), LastSteps(n=1)], ids=["full", "last", "steps"])
@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_ragged_episodes_equal_a_full_forward(model_dir: Path, rule: object, temperature: float) -> None:
    student = policy(model_dir, context_rule=rule, temperature=temperature)
    reference = AutoModelForCausalLM.from_pretrained(model_dir).eval()
    actions = play_ragged(student, reference)
    assert len(actions) == 17
    if temperature > 0:
        # Rows did leave the batch at different tokens, by the stop token and by the limit.
        assert {len(action.token_ids or ()) for action in actions} >= {1, 2, 3, 6}


def test_float32_logprobs_equal_a_full_forward(model_dir: Path) -> None:
    student = policy(model_dir, temperature=1.0)
    so_far = start(1)
    for turn in range(4):
        action = student.act(so_far)
        so_far = after(so_far, action, "nothing happens" * turn)
    reference = AutoModelForCausalLM.from_pretrained(model_dir).eval()
    # One forward of the whole episode scores every sampled token as the policy recorded it.
    context = student.context_ids(so_far)
    with torch.inference_mode():
        logprobs = reference(input_ids=torch.tensor([context])).logits[0].log_softmax(-1)
    place = 0
    for index, step in enumerate(so_far.steps):
        place += len(
            LetterRenderer().observation_ids(
                step.observation, after=None if index == 0 else so_far.steps[index - 1].action
            )
        )
        ids, recorded = step.action.token_ids or (), step.action.rollout_logprobs or ()
        assert [float(logprobs[place + k - 1, ids[k]]) for k in range(len(ids))] == pytest.approx(recorded, abs=1e-5)
        place += len(ids)


def test_one_at_a_time_equals_all_together(model_dir: Path) -> None:
    together, alone = policy(model_dir), policy(model_dir)
    live = [start(number, "look" * (number + 1)) for number in range(7)]
    for turn in range(3):
        actions = together.act_batch(live)
        for so_far, action in zip(reversed(live), reversed(actions), strict=True):
            assert_same(alone.act(so_far), action)
        live = [after(one, action, f"turn {turn}") for one, action in zip(live, actions, strict=True)]


def test_small_passes_and_more_episodes_than_slots_change_nothing(
    model_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rows a pass, three slots for seven episodes: they push each other out and are fed again."""
    roomy = policy(model_dir)
    cramped = policy(model_dir)
    cramped.table = SlotTable(max_slots=3, max_length=256)
    live = [start(number, "look" * (number + 1)) for number in range(7)]
    for turn in range(3):
        actions = roomy.act_batch(live)
        with monkeypatch.context() as patch:
            patch.setattr(local, "TOKENS_PER_PASS", 30)
            patch.setattr(local, "MAX_LIVE", 3)
            for got, expected in zip(cramped.act_batch(live), actions, strict=True):
                assert_same(got, expected)
        live = [after(one, action, f"turn {turn}") for one, action in zip(live, actions, strict=True)]
    assert (cramped.table.num_slots, roomy.table.num_slots) == (3, 7)
    assert cramped.num_fed_tokens > roomy.num_fed_tokens


def test_half_precision_stays_close(model_dir: Path) -> None:
    half, single = policy(model_dir, dtype="bfloat16", temperature=0.0), policy(model_dir, temperature=0.0)
    assert half.model.dtype == torch.bfloat16
    got, expected = half.act(start(0)), single.act(start(0))
    assert got.rollout_logprobs is not None
    assert expected.rollout_logprobs is not None
    assert got.rollout_logprobs[0] == pytest.approx(expected.rollout_logprobs[0], abs=0.05)


def test_m4_the_builtin_student_stops_by_itself() -> None:
    """The folder's own renderer, greedy, on the first observations of six real tasks."""
    student = LocalPolicy(student_path("builtin:household_tiny"), temperature=0.0)
    live = [
        PartialTrajectory(trajectory_id=task.task_id, task=task, steps=(), observation=make_env(task).reset(0), seed=0)
        for task in load_tasks("household", "train", start=0, count=6)
    ]
    actions = student.act_batch(live)
    assert [action.parse for action in actions] == [ParseOutcome.CLEAN] * 6
    assert [(action.token_ids or ())[-1] for action in actions] == [student.renderer.stop_token_id] * 6
    assert all(action.command == action.text and "<|" not in action.text for action in actions)


def test_seeds_fix_the_samples(model_dir: Path) -> None:
    live = [start(number) for number in range(8)]
    first = [action.token_ids for action in policy(model_dir).act_batch(live)]
    assert len(set(first)) > 1, "different trajectory seeds sample differently"
    assert [action.token_ids for action in policy(model_dir).act_batch(live)] == first
    assert [action.token_ids for action in policy(model_dir, seed=1).act_batch(live)] != first


def test_greedy_equals_transformers_generate(model_dir: Path) -> None:
    student = policy(model_dir, temperature=0.0)
    reference = AutoModelForCausalLM.from_pretrained(model_dir).eval()
    greedy = GenerationConfig(
        do_sample=False, max_new_tokens=6, eos_token_id=END, pad_token_id=PAD, bos_token_id=BEGIN
    )  # fmt: skip
    live = [start(number, "go to the drawer"[: 3 * number + 1]) for number in range(5)]
    for turn in range(3):
        actions = student.act_batch(live)
        for so_far, action in zip(live, actions, strict=True):
            context = torch.tensor([student.context_ids(so_far)])
            output = reference.generate(context, attention_mask=torch.ones_like(context), generation_config=greedy)
            assert action.token_ids == tuple(output[0, context.shape[1] :].tolist())
        live = [after(one, action, f"turn {turn}") for one, action in zip(live, actions, strict=True)]


def test_only_new_tokens_are_fed(model_dir: Path) -> None:
    student = policy(model_dir)
    so_far = start(0, "abc")
    action = student.act(so_far)
    sampled = len(action.token_ids or ())
    # begin a b c act, then each sampled token but the last, whose successor nobody asked for
    assert student.num_fed_tokens == 5 + sampled - 1
    held = student.table.held("tr-0")
    assert held == (BEGIN, 1, 2, 3, ACT, *(action.token_ids or ())[:-1])
    so_far = after(so_far, action, "de")
    second = student.act(so_far)
    # the last sampled token, d e act, then the new ones
    assert student.num_fed_tokens == 5 + sampled - 1 + 1 + 3 + len(second.token_ids or ()) - 1


def test_a_shorter_context_is_cut_back_to_the_shared_prefix(model_dir: Path) -> None:
    student = policy(model_dir, context_rule=LastObservations(n=1))
    so_far = start(0, "abc")
    for text in ("defghij", "k"):
        so_far = after(so_far, Action.of("x"), text)
        student.act(so_far)
    # begin a b c act x end stay; "defghij" has become a stub.
    stub = [ord(letter) % 32 for letter in "[observation elided: 1 lines]"]
    rest = [*stub, ACT, 24, END, ord("k") % 32, ACT]
    assert student.context_ids(so_far) == [BEGIN, 1, 2, 3, ACT, 24, END, *rest]
    before = student.num_fed_tokens
    action = student.act(so_far)
    assert student.num_fed_tokens == before + 1 + len(action.token_ids or ()) - 1, "asked again: one token is fed"
    reference = AutoModelForCausalLM.from_pretrained(model_dir).eval()
    assert_same(action, expected_action(student, reference, so_far))


def test_released_slots_are_reused_and_memory_stays(model_dir: Path) -> None:
    student = policy(model_dir)
    for round_index in range(5):
        live = [start(10 * round_index + number, "look around") for number in range(4)]
        student.act_batch(live)
        if round_index == 0:
            bytes_of_four = student.table.num_bytes
        for one in live:
            student.release(one.trajectory_id)
    assert (len(student.table), student.table.num_slots) == (0, 4)
    # 4 slots of 64 positions, keys and values, 2 layers, 2 key heads of 8, float32
    assert student.table.num_bytes == bytes_of_four == 4 * 64 * 2 * 2 * 2 * 8 * 4


def test_m4_the_stop_token_is_sampled_once_and_rendered_once(model_dir: Path) -> None:
    student = policy(model_dir)
    live = [start(number) for number in range(12)]
    actions = student.act_batch(live)
    outcomes = {action.parse for action in actions}
    assert outcomes == {ParseOutcome.CLEAN, ParseOutcome.ENDED_WITHOUT_STOP}
    for so_far, action in zip(live, actions, strict=True):
        ids = action.token_ids or ()
        assert ids.count(END) == (action.parse is ParseOutcome.CLEAN)
        assert END not in ids[:-1]
        assert len(action.rollout_logprobs or ()) == len(ids)
        # The next context holds exactly what was sampled, stop token included once, and then the observation.
        context = student.context_ids(after(so_far, action, "ok"))
        assert context == [*student.context_ids(so_far), *ids, 15, 11, ACT]


def test_m4a_any_stop_token_of_the_renderer_ends_an_action(model_dir: Path) -> None:
    class TwoStops(LetterRenderer):
        stop_token_ids = (END, 5)

    student = LocalPolicy(model_dir, renderer=TwoStops(), max_action_tokens=6, max_context=256)
    ids = [student.act(start(number)).token_ids or () for number in range(30)]
    assert {one[-1] for one in ids if len(one) < 6} == {END, 5}
    assert all({END, 5}.isdisjoint(one[:-1]) for one in ids)


def test_t1_sampled_ids_are_kept_whatever_their_text_encodes_to(model_dir: Path) -> None:
    class CaseRenderer(LetterRenderer):
        """Ids 1 and 2 both read as a, so an encoding of the text would give other ids."""

        def decode(self, token_ids: Sequence[int]) -> str:
            return super().decode([1 if token_id == 2 else token_id for token_id in token_ids])

    student = LocalPolicy(model_dir, renderer=CaseRenderer(), max_action_tokens=6)
    live = [start(number, "b" * number) for number in range(40)]
    actions = student.act_batch(live)
    with_two = [(one, action) for one, action in zip(live, actions, strict=True) if 2 in (action.token_ids or ())]
    assert with_two, "the samples hold no id 2; choose other seeds"
    for so_far, action in with_two:
        assert "b" not in action.text
        ids = list(action.token_ids or ())
        assert student.context_ids(after(so_far, action, ""))[-len(ids) - 1 : -1] == ids


def test_draw_by_hand() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.2]] * 4).log()
    uniforms = np.array([0.0, 0.49, 0.6, 0.999])
    token_ids, logprobs = draw(logits, uniforms, 1.0)
    assert token_ids == [0, 0, 1, 2]
    assert logprobs == pytest.approx([math.log(0.5), math.log(0.5), math.log(0.3), math.log(0.2)])
    # At temperature 1/2 the probabilities are squared: 25, 9, 4 of 38.
    token_ids, logprobs = draw(logits, np.array([0.64, 0.66, 0.9, 0.5]), 0.5)
    assert token_ids == [0, 1, 2, 0]
    assert logprobs == pytest.approx([math.log(share / 38) for share in (25, 9, 4, 25)])
    # Greedy: the most probable, with its probability at temperature 1.
    assert draw(logits[:1], None, 0.0) == ([0], [pytest.approx(math.log(0.5))])


def test_draw_never_takes_a_token_of_probability_zero() -> None:
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf]] * 2)
    assert draw(logits, np.array([0.0, 1.0 - 2.0**-53]), 1.0) == ([1, 1], [0.0, 0.0])


def test_a_full_context_names_every_episode_and_computes_nothing(model_dir: Path) -> None:
    student = LocalPolicy(model_dir, renderer=LetterRenderer(), max_action_tokens=6, max_context=20)
    fits, long, longer = start(0, "a" * 12), start(1, "a" * 13), start(2, "a" * 30)
    with pytest.raises(ContextOverflow) as caught:
        student.act_batch([long, fits, longer])
    assert caught.value.trajectory_ids == ("tr-1", "tr-2")
    assert str(caught.value) == (
        "student: trajectory tr-1: 15 context tokens and up to 6 of the action exceed max_context 20 (and 1 more). "
        "Raise max_context if the model allows it, or choose a context rule that drops old observations."
    )
    assert (student.num_fed_tokens, len(student.table)) == (0, 0)
    assert len(student.act_batch([fits])) == 1


def test_max_context_is_never_more_than_the_models(model_dir: Path) -> None:
    assert LocalPolicy(model_dir, renderer=LetterRenderer(), max_context=9999).max_context == 256


def test_one_batch_asks_once_per_episode(model_dir: Path) -> None:
    with pytest.raises(PolicyError, match=r"one batch asks twice for tr-3"):
        policy(model_dir).act_batch([start(3), start(4), start(3)])
    assert policy(model_dir).act_batch([]) == []


def test_it_is_a_policy_and_names_its_weights(model_dir: Path, tmp_path: Path) -> None:
    student = policy(model_dir)
    assert isinstance(student, Policy)
    assert (student.name, student.batched) == ("student", True)
    folder, digest = student.version.split("@")
    assert folder == "letters"
    assert len(digest) == 8
    assert policy(model_dir).version == student.version
    other = save_model(tmp_path / "letters", llama(), stop_bias=2.0)
    assert policy(other).version.split("@")[1] != digest


@pytest.mark.parametrize(
    "model",
    [
        MistralForCausalLM(
            MistralConfig(
                vocab_size=36, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, sliding_window=8, initializer_range=0.2, bos_token_id=BEGIN, eos_token_id=END,
                pad_token_id=PAD,
            )
        ),
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=36, n_embd=32, n_layer=2, n_head=4, n_positions=256, initializer_range=0.2,
                bos_token_id=BEGIN, eos_token_id=END, pad_token_id=PAD,
            )
        ),
    ],
    ids=["mistral-window", "gpt2"],
)  # fmt: skip
def test_other_architectures(model: torch.nn.Module, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "other", model)
    student = policy(folder)
    play_ragged(student, AutoModelForCausalLM.from_pretrained(folder).eval(), turns=4)


@pytest.mark.parametrize(
    "model",
    [
        MambaForCausalLM(MambaConfig(vocab_size=36, hidden_size=16, num_hidden_layers=2, state_size=4)),
        BloomForCausalLM(BloomConfig(vocab_size=36, hidden_size=16, n_layer=2, n_head=4)),
        Gemma2ForCausalLM(
            Gemma2Config(
                vocab_size=36,
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                num_key_value_heads=1,
                head_dim=8,
                bos_token_id=BEGIN,
                eos_token_id=END,
                pad_token_id=PAD,
            )
        ),
    ],
    ids=["recurrent", "alibi", "capped-scores"],
)
def test_architectures_without_kept_keys_are_refused(model: torch.nn.Module, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "other", model)
    with pytest.raises(ConfigError, match=rf"{type(model).__name__} in {folder} cannot keep its keys and values"):
        policy(folder)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
@pytest.mark.parametrize("relative", [False, True])
def test_a_lora_adapter_is_merged(model_dir: Path, tmp_path: Path, relative: bool) -> None:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    base = AutoModelForCausalLM.from_pretrained(model_dir)
    adapted = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj", "up_proj"], init_lora_weights=False))
    folder = tmp_path / "adapter"
    adapted.save_pretrained(folder)
    if relative:
        (tmp_path / "base").symlink_to(model_dir)
    settings = json.loads((folder / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = "../base" if relative else str(model_dir)
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    student = policy(folder)
    play_ragged(student, adapted.eval(), turns=3)
    assert student.version.startswith("adapter@")


def test_broken_folders_say_what_is_missing(model_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"model folder .*/nowhere does not exist; expected a folder with config.json"
    ):
        policy(tmp_path / "nowhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(
        ConfigError, match=r"empty lacks config.json and weights \(model.safetensors\); it holds nothing"
    ):
        policy(empty)
    (empty / "config.json").write_bytes((model_dir / "config.json").read_bytes())
    with pytest.raises(ConfigError, match=r"empty lacks weights \(model.safetensors\); it holds config.json\."):
        policy(empty)
    (empty / "model.safetensors").write_bytes((model_dir / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(ConfigError, match=r"model folder .*/empty cannot be loaded: "):
        policy(empty)
    (empty / "config.json").write_text('{"model_type": "llama"')
    with pytest.raises(ConfigError, match=r"model folder .*/empty cannot be loaded: "):
        policy(empty)
    with pytest.raises(ConfigError, match=r"no tokenizer.json, expected a model folder"):
        LocalPolicy(model_dir)


def test_missing_and_infinite_weights_are_refused(model_dir: Path, tmp_path: Path) -> None:
    folder = save_model(tmp_path / "deeper", llama())
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"num_hidden_layers": 3}))
    with pytest.raises(ConfigError, match=r"the weights lack 9 tensors that config.json asks for, e.g. model.layers.2"):
        policy(folder)
    broken = llama()
    broken.model.norm.weight.data[0] = torch.nan
    with pytest.raises(ConfigError, match="its weights give logits that are not finite"):
        policy(save_model(tmp_path / "broken", broken))


def test_bad_settings_are_refused(model_dir: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy 'student': temperature is -1.0, expected 0 \(greedy\) or more"):
        LocalPolicy(model_dir, renderer=LetterRenderer(), temperature=-1.0)
    with pytest.raises(ConfigError, match=r"cannot be put on device 'abacus'"):
        LocalPolicy(model_dir, renderer=LetterRenderer(), device="abacus")
    with pytest.raises(ConfigError, match="max_action_tokens is 0, expected at least 1"):
        LocalPolicy(model_dir, renderer=LetterRenderer(), max_action_tokens=0)


def test_without_torch_the_extra_is_named() -> None:
    code = "import sys; sys.modules['torch'] = None; import tutelage.policies.local"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(
        r".*MissingExtra: policy 'local' needs the extra 'train' \(.*torch>=2.*\)\. Run: pip install \"tutelage\[train\]\"",
        done.stderr.splitlines()[-1],
    )
