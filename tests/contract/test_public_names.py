"""The names of `import tutelage`: listed once, all there, none by accident."""

from __future__ import annotations

import pytest

import tutelage

NAMES = """
Actor EndpointConfig EndpointPolicy LocalPolicy RLConfig Recipe RecordStore Run SFTConfig STEP_MASKS Task
TrainingSample Trajectory TutelageError build_all_samples check_env compare evaluate export footprints_of load_recipe
load_renderer load_tasks make_env make_expert make_filter make_jobs make_rule run run_episode run_rollouts select
student_from_package taught_policy train_rl train_sft weigh_steps write_report
"""


def test_the_surface_is_pinned() -> None:
    assert sorted(NAMES.split()) == sorted(tutelage.__all__)
    assert set(tutelage._PLACES) == set(tutelage.__all__)
    assert dir(tutelage) == sorted([*tutelage.__all__, "__version__"])


@pytest.mark.parametrize("name", NAMES.split())
def test_every_name_is_there_and_explained(name: str) -> None:
    value = getattr(tutelage, name)
    assert value.__doc__


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'tutelage' has no attribute 'train'"):
        tutelage.train  # noqa: B018
