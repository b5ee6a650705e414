from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tutelage.envs.action_formats import action_of
from tutelage.envs.repo.env import RepoEnv, shared_sandbox
from tutelage.envs.repo.problem import problem_of
from tutelage.envs.repo.settings import FORMATS
from tutelage.errors import ConfigError, PolicyError
from tutelage.policies.base import PartialTrajectory
from tutelage.policies.experts.repo import RepoExpert
from tutelage.rollout.episode import run_episode
from tutelage.rollout.switch import ExpertOnly
from tutelage.tasks.registry import load_tasks
from tutelage.types import Action, Actor, Observation, ParsedCall, Step, StopReason, Task


@pytest.fixture(scope="module")
def sandboxed() -> None:
    try:
        shared_sandbox("auto", False)
    except ConfigError as error:
        pytest.skip(f"no sandbox works here: {error}")


@pytest.fixture(scope="module")
def task() -> Task:
    (found,) = load_tasks("repo", "train", start=1, count=1)
    return found


def so_far(task: Task, *played: tuple[dict[str, Any] | None, str]) -> PartialTrajectory:
    """A record: calls as (arguments with the tool's name, reply)."""
    observation = Observation.of(task.goal)
    steps = []
    for call, reply in played:
        action = Action(text="?", command="?") if call is None else action_of(FORMATS["functions"], _call(call))
        steps.append(Step(observation=observation, action=action, actor=Actor.STUDENT))
        observation = Observation.of(reply)
    return PartialTrajectory(trajectory_id="t", task=task, steps=tuple(steps), observation=observation, seed=0)


def _call(call: Mapping[str, Any]) -> ParsedCall:
    return ParsedCall(name=call["name"], arguments={name: value for name, value in call.items() if name != "name"})


def next_call(task: Task, *played: tuple[dict[str, Any] | None, str]) -> dict[str, Any]:
    call = RepoExpert().act(so_far(task, *played)).call
    assert call is not None
    return {"name": call.name, **call.arguments}


def numbered(text: str) -> str:
    return "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(text.split("\n")[:-1], start=1))


@pytest.mark.parametrize(("action_format", "split"), [("functions", "train"), ("tool_calls", "test")])
def test_a_whole_episode(sandboxed: None, action_format: str, split: str) -> None:
    (task,) = load_tasks("repo", split, start=2, count=1, action_format=action_format)
    trajectory = run_episode(task, RepoEnv(task), {Actor.EXPERT: RepoExpert()}, ExpertOnly(), seed=0)
    assert (trajectory.stop_reason, trajectory.reward) == (StopReason.COMPLETED, 1.0)
    calls = [step.action.call for step in trajectory.steps if step.action.call]
    assert [(call.name, call.arguments.get("command", "")[:6]) for call in calls] == [
        ("bash", "grep -"),
        ("edit", "view"),
        ("bash", "python"),
        ("edit", "str_re"),
        ("bash", "python"),
        ("submit", ""),
    ]
    path = calls[1].arguments["path"]
    assert f"{path}:" in trajectory.steps[1].observation.text
    assert all(
        FORMATS[action_format].apply(Action.of(step.action.text)).call == step.action.call for step in trajectory.steps
    )


def test_it_takes_over_a_workspace_in_disorder(sandboxed: None, task: Task) -> None:
    problem = problem_of(task.settings)
    assert problem.fix is not None
    (path,) = problem.fix
    other = next(
        name
        for name in problem.tree
        if name.endswith(".py") and "/" in name and name not in problem.tests and name != path
    )
    env = RepoEnv(task)
    observation = env.reset(0)
    steps: list[Step] = []
    mess = [
        ParsedCall(
            name="bash", arguments={"command": f"rm {path}; mkdir {path}; touch {path}/x; cd {path.split('/')[0]}"}
        ),
        ParsedCall(
            name="bash", arguments={"command": f"echo 'syntax error here' >> ../{other}; echo x > '../-odd name.py'"}
        ),
        ParsedCall(name="edit", arguments={"command": "create", "path": "../tests/test_new.py", "file_text": "boom\n"}),
        ParsedCall(name="edit", arguments={"command": "create", "path": "/workspace/extra.py", "file_text": "x = 1\n"}),
    ]
    expert = RepoExpert()
    for index in range(30):
        if index < len(mess):
            action = action_of(env.action_format, mess[index])
        else:
            record = PartialTrajectory(
                trajectory_id="t", task=task, steps=tuple(steps), observation=observation, seed=0
            )
            action = expert.act(record)
            # A function of the record: another expert says the same.
            assert RepoExpert().act(record) == action
        steps.append(Step(observation=observation, action=action, actor=Actor.STUDENT))
        result = env.step(action)
        observation = result.observation
        if result.terminated:
            break
    assert env.reward() == 1.0
    final = env._workspace.tree()
    assert final.only(lambda name: name not in ("tests/test_new.py",)) == problem.tree.changed(problem.fix)
    env.close()


