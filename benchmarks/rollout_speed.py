"""Speed of the in-process policy against batched `generate` of transformers over the whole history each turn.

    OMP_NUM_THREADS=1 python benchmarks/rollout_speed.py

Both ways play the same 64 live episodes with the same model, renderer and environments, on one thread, and alternate
within each repeat; times are CPU seconds, environments included. `generate` gets its best setting: one left-padded
batch of the live episodes, no top-k, no recorded log-probabilities (the policy does record them).

The number settings sample at temperature 1; both ways draw their own actions, so rates are per sampled token. The
household settings are greedy, both ways must take the same actions, and the number of those that differ is printed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, LlamaForCausalLM

from machine import machine
from tutelage.envs.registry import make_env
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.local import LocalPolicy
from tutelage.students import student_path
from tutelage.tasks.registry import load_tasks
from tutelage.types import Action, Actor, Observation, ParseOutcome, Step, Task

RESULTS = Path(__file__).parent / "results"
VOCABULARY = 1200
STOP, PAD, BEGIN, ACT = 0, 1, 2, 3
EPISODES = 64


@dataclass(frozen=True)
class Setting:
    """What is played: 64 episodes of at most so many turns."""

    name: str
    turns: int
    max_action_tokens: int
    observation: tuple[int, int] = (0, 0)
    """Numbers only: lengths in tokens, drawn evenly from this range."""
    stop_bias: float = 0.0
    """Numbers only. 0: nearly every action runs to its limit. Larger: actions stop earlier, at different lengths."""
    size: str = ""
    """Household only: ``small`` or ``real``. Empty: numbers."""

    @property
    def temperature(self) -> float:
        return 0.0 if self.size else 1.0


SETTINGS = (
    Setting("numbers, 8 turns, equal lengths", 8, 8, (40, 40)),
    Setting("numbers, 8 turns, ragged", 8, 8, (10, 70), 5.5),
    Setting("numbers, 20 turns, equal lengths", 20, 8, (40, 40)),
    Setting("numbers, 20 turns, ragged", 20, 8, (10, 70), 5.5),
    Setting("household, small games", 30, 24, size="small"),
    Setting("household, real size", 30, 24, size="real"),
)


class World(Protocol):
    """What an episode is played in. None: the episode is over."""

    task: Task

    def reset(self) -> Observation: ...

    def step(self, action: Action) -> Observation | None: ...


class NumberWorld:
    """Observations of random numbers, the same whatever the actions."""

    task = Task(task_id="numbers", env="numbers", goal="")

    def __init__(self, seed: int, lengths: tuple[int, int]) -> None:
        self.rng = random.Random(seed)
        self.lengths = lengths

    def reset(self) -> Observation:
        numbers = (str(self.rng.randrange(4, VOCABULARY)) for _ in range(self.rng.randint(*self.lengths)))
        return Observation.of(" ".join(numbers))

    def step(self, action: Action) -> Observation | None:
        return self.reset()


class HouseholdWorld:
    """One game of the household test panel."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.env = make_env(task)

    def reset(self) -> Observation:
        return self.env.reset(0)

    def step(self, action: Action) -> Observation | None:
        result = self.env.step(action)
        return None if result.terminated or result.truncated else result.observation


class NumberRenderer:
    """Text is a list of ids, so that encoding costs nothing on either side."""

    name = "numbers"
    stop_token_id = STOP
    stop_token_ids = (STOP,)
    rewrites_history = False
    pad_token_id = PAD
    vocab_size = VOCABULARY

    def observation_ids(self, observation: Observation, *, after: Action | None) -> list[int]:
        return [BEGIN] * (after is None) + [int(number) for number in observation.text.split()] + [ACT]

    def action_ids(self, action: Action, *, followed_by: Sequence[Observation] = ()) -> list[int]:
        return list(action.token_ids or ())

    def parse(self, token_ids: Sequence[int], *, stopped: bool) -> Action:
        text = self.decode(token_ids[:-1] if stopped else token_ids)
        outcome = ParseOutcome.CLEAN if stopped else ParseOutcome.ENDED_WITHOUT_STOP
        return Action(text=text, command=text, parse=outcome, token_ids=tuple(token_ids))

    def decode(self, token_ids: Sequence[int]) -> str:
        return " ".join(str(token_id) for token_id in token_ids)


