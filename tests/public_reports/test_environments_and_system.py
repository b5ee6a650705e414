"""Reports about environments and the system: leaks, other data, other verbs, missing extras, replay, signals, engines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.cli.main import main
from tutelage.envs.household.engine import as_move
from tutelage.envs.household.env import HouseholdEnv
from tutelage.policies.registry import shortest_commands
from tutelage.rollout.episode import Limits, run_episode
from tutelage.rollout.replay import replay
from tutelage.rollout.runner import make_jobs, run_rollouts
from tutelage.rollout.switch import Never
from tutelage.run_dir import RunDir
from tutelage.tasks.base import manifest_hash
from tutelage.tasks.registry import load_tasks
from tutelage.testing import CountingEnv, CountingWorld, ScriptedPolicy, counting_task
from tutelage.types import Action, Actor, Task, Trajectory

S = Actor.STUDENT
linux = pytest.mark.skipif(sys.platform != "linux", reason="counts by /proc")
PlayByCommandLine = Callable[..., RunDir]


# E1


def census() -> tuple[int, int, int]:
    """Threads, child processes and descriptors of this process."""
    parents = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.append(int(stat.read_text().rpartition(")")[2].split()[1]))
        except OSError:
            continue  # It has ended meanwhile.
    return threading.active_count(), parents.count(os.getpid()), len(os.listdir("/proc/self/fd"))


@linux
def test_e1_nothing_is_left_of_200_rollouts() -> None:
    """AgentGym#62, uni-agent PR #199, ms-swift#9745, TextWorld#367: close was named and not called; 1,764 threads stayed."""
    ends: Sequence[dict[str, Any]] = (
        {"target": 1},
        {"target": 99, "max_steps": 3},
        {"die_at": 1},
        {"target": 1, "inline": False, "close_raises": True},
        {"target": 99, "max_steps": 3, "inline": False},
        {"crash_at": 1, "inline": False},
    )

    def some(count: int) -> CountingWorld:
        world = CountingWorld()
        tasks = [counting_task(f"c-{index}", **ends[index % 6]) for index in range(count)]
        run_rollouts(
            make_jobs(tasks), policies={S: ScriptedPolicy([], then="add")}, rule=Never(),
            limits=Limits(episode_seconds=20.0), retries=0, make_env=world.make, concurrency=20,
        )  # fmt: skip
        return world

    some(5)
    before, world = census(), some(200)
    assert [env.num_closed for env in world.envs] == [1] * 200
    assert world.num_closed == 200
    until = time.monotonic() + 5.0
    while not all(now <= then for now, then in zip(census(), before, strict=True)):
        assert time.monotonic() < until, (census(), before)
        time.sleep(0.01)


# E3


