from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tutelage.envs.adapters.json_connection import JsonConnection, ServerFault
from tutelage.envs.adapters.serve import EnvServer, serve_env
from tutelage.envs.base import Env
from tutelage.envs.household.env import FORMAT_HELP
from tutelage.envs.registry import make_env
from tutelage.errors import ConfigError, EnvError, FormatError
from tutelage.policies.registry import make_expert
from tutelage.policies.scripted import RandomPolicy
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import make_rule
from tutelage.tasks.registry import load_tasks
from tutelage.testing import CountingEnv, CountingWorld, ScriptedPolicy, counting_task
from tutelage.types import Action, Actor, ParseOutcome, Task, Trajectory

EXPERT_ONLY = make_rule("expert_only")


@pytest.fixture(scope="module")
def household() -> Iterator[EnvServer]:
    tasks = [*load_tasks("household", "test", count=6), *load_tasks("household", "train", count=2)]
    with serve_env(make_env, tasks) as server:
        yield server


def remote_tasks(server: EnvServer, split: str = "test") -> list[Task]:
    return load_tasks("http", split, url=server.url, tasks="server")


def played(tasks: list[Task], policy: object, concurrency: int = 3) -> list[Trajectory]:
    summary = run_rollouts(
        make_jobs(tasks), policies={Actor.EXPERT: policy}, rule=EXPERT_ONLY, concurrency=concurrency, state_hashes=True
    )
    return list(summary.trajectories)


def same(here: Trajectory, there: Trajectory) -> None:
    assert there.error is None
    assert there.steps == here.steps  # Observations, actions, rewards, state hashes.
    for name in ("final_observation", "stop_reason", "reward", "seed", "task_id", "task_kind", "goal", "split"):
        assert getattr(there, name) == getattr(here, name), name


def test_household_over_http_equals_household_in_process(household: EnvServer) -> None:
    local = load_tasks("household", "test", count=6)
    remote = remote_tasks(household)
    commands = ("go to cabinet 1", "open cabinet 1", "inventory", "look", "dance", "go to fridge 1")
    for policy in (make_expert("household"), RandomPolicy(lambda _: commands), ScriptedPolicy((), then="")):
        for here, there in zip(played(local, policy), played(remote, policy), strict=True):
            same(here, there)
    assert household.num_live == 0


def test_a_reply_without_a_command_is_the_same_too(household: EnvServer) -> None:
    env = make_env(remote_tasks(household)[0])
    env.reset(0)
    result = env.step(Action(text="hm", parse=ParseOutcome.MALFORMED))
    assert result.observation.text == FORMAT_HELP
    env.close()


def test_what_only_our_own_server_tells(household: EnvServer) -> None:
    local, remote = make_env(load_tasks("household", "test", count=1)[0]), make_env(remote_tasks(household)[0])
    for env in (local, remote):
        env.reset(0)
    assert remote.admissible() == local.admissible()
    assert remote.state_hash() == local.state_hash()
    assert remote.progress() == local.progress()  # type: ignore[attr-defined]
    assert remote.reward() == 0.0
    for env in (local, remote):
        env.close()


def test_the_server_lists_its_tasks_by_split(household: EnvServer) -> None:
    local = load_tasks("household", "train", count=2)
    remote = remote_tasks(household, "train")
    assert [one.task_id for one in remote] == [one.task_id for one in local]
    assert [one.goal for one in remote] == [one.goal for one in local]
    assert [one.settings["max_steps"] for one in remote] == [50, 50]
    assert len({one.settings["content_hash"] for one in [*remote, *remote_tasks(household)]}) == 8
    with pytest.raises(FormatError, match="no task of split 'validation'"):
        remote_tasks(household, "validation")


def test_tasks_of_a_server_that_lists_none_are_refused() -> None:
    with serve_env(make_env, []) as server:
        url = server.url
    with pytest.raises(ConfigError, match=r"no connection.*\n  Start the server"):
        load_tasks("http", "test", url=url, tasks="server", retries=0)