def make_model(folder: Path, stop_bias: float) -> Path:
    """A random model of 0.96 M parameters whose stop token gets about `stop_bias` added to its logit."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=352,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            bos_token_id=BEGIN,
            eos_token_id=STOP,
            pad_token_id=PAD,
        )
    )
    with torch.no_grad():
        # A shared direction in all embeddings survives the layers, so the stop row can act as a bias.
        direction = torch.nn.functional.normalize(torch.randn(128), dim=0)
        model.model.embed_tokens.weight += 0.1 * direction
        hidden = model.model(torch.arange(VOCABULARY)[None, :256]).last_hidden_state[0].mean(0)
        model.model.embed_tokens.weight[STOP] = stop_bias * hidden / hidden.dot(hidden)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    return folder


Sampler = Callable[[Sequence[PartialTrajectory]], list[Action]]


def make_worlds(setting: Setting) -> list[World]:
    if not setting.size:
        return [NumberWorld(seed, setting.observation) for seed in range(EPISODES)]
    tasks = load_tasks("household", "test", start=0, count=EPISODES, size=setting.size)
    return [HouseholdWorld(task) for task in tasks]


def play(setting: Setting, sample: Sampler, release: Callable[[str], None]) -> tuple[float, list[PartialTrajectory]]:
    """CPU seconds and the episodes as they ended."""
    worlds = make_worlds(setting)
    live: dict[int, PartialTrajectory] = {}
    ended: dict[int, PartialTrajectory] = {}
    began = time.process_time()
    for index, world in enumerate(worlds):
        live[index] = PartialTrajectory(
            trajectory_id=str(index), task=world.task, steps=(), observation=world.reset(), seed=index
        )
    for turn in range(setting.turns):
        actions = sample(list(live.values()))
        for (index, so_far), action in zip(list(live.items()), actions, strict=True):
            step = Step(observation=so_far.observation, action=action, actor=Actor.STUDENT)
            so_far = replace(so_far, steps=(*so_far.steps, step))
            observation = worlds[index].step(action)
            if observation is None or turn + 1 == setting.turns:
                ended[index] = so_far
                del live[index]
                release(so_far.trajectory_id)
            else:
                live[index] = replace(so_far, observation=observation)
        if not live:
            break
    return time.process_time() - began, [ended[index] for index in range(EPISODES)]


def generate_sampler(model: Any, policy: LocalPolicy) -> Sampler:
    """Batched `generate` over the rendered history of every live episode."""
    stop, pad = policy.renderer.stop_token_id, policy.renderer.pad_token_id
    common = {"max_new_tokens": policy.max_action_tokens, "eos_token_id": stop, "pad_token_id": pad}
    if policy.temperature > 0.0:
        config = GenerationConfig(do_sample=True, temperature=policy.temperature, top_k=0, top_p=1.0, **common)
    else:
        config = GenerationConfig(do_sample=False, **common)

    def sample(so_far: Sequence[PartialTrajectory]) -> list[Action]:
        contexts = [policy.context_ids(one) for one in so_far]
        longest = max(map(len, contexts))
        input_ids = torch.full((len(contexts), longest), pad)
        mask = torch.zeros_like(input_ids)
        for row, context in enumerate(contexts):
            input_ids[row, longest - len(context) :] = torch.tensor(context)
            mask[row, longest - len(context) :] = 1
        with torch.inference_mode():
            output = model.generate(input_ids=input_ids, attention_mask=mask, generation_config=config)
        actions = []
        for ids in output[:, longest:].tolist():
            stopped = stop in ids
            actions.append(policy.renderer.parse(ids[: ids.index(stop) + 1] if stopped else ids, stopped=stopped))
        return actions

    return sample


def largest_error(model: Any, policy: LocalPolicy, episode: PartialTrajectory) -> float:
    """Largest difference between recorded log-probabilities and those of one full forward of the whole episode."""
    ids: list[int] = []
    places: list[int] = []
    recorded: list[float] = []
    for index, step in enumerate(episode.steps):
        after = episode.steps[index - 1].action if index else None
        ids += policy.renderer.observation_ids(step.observation, after=after)
        places += range(len(ids), len(ids) + len(step.action.token_ids or ()))
        ids += step.action.token_ids or ()
        recorded += step.action.rollout_logprobs or ()
    with torch.inference_mode():
        logprobs = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double().log_softmax(-1)
    return max(
        abs(float(logprobs[place - 1, ids[place]]) - logprob) for place, logprob in zip(places, recorded, strict=True)
    )


def sampled(episodes: Sequence[PartialTrajectory]) -> list[tuple[int, ...]]:
    """The ids of all actions of all episodes."""
    return [step.action.token_ids or () for episode in episodes for step in episode.steps]


def make_ways(setting: Setting) -> tuple[LocalPolicy, Any]:
    """The policy, and the same model for `generate`."""
    options: dict[str, Any] = {
        "max_action_tokens": setting.max_action_tokens, "max_context": 4096, "temperature": setting.temperature,
        "device": "cpu",
    }  # fmt: skip
    if setting.size:
        folder = student_path("builtin:household_tiny")
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        return LocalPolicy(folder, **options), model.eval()
    with tempfile.TemporaryDirectory() as name:
        folder = make_model(Path(name) / "numbers", setting.stop_bias)
        return LocalPolicy(folder, renderer=NumberRenderer(), **options), AutoModelForCausalLM.from_pretrained(folder)


def measure(setting: Setting, repeats: int) -> dict[str, Any]:
    """Alternate the two ways and return medians."""
    policy, model = make_ways(setting)
    ways: dict[str, Sampler] = {"generate": generate_sampler(model, policy), "kept": policy.act_batch}
    for sample in ways.values():
        play(replace(setting, turns=2), sample, policy.release)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    rates: dict[str, list[float]] = {way: [] for way in ways}
    error, different = 0.0, 0
    for _ in range(repeats):
        played: dict[str, list[tuple[int, ...]]] = {}
        for way, sample in ways.items():
            took, episodes = play(setting, sample, policy.release)
            played[way] = sampled(episodes)
            seconds[way].append(took)
            rates[way].append(sum(map(len, played[way])) / took)
        error = max(error, largest_error(model, policy, max(episodes, key=lambda one: len(one.steps))))
        if setting.temperature == 0.0:
            pairs = zip(played["generate"], played["kept"], strict=True)
            different = max(different, sum(one != other for one, other in pairs))
    ratios = [kept / generate for kept, generate in zip(rates["kept"], rates["generate"], strict=True)]
    return {
        "setting": setting.name,
        "steps": len(played["kept"]),
        "tokens": sum(map(len, played["kept"])),
        "generate_s": statistics.median(seconds["generate"]),
        "kept_s": statistics.median(seconds["kept"]),
        "generate_rate": statistics.median(rates["generate"]),
        "kept_rate": statistics.median(rates["kept"]),
        "ratio": [min(ratios), statistics.median(ratios), max(ratios)],
        "different_actions": different if setting.temperature == 0.0 else None,
        "largest_error": error,
        "cache_mb": policy.table.num_bytes / 1e6,
    }


def table(results: Sequence[dict[str, Any]], repeats: int) -> str:
    """The page in results/."""
    rows = [
        "# Rollouts with kept keys and values",
        "",
        f"Command: `OMP_NUM_THREADS=1 python benchmarks/rollout_speed.py --repeats {repeats}`  ",
        f"Machine: {machine('torch', 'transformers')}",
        "",
        "64 live episodes, one thread, CPU seconds, medians over alternating repeats. `generate`: transformers' batched",
        "`generate` over the whole history each turn. `kept`: `LocalPolicy`. Ratio: sampled tokens per second, kept over",
        "generate, with the lowest and the highest repeat. Models: Llama of about 1 M parameters, float32 (numbers: random",
        "weights, vocabulary 1200; household: the built-in student, greedy). Numbers: observations of 40 tokens, or of 10",
        "to 70 with actions that stop early; actions of at most 8. Error: largest difference of a recorded log-probability",
        "from one full forward of the longest episode. Different: greedy actions in which the two ways differ.",
        "",
        "| setting | steps | tokens | generate s | kept s | generate tok/s | kept tok/s | ratio | error | different | cache |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in results:
        low, middle, high = one["ratio"]
        different = "-" if one["different_actions"] is None else one["different_actions"]
        rows.append(
            f"| {one['setting']} | {one['steps']:,} | {one['tokens']:,} | {one['generate_s']:.2f} | {one['kept_s']:.2f} "
            f"| {one['generate_rate']:,.0f} | {one['kept_rate']:,.0f} | **{middle:.1f}** ({low:.1f}-{high:.1f}) "
            f"| {one['largest_error']:.0e} | {different} | {one['cache_mb']:.0f} MB |"
        )
    return "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="settings whose name contains this; prints, and writes no result")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for setting in SETTINGS:
        if arguments.only is None or arguments.only in setting.name:
            results.append(measure(setting, arguments.repeats))
            print(json.dumps(results[-1]), flush=True)
    text = table(results, arguments.repeats)
    print(text)
    if arguments.only is None:
        (RESULTS / "rollout_speed.md").write_text(text)


if __name__ == "__main__":
    main()
