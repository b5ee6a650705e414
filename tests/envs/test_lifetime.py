"""What the contract of an environment forbids is refused, and steps are counted against the limit."""

from __future__ import annotations

import pytest

from tutelage.envs.lifetime import Lifetime
from tutelage.errors import EnvError
from tutelage.types import Task


def lifetime(max_steps: int | None = 2) -> Lifetime:
    return Lifetime(Task(task_id="t-1", env="x", goal=""), max_steps)


def test_the_last_allowed_step_is_cut_unless_it_ends_the_task():
    life = lifetime()
    life.begin()
    assert [life.count_step(False), life.count_step(False)] == [False, True]
    with pytest.raises(EnvError, match="task t-1, step 2: step before reset, after the end"):
        life.check_step()
    won = lifetime()
    won.begin()
    assert [won.count_step(False), won.count_step(True)] == [False, False]
    with pytest.raises(EnvError):
        won.check_step()


def test_another_limit_cuts_too_and_none_never_does():
    life = lifetime(None)
    life.begin()
    assert not any(life.count_step(False) for _ in range(100))
    life.check_step()
    assert life.count_step(False, truncated=True)
    assert not lifetime().count_step(True, truncated=True)


def test_reset_comes_once_and_before_the_first_step():
    life = lifetime()
    with pytest.raises(EnvError, match="step before reset"):
        life.check_step()
    life.begin(ready=False)
    with pytest.raises(EnvError):
        life.check_step()
    life.ready()
    life.check_step()
    with pytest.raises(EnvError, match="reset a second time"):
        life.begin()


def test_after_close_nothing_begins():
    life = lifetime()
    life.close()
    life.close()
    with pytest.raises(EnvError, match="after close"):
        life.begin()
    slow = lifetime()
    slow.begin(ready=False)
    slow.close()
    slow.ready()
    with pytest.raises(EnvError):
        slow.check_step()
    with pytest.raises(EnvError, match="restore after close"):
        slow.go_to((0, True))


def test_an_earlier_moment_comes_back_with_its_count():
    life = lifetime()
    life.begin()
    start = life.moment()
    life.count_step(False)
    assert life.count_step(False)
    life.go_to(start)
    life.check_step()
    assert life.num_steps == 0


def test_a_step_that_fails_leaves_a_held_world_without_another():
    life = lifetime()
    life.begin()
    life.hold()
    with pytest.raises(EnvError):
        life.check_step()
    life.count_step(False)
    life.check_step()