def test_nothing_is_left_after_200_episodes() -> None:
    tasks = [counting_task(f"count-{index}") for index in range(200)]
    world = CountingWorld()
    before = left()
    with serve_env(world.make, tasks) as server:
        listening = left()
        found = played(remote_tasks(server, "train"), ScriptedPolicy((), then="add"), concurrency=16)
        assert [one.error for one in found] == [None] * 200
        assert server.num_live == 0
        wait_until(lambda: left() == listening)
    assert left() == before
    assert world.num_closed == world.num_made == 200


def test_closing_the_server_closes_what_is_live() -> None:
    world = CountingWorld()
    before = left()
    with serve_env(world.make, [counting_task("count-1")]) as server:
        envs = [make_env(remote_tasks(server, "train")[0]) for _ in range(3)]
        for env in envs:
            env.reset(0)
        assert (world.num_made, server.num_live) == (3, 3)
    assert (world.num_closed, server.num_live) == (3, 0)
    for env in envs:
        with pytest.raises(EnvError, match="/close: no connection"):
            env.close()
    assert left() == before
    server.close()


def test_an_episode_that_nobody_plays_is_given_up() -> None:
    world = CountingWorld()
    with serve_env(world.make, [counting_task("c")], idle_seconds=0.0) as server:
        connection = JsonConnection(server.url, timeout=5, retries=0)
        first = connection.post("/reset", {"task": "c", "seed": 0})
        connection.post("/reset", {"task": {"id": "c"}, "seed": 0})
        assert (server.num_live, world.num_made, world.num_closed) == (1, 2, 1)
        with pytest.raises(ServerFault, match=r"status 404, .*given up"):
            connection.post("/step", {"episode_id": first["episode_id"], "action": "add"})
        connection.close()


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/reset", {"task": "no", "seed": 0}, "status 404, .*no task 'no' among the 1"),
        ("/reset", {"task": "c", "seed": "0"}, "status 400, .*'seed' is '0'"),
        ("/reset", ["c"], "status 400, .*the body is a list"),
        ("/step", {"episode_id": "x", "action": "add"}, "status 404, .*no episode 'x'"),
        ("/step", {"episode_id": "x", "action": 7}, "status 400, .*'action' is a int"),
        ("/state", {"episode_id": "x", "want": "everything"}, "status 400, .*'want' is 'everything'"),
        ("/dance", {}, "status 404, .*no /dance"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_reason(path: str, body: object, message: str) -> None:
    with serve_env(CountingEnv, [counting_task("c")]) as server:
        connection = JsonConnection(server.url, timeout=5, retries=0)
        with pytest.raises(ServerFault, match=message):
            connection.post(path, body)
        # The connection can still be used.
        assert connection.post("/close", {"episode_id": "x"}) == {"closed": True}
        connection.close()


def test_an_environment_that_fails_is_a_500() -> None:
    def broken(task: Task) -> Env:
        raise RuntimeError("no world")

    with serve_env(broken, [counting_task("c")]) as server:
        connection = JsonConnection(server.url, timeout=5, retries=0)
        with pytest.raises(ServerFault, match=r"status 500, .*RuntimeError: no world"):
            connection.post("/reset", {"task": "c", "seed": 0})
        connection.close()


def test_in_another_process(tmp_path: Path) -> None:
    script = (
        "from tutelage.envs.adapters.serve import serve_env\n"
        "from tutelage.envs.registry import make_env\n"
        "from tutelage.tasks.registry import load_tasks\n"
        "with serve_env(make_env, load_tasks('household', 'test', count=2)) as server:\n"
        "    print(server.url, flush=True)\n"
        "    server.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            local = load_tasks("household", "test", count=2)
            remote = load_tasks("http", "test", url=url, tasks="server")
            expert = make_expert("household")
            for here, there in zip(played(local, expert), played(remote, expert), strict=True):
                same(here, there)
        finally:
            process.terminate()


def left() -> tuple[int, int]:
    """Threads and descriptors of this process."""
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        threading.Event().wait(0.01)
    assert holds()
