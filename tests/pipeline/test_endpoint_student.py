"""An endpoint as a recipe's student reads and writes as the recipe says: instructions, turns, action format, ids."""

from pathlib import Path
from typing import Any

import pytest

import tutelage as t
from tutelage.pipeline.endpoints import Endpoints
from tutelage.pipeline.parts import task_set
from tutelage.pipeline.student_text import student_renderer
from tutelage.recipe import Recipe
from tutelage.rendering.context import Full
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import make_rule
from tutelage.run_dir import RunDir
from tutelage.supervision.samples import build_all_samples
from tutelage.supervision.step_masks import STEP_MASKS
from tutelage.testing.fault_server import FaultServer
from tutelage.training.student_model import new_student
from tutelage.training.word_vocab import vocabulary_of
from tutelage.types import Action, Actor, Trajectory

REPLY = "<think>Hm.</think><action>look</action>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model in small."""
    vocabulary = vocabulary_of("household", tokens="bpe", num_tasks=2, size="small")
    return new_student(tmp_path_factory.mktemp("chat") / "m", vocabulary=vocabulary, hidden=32, layers=1, heads=2)


def recipe_of(folder: Path, url: str, **endpoint: Any) -> Recipe:
    settings = {"url": url, "model": "fake", "tokenizer": str(folder), "max_tokens": 64, **endpoint}
    return t.load_recipe(
        "smoke/household_oec_smollm2",
        set={
            "endpoints": {"small": settings},
            "student.start": str(folder),
            "student.action_format": "think_action",
            "env.max_steps": 2,
        },
    )


def play(recipe: Recipe, root: Path) -> Trajectory:
    with Endpoints(recipe, RunDir(root)) as endpoints:
        policy = endpoints.player("small", context_rule=Full(), temperature=0.0, seed=0)
        [task] = task_set(recipe, recipe.rollouts["expert_first"].tasks)[:1]
        played = run_rollouts(make_jobs([task]), policies={Actor.STUDENT: policy}, rule=make_rule("never"), retries=0)
        assert policy.num_retokenised == 0
    return played.trajectories[0]


def test_by_prompts_of_ids(folder: Path, tmp_path: Path):
    renderer = student_renderer(recipe_of(folder, "http://127.0.0.1:9"), folder)
    ids = renderer.action_ids(Action(text=REPLY, command="look"))

    with FaultServer(sample=lambda prompt: (ids, [-0.5] * len(ids))) as server:
        played = play(recipe := recipe_of(folder, server.url, api="completions", server="vllm"), tmp_path)
        prompt = server.bodies[0]["prompt"]
    text = renderer.decode(prompt)
    assert text.startswith("<|im_start|>system\nYou are in a house and do one task.")
    assert "<think>what you think</think>\n<action>the command</action>" in text
    assert [step.action.command for step in played.steps] == ["look", "look"]
    assert [step.action.token_ids for step in played.steps] == [tuple(ids), tuple(ids)]
    # What was sent is what is trained after: the context of the sample is the prompt of the request.
    samples, ledger = build_all_samples([played], STEP_MASKS["student_steps"], student_renderer(recipe, folder))
    assert list(samples[0].token_ids[: len(prompt)]) == prompt
    assert (ledger.num_forks, ledger.drifted_actions, ledger.trained_tokens["s"]) == (0, 0, 2 * len(ids))


def test_by_chat(folder: Path, tmp_path: Path):
    with FaultServer(reply=lambda body: REPLY) as server:
        recipe = recipe_of(folder, server.url)
        with Endpoints(recipe, RunDir(tmp_path)) as endpoints:
            policy = endpoints.player("small", context_rule=Full(), temperature=0.0, seed=0)
            [task] = task_set(recipe, recipe.rollouts["expert_first"].tasks)[:1]
            played = run_rollouts(
                make_jobs([task]), policies={Actor.STUDENT: policy}, rule=make_rule("never"), retries=0
            )
            # The server told no ids: the text is encoded when samples are built, and that is counted.
            assert policy.num_retokenised == 2
        messages = server.bodies[1]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert "<action>the command</action>" in messages[0]["content"]
    assert messages[2]["content"] == REPLY
    assert [step.action.command for step in played.trajectories[0].steps] == ["look", "look"]
