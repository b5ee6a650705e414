"""The search expert: every generated question, every state another policy can leave, the texts alone."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.envs.registry import make_env
from tutelage.envs.search.corpus import question_of, world_of
from tutelage.envs.search.env import ACTION_FORMAT
from tutelage.envs.search.names import names
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.search import AT_A_LOSS, SearchExpert, read_question
from tutelage.policies.registry import make_expert
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import AtStep, ExpertOnly
from tutelage.tasks.registry import load_tasks
from tutelage.types import Actor, Split, Task, Trajectory

FILM = next(name for name in names("film", Split.TRAIN))


def alone(task: Task, **options: bool) -> Trajectory:
    return run_episode(task, make_env(task), {Actor.EXPERT: SearchExpert(**options)}, ExpertOnly(), seed=0)


@pytest.mark.parametrize(("size", "split"), [*(("small", split) for split in Split), ("large", Split.TEST)])
def test_it_answers_every_question_with_the_fewest_steps(size: str, split: Split) -> None:
    for task in load_tasks("search", split, 0, 60, size=size):
        trajectory = alone(task)
        assert trajectory.reward == 1.0
        # A passage that came as a neighbour saves a search; nothing costs one more than the hops.
        assert len(trajectory.steps) <= {"two_hops": 3, "three_hops": 4}[task.kind]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(Split), st.sampled_from([2, 3]), st.integers(0, 5000), st.integers())
def test_it_reads_every_question_in_the_one_right_way(split: Split, hops: int, index: int, seed: int) -> None:
    chains = world_of("small", split, 0, 0).chains(hops)
    chain = chains[index % len(chains)]
    asked = read_question(question_of(chain, random.Random(seed)))
    assert asked is not None
    assert (asked.start, asked.relations) == (chain.start, chain.relations)


def test_replies_by_their_text() -> None:
    task = next(task for task in load_tasks("search", "train", 0, 20) if "of the film" in task.goal)
    plain, thinking = alone(task), alone(task, think=True)
    start = task.settings["evidence"][0]
    assert plain.steps[0].action.text == f"<search>{start}</search>"
    assert plain.steps[-1].action.text == f"<answer>{task.settings['golden_answers'][0]}</answer>"
    assert thinking.steps[0].action.text.startswith(f"<think>I start from {start}. I need its ")
    assert thinking.steps[0].action.text.endswith(f"</think>\n<search>{start}</search>")
    assert [step.action.command for step in plain.steps] == [step.action.command for step in thinking.steps]
    assert (SearchExpert().version, SearchExpert(think=True).version) == ("search_expert-1", "search_expert-1/think")
    assert isinstance(make_expert("search", think=True), SearchExpert)


# What a student may have done before: nothing useful, the second link of the chain, the first, both.
LEFT = ["<search>zzz</search>", "<search>{1}</search>", "<search>{0}</search>", "<search>{0} {1}</search>"]


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("num_steps", [1, 2, 3])
def test_it_takes_over_from_any_state_while_steps_suffice(left: str, num_steps: int) -> None:
    for task in load_tasks("search", "validation", 0, 12, max_steps=7):
        said = left.format(*task.settings["evidence"])
        student = ScriptedPolicy([said] * num_steps, then=said)
        policies = {Actor.STUDENT: student, Actor.EXPERT: SearchExpert()}
        trajectory = run_episode(task, make_env(task), policies, AtStep(num_steps), seed=0)
        assert trajectory.switch_index == num_steps
        assert trajectory.reward == 1.0
        # A passage that the student has found is not searched again.
        found = 1 if "{" in left else 0
        assert trajectory.num_expert_steps <= len(task.settings["evidence"]) + 1 - found


def test_one_wasted_step_is_made_good_where_the_limit_lets_it() -> None:
    for task in load_tasks("search", "test", 0, 30):
        policies = {Actor.STUDENT: ScriptedPolicy(["hm"]), Actor.EXPERT: SearchExpert()}
        trajectory = run_episode(task, make_env(task), policies, AtStep(1), seed=0)
        # Four steps: two hops take three of them, three hops all.
        assert trajectory.terminated
        if task.kind == "two_hops":
            assert trajectory.reward == 1.0


def test_it_searches_otherwise_where_a_search_did_not_help() -> None:
    task = load_tasks("search", "train", 0, 1, max_steps=9)[0]
    expert = SearchExpert()
    start = task.settings["evidence"][0]
    said = []
    env = make_env(task)
    so_far = PartialTrajectory(trajectory_id="t", task=task, steps=(), observation=env.reset(0), seed=0)
    record = alone(task).steps[0]
    for _ in range(4):
        action = expert.act(so_far)
        said.append(action.command)
        # A server that never finds anything.
        step = dataclasses.replace(record, observation=so_far.observation, action=action)
        so_far = dataclasses.replace(so_far, steps=(*so_far.steps, step), observation=record.observation.of("Nothing."))
    assert said[0] == f"<search>{start}</search>"
    assert said[2:] == [f"<search>{start} {start}</search>", f"<search>{start} {start} {start}</search>"]
    assert len(set(said)) == 4


def test_it_reads_nothing_but_the_texts() -> None:
    for task in load_tasks("search", "train", 0, 6):
        hidden = dataclasses.replace(task, goal="", settings={"max_steps": 4}, task_id="other", seed=9)
        trajectory = alone(task)
        for index, step in enumerate(trajectory.steps):
            so_far = PartialTrajectory(
                trajectory_id="x", task=hidden, steps=trajectory.steps[:index], observation=step.observation, seed=5
            )
            assert SearchExpert().act(so_far) == step.action


def test_questions_that_are_not_of_the_corpus() -> None:
    assert read_question("Who is Ada?") is None
    assert read_question(f"Who is the director of {FILM}?") is None  # A film is called one.
    assert read_question("") is None
    task = load_tasks("search", "train", 0, 1)[0]
    asked = dataclasses.replace(task, settings=dict(task.settings) | {"question": "Where was Nana Saheb born?"})
    trajectory = alone(asked)
    assert [step.action.text for step in trajectory.steps] == [f"<answer>{AT_A_LOSS}</answer>"]
    assert trajectory.steps[0].action == ACTION_FORMAT.apply(trajectory.steps[0].action)