def test_e3_other_data_are_told_and_not_mixed_with_the_old(
    play_by_command_line: PlayByCommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """alfworld#106, alfworld#127: results on two releases of the data were compared as if they were one."""
    run = play_by_command_line("none")
    path = run.trajectories_path("first")
    before, played = manifest_of(run), path.read_bytes()
    assert before == manifest_hash(load_tasks("counter_worlds", "train", 0, 3))
    play_by_command_line("none")
    assert path.read_bytes() == played
    monkeypatch.setenv("COUNTER_DATA", " of another release")
    capsys.readouterr()
    play_by_command_line("none", more=())
    after = manifest_of(run)
    assert after == manifest_hash(load_tasks("counter_worlds", "train", 0, 3)) != before
    assert (
        f"note: rollout:first: its tasks or their data have changed (manifest {before[:12]}, now {after[:12]}); it is done "
        "again, and what was made from the former ones with it"
    ) in capsys.readouterr().err
    assert path.read_bytes() != played, "nothing of the old data is kept among the new"


def manifest_of(run: RunDir) -> str:
    record = run.record("rollout:first")
    assert record is not None
    return record.manifest


def game() -> Task:
    [task] = load_tasks("household", "train", 0, 1, size="small", accept_put=True)
    return task


@pytest.mark.parametrize("form", ["put {o} in/on {r}", "put {o} in {r}", "put {o} on {r}", "put {o} to {r}"])
def test_e3_all_forms_of_putting_are_one_action(form: str) -> None:
    """AgentGym#41, alfworld#106: the verb was renamed between releases, and players of the other one did nothing."""
    task = game()
    plan = shortest_commands(task)
    assert plan is not None
    moved = next(command for command in plan if command.startswith("move "))
    thing, _, place = moved.removeprefix("move ").partition(" to ")
    said = form.format(o=thing, r=place)
    assert as_move(said) == moved
    ends = []
    for last in (moved, said):
        env = HouseholdEnv(task)
        env.reset(task.seed)
        for command in plan[: plan.index(moved)]:
            env.step(Action.of(command))
        result = env.step(Action.of(last))
        ends.append((result, env.state_hash()))
        env.close()
    assert ends[0] == ends[1]
    assert ends[0][0].observation.text.startswith(f"You move the {thing} to the {place}.")


# E4


def test_e4_a_missing_extra_is_one_line_with_its_version(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """alfworld#111, #74, #55, #44, WebShop#28, #33, AgentGym#22, #57, ReAct#30: an import error in the middle of a run."""
    code = """
        import importlib.abc, sys

        class Absent(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("bm25s", "thefuzz", "gymnasium", "torch", "pyarrow"):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Absent())
        from tutelage.cli.main import main
        sys.exit(main(sys.argv[1:]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), "env", "check", "shop", "--episodes", "1"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    [line] = done.stderr.strip().splitlines()
    assert line.startswith("MissingExtra: ")
    assert line.endswith("needs the extra 'shop' (bm25s>=0.3, thefuzz>=0.22). Run: pip install \"tutelage[shop]\""), (
        line
    )


def test_e4_a_wrong_version_is_named(tmp_path: Path) -> None:
    """alfworld#111, WebShop#33, AgentGym#57: the package was there, in a version that played by other rules."""
    pretend(tmp_path, "transformers", "4.40.0")
    code, told = doctor(tmp_path)
    assert code == 1
    assert told["versions"]["transformers"] == "4.40.0"
    assert 'tutelage is tested with transformers 5. Run: pip install "transformers>=5,<6"' in told["conflicts"]


OPTIONAL = (
    "accelerate", "alfworld", "bm25s", "gymnasium", "httpx", "math_verify", "peft", "pyarrow", "safetensors", "textworld",
    "thefuzz", "tokenizers", "torch", "transformers", "verifiers", "vllm", "websockets",
)  # fmt: skip


def test_e4_the_core_works_without_any_extra(tmp_path: Path) -> None:
    """AgentGym#22, WebShop#28: one environment's packages were needed to import another's, and the library itself."""
    code = f"""
        import importlib.abc, sys

        class Absent(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in {OPTIONAL!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

        sys.meta_path.insert(0, Absent())
        import tutelage
        from tutelage.cli.main import main
        from tutelage.rollout.runner import make_jobs, run_rollouts
        from tutelage.rollout.switch import ExpertOnly
        from tutelage.policies.registry import make_expert
        from tutelage.store import RecordStore
        from tutelage.types import Actor

        tasks = tutelage.load_tasks("household", "train", count=2)
        policies = {{Actor.EXPERT: make_expert("household")}}
        store = RecordStore("t.jsonl", "trajectory")
        summary = run_rollouts(make_jobs(tasks), policies=policies, rule=ExpertOnly(), store=store)
        assert summary.mean_reward == 1.0
        sys.exit(main(["show", "t.jsonl"]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


# E5


COMMANDS = ("add", "look", "wait", "add now", "")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(COMMANDS), max_size=6), st.integers(0, 2**31))
def test_e5_the_same_seed_gives_the_same_bits(commands: list[str], seed: int) -> None:
    """deepmind-lab#133, Gymnasium PR #1705: two resets with one seed differed, by a generator that nobody had seeded."""
    plays = []
    for _ in range(2):
        env = CountingEnv(counting_task(target=9))
        seen = [env.reset(seed)]
        seen += [env.step(Action(text=one, command=one)).observation for one in commands]
        plays.append([*seen, env.state_hash()])
        env.close()
    assert plays[0] == plays[1]


def played(**options: Any) -> tuple[Task, Trajectory]:
    task = counting_task(target=3, **options)
    commands = ScriptedPolicy(["look", "add", "look", "add", "add"])
    return task, run_episode(task, CountingEnv(task), {S: commands}, Never(), seed=0, state_hashes=True)


def test_e5_a_replay_names_the_first_step_that_differs() -> None:
    """SWE-agent#1068, open-range#205, benchflow PR #1045: a replay that had gone another way was used all the same."""
    task, trajectory = played()
    assert replay(trajectory, task, CountingEnv).difference is None
    task, trajectory = played(hidden_clock=True)
    found = replay(trajectory, task, CountingEnv).difference
    assert found is not None
    assert (found.step_index, found.what) == (0, "observation")


def test_e5_the_audit_replays_in_a_fresh_process_and_names_the_step(
    counter_worlds: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """deepmind-lab#133, Gymnasium PR #1705: `tutelage env check` finds the hidden clock, exit code 1."""
    assert (
        main(["env", "check", "counter_worlds", "--set", "fault=hidden_clock", "--episodes", "5", "--tasks", "1"]) == 1
    )
    out = capsys.readouterr().out
    failed = {line.split()[1] for line in out.splitlines() if line.startswith("FAIL")}
    assert "reset" in failed
    assert "Tick" in out
    assert main(["env", "check", "counter_worlds", "--episodes", "5", "--tasks", "1"]) == 0


# S1


@pytest.fixture
def start_and_signal(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.syspath_prepend(str(fixtures / "signals"))
    import start_and_signal as module  # type: ignore[import-not-found]

    found: Callable[..., Any] = module.start_and_signal
    return found


BOUND = 5.0
"""Seconds from the signal to the end, on a busy machine; an update of this training takes milliseconds."""


@linux
@pytest.mark.parametrize("times", [1, 2])
def test_s1_ctrl_c_in_the_training_step(
    tmp_path: Path, fixtures: Path, start_and_signal: Callable[..., Any], times: int
) -> None:
    """rllm PR #568, SkyRL#1216, vllm#2050, #16259, ray#48441: the run hung on Ctrl-C, its workers went on."""
    out = tmp_path / "run"
    metrics = out / "models" / ".long.training" / "metrics.jsonl"
    ended = start_and_signal(
        ["run", str(fixtures / "signals" / "training.yaml"), "--out", str(out)],
        when=lambda: metrics.is_file() and metrics.stat().st_size > 0,
        signals=[signal.SIGINT] * times,
    )
    assert (ended.code, ended.left) == (130, [])
    assert ended.seconds < BOUND
    assert "Traceback" not in ended.errors
    if times == 1:
        assert (metrics.parent / "checkpoint.pt").is_file(), "the update was finished and kept"


@linux
def test_s1_a_worker_that_is_gone_ends_the_run(
    tmp_path: Path, fixtures: Path, counter_worlds: None, start_and_signal: Callable[..., Any]
) -> None:
    """SkyRL#1216, ray#48441: one worker was gone, and the others waited for it for ever."""
    recipe = tmp_path / "recipe.yaml"
    text = (fixtures / "signals" / "rollout.yaml").read_text()
    recipe.write_text(text.replace("second_hangs", "ends_its_process").replace("workers: 1", "workers: 2"))
    ended = start_and_signal(["run", str(recipe), "--out", str(tmp_path / "run")], when=lambda: True, signals=[])
    assert (ended.code, ended.left) == (1, [])
    assert "StageError: stage rollout:first: its worker process ended with code 3" in ended.errors


# S3


CORE = (
    "tutelage", "tutelage.cli.main", "tutelage.envs.registry", "tutelage.tasks.registry", "tutelage.policies.registry",
    "tutelage.policies.endpoint", "tutelage.rollout.runner", "tutelage.selection.ledger", "tutelage.supervision.samples",
    "tutelage.supervision.step_credit", "tutelage.formats.registry", "tutelage.formats.export", "tutelage.evaluation.run",
    "tutelage.evaluation.env_check", "tutelage.evaluation.judge.base", "tutelage.reports.html", "tutelage.pipeline.run",
)  # fmt: skip


def test_s3_the_core_imports_no_engine() -> None:
    """trl#4722, trl PR #4122, OpenRLHF#967: an engine of another version broke the import of everything."""
    code = f"import sys; import {', '.join(CORE)}; print([one for one in {OPTIONAL!r} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_s3_an_engine_that_does_not_load_disturbs_nobody(tmp_path: Path) -> None:
    """trl#4722, trl PR #4122: an engine was installed, in a version that raised when it was imported."""
    for name in ("vllm", "sglang", "verl"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('built for another version')\n")
    code = (
        "import tutelage, tutelage.cli.main; from tutelage.formats import export; from tutelage.rollout import runner"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=with_path(tmp_path)
    )
    assert done.returncode == 0, done.stderr


def with_path(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def pretend(folder: Path, package: str, version: str) -> None:
    """The package is installed in this version, as far as anybody can read."""
    info = folder / f"{package}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")


def doctor(folder: Path) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tutelage", "doctor", "--json"],
        capture_output=True, text=True, check=False, env=with_path(folder),
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


def test_s3_the_doctor_tells_versions_and_the_conflicts_that_apply(tmp_path: Path) -> None:
    """trl#4722, OpenRLHF#967: which engine goes with which version was found out by trying."""
    code, told = doctor(tmp_path)
    assert (code, told["conflicts"]) == (0, [])
    assert told["versions"]["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert "numpy" in told["versions"]
    pretend(tmp_path, "vllm", "0.9.0")
    code, told = doctor(tmp_path)
    assert code == 1
    assert told["versions"]["vllm"] == "0.9.0"
    [conflict] = told["conflicts"]
    assert conflict.startswith("vllm pins transformers and torch narrowly.")