def test_it_sees_the_file_before_it_changes_it(task: Task) -> None:
    problem = problem_of(task.settings)
    assert problem.fix is not None
    ((path, fixed),) = problem.fix.items()
    assert fixed is not None
    text, wanted = problem.tree[path].data.decode(), fixed.data.decode()
    locate = next_call(task)
    assert locate["name"] == "bash"
    assert locate["command"].startswith("grep -rn --include='*.py' 'def ")
    looked = (locate, f"./{path}:1:def f\n[exit status 0]")
    view = next_call(task, looked)
    assert view == {"name": "edit", "command": "view", "path": path}
    viewed = (view, numbered(text))
    run = next_call(task, looked, viewed)
    assert run["command"].startswith("python -m pytest -q tests/")
    tested = (run, "1 failed\n[exit status 0]")
    edit = next_call(task, looked, viewed, tested)
    assert (edit["command"], edit["path"]) == ("str_replace", path)
    assert text.count(edit["old_str"]) == 1
    assert text.replace(edit["old_str"], edit["new_str"]) == wanted
    edited = (edit, f"Edited {path}:\n...")
    again = next_call(task, looked, viewed, tested, edited)
    assert again == run
    assert next_call(task, looked, viewed, tested, edited, (again, "1 passed\n[exit status 0]")) == {"name": "submit"}


def test_what_a_reply_tells_is_believed(task: Task) -> None:
    problem = problem_of(task.settings)
    assert problem.fix is not None
    ((path, fixed),) = problem.fix.items()
    assert fixed is not None
    wanted = fixed.data.decode()
    view = {"name": "edit", "command": "view", "path": f"/workspace/{path}"}
    # Somebody has repaired it: run the tests, submit.
    assert next_call(task, (view, numbered(wanted)))["command"].startswith("python -m pytest")
    # Changed by a command since: look again.
    touch = {"name": "bash", "command": "sed -i s/a/b/ x"}
    call = next_call(task, (view, numbered(wanted)), (touch, f"[exit status 0; changed {path}]"))
    assert call == {"name": "edit", "command": "view", "path": path}
    # In a subfolder paths are relative to it.
    moved = {"name": "bash", "command": "cd tests"}
    call = next_call(task, (moved, "[exit status 0; working directory tests]"))
    assert call == {"name": "edit", "command": "view", "path": f"../{path}"}
    # A refused replacement: write the file whole.
    seen = (view, numbered(problem.tree[path].data.decode()))
    tested = ({"name": "bash", "command": "pytest"}, "[exit status 1]")
    refused = ({"name": "edit", "command": "str_replace", "path": path, "old_str": "a", "new_str": "b"}, "Error: no")
    call = next_call(task, seen, tested, refused)
    assert (call["command"], call["file_text"]) == ("create", wanted)
    # Too long to be shown whole: likewise.
    call = next_call(task, (view, "     1\tx\n[... output cut ...]\n"), tested)
    assert (call["command"], call["file_text"]) == ("create", wanted)


def test_malformed_steps_are_passed_over(task: Task) -> None:
    assert next_call(task, (None, "help"))["command"].startswith("grep")


def test_no_repair_no_expert(tmp_path: Any) -> None:
    (tmp_path / "a.py").write_text("")
    settings = {"folder": ".", "root": str(tmp_path), "statement": "s", "fail_to_pass": ["t.py::test"]}
    with pytest.raises(PolicyError, match="comes without a repair"):
        RepoExpert().act(so_far(Task(task_id="u", env="repo", goal="", settings=settings)))
