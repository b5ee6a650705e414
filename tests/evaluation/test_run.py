"""Evaluating a policy on a whole panel: every task once, the same result after an interruption, plain JSON."""

import json
import math

import pytest

from tutelage.evaluation.run import EvaluationResult, compare, evaluate, result_of
from tutelage.policies.experts.household import HouseholdExpert
from tutelage.policies.scripted import ScriptedPolicy
from tutelage.rollout.episode import Limits
from tutelage.store import RecordStore
from tutelage.tasks.registry import load_tasks
from tutelage.testing import make_trajectory
from tutelage.types import Actor, StopReason


def panel(count=6, max_steps=50):
    return load_tasks("household", "test", 0, count, size="small", max_steps=max_steps)


def test_the_expert_wins_every_task_and_each_is_counted_once():
    result, summary = evaluate(HouseholdExpert(), panel(), role=Actor.EXPERT, name="expert")
    assert (result.overall.num_solved, result.overall.num_tasks) == (6, 6)
    assert len(result.rows) == 7
    assert result.outcomes == {task.task_id: True for task in panel()}
    assert result.stop_reasons == {"completed": 6}
    assert summary.num_student_steps == 0


def test_a_policy_that_only_looks_loses_by_the_step_limit():
    result, _ = evaluate(ScriptedPolicy([], then="look"), panel(2), limits=Limits(max_steps=5))
    assert result.overall.num_solved == 0
    assert result.stop_reasons == {"max_steps": 2}
    assert result.overall.mean_steps == 5.0
    assert math.isnan(result.overall.mean_steps_solved)
    assert result.overall.loop_share == 1.0


def test_what_the_store_holds_is_not_played_again(tmp_path):
    store = RecordStore(tmp_path / "trajectories.jsonl", "trajectory")
    evaluate(HouseholdExpert(), panel(2), role=Actor.EXPERT, store=store)
    result, summary = evaluate(HouseholdExpert(), panel(6), role=Actor.EXPERT, store=store)
    assert (summary.num_resumed, summary.num_played) == (2, 4)
    assert result.overall.num_tasks == 6
    assert len(store) == 6


def test_result_survives_json_with_its_nans():
    result, _ = evaluate(ScriptedPolicy([], then="look"), panel(1), limits=Limits(max_steps=2))
    text = json.dumps(result.to_json(), allow_nan=False)
    again = EvaluationResult.from_json(json.loads(text))
    assert again.outcomes == result.outcomes
    assert again.overall.success == result.overall.success
    assert math.isnan(again.overall.mean_steps_solved)


def test_of_several_attempts_the_last_one_counts():
    crashed = make_trajectory("ss", task_id="t1", stop_reason=StopReason.ENV_ERROR, reward=None, attempt=0)
    won = make_trajectory("ss", task_id="t1", reward=1.0, attempt=1)
    result = result_of([crashed, won], name="student")
    assert result.num_tasks == 1
    assert result.outcomes == {"t1": True}


def test_samples_of_a_task_are_outcomes_of_their_own():
    first = make_trajectory("ss", task_id="t1", reward=1.0, sample_index=0)
    second = make_trajectory("ss", task_id="t1", reward=0.0, stop_reason=StopReason.MAX_STEPS, sample_index=1)
    assert result_of([first, second], name="student").outcomes == {"t1#0": True, "t1#1": False}


def test_comparison_of_two_results_is_by_task():
    a = result_of([make_trajectory("s", task_id=f"t{i}", reward=1.0) for i in range(3)], name="a")
    lost = [make_trajectory("s", task_id=f"t{i}", reward=0.0, stop_reason=StopReason.MAX_STEPS) for i in range(3)]
    got = compare(a, result_of(lost, name="b"))
    assert (got.name_a, got.name_b, got.only_a, got.only_b) == ("a", "b", 3, 0)
    assert got.difference.estimate == pytest.approx(-1.0)
    assert got.p_value == 0.25
