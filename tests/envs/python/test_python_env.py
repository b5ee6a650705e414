"""The python environment: what an episode shows, what it takes as an answer, and that hostile code harms nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutelage.envs.action_formats import action_of
from tutelage.envs.python.env import (
    ACTION_FORMAT,
    ANSWERED,
    INSTRUCTIONS,
    NO_OUTPUT,
    STOPPED,
    UNREADABLE,
    PythonEnv,
    output_text,
)
from tutelage.envs.sandbox import PYTHON_LIMITS, SandboxResult
from tutelage.errors import ConfigError, EnvError
from tutelage.tasks.python import PythonTasks
from tutelage.types import Action, ParsedCall, Task

pytestmark = pytest.mark.usefixtures("python_sandbox")

SHORT = {"seconds": 5, "cpu_seconds": 2, "memory_mb": 256, "output_chars": 200}


def task(**options) -> Task:
    """The problem `What is 77 + 54?`."""
    return PythonTasks(levels=["sums"], **options).load("train", 0, 1)[0]


def started(**options) -> PythonEnv:
    env = PythonEnv(task(**options))
    assert env.reset(0).text == "What is 77 + 54?"
    return env


def python(code: str) -> Action:
    return action_of(ACTION_FORMAT, ParsedCall(name="python", arguments={"code": code}))


def said(env: PythonEnv, text: str) -> str:
    return env.step(Action(text=text, command=text)).observation.text


def test_an_episode():
    env = started()
    result = env.step(python("print(77 + 54)"))
    assert (result.observation.text, result.reward, result.terminated, result.truncated) == ("131", 0.0, False, False)
    assert env.no_answer
    result = env.step(Action(text="So it is <answer> 131 </answer>.", command="x"))
    assert (result.observation.text, result.reward, result.terminated, result.truncated) == (ANSWERED, 1.0, True, False)
    assert not env.no_answer
    with pytest.raises(EnvError, match="after the end"):
        env.step(python("1"))
    env.close()
    env.close()


@pytest.mark.parametrize(
    ("text", "observation", "reward", "no_answer"),
    [
        ("<answer>131</answer>", ANSWERED, 1.0, False),
        ("<answer>0131</answer>", ANSWERED, 1.0, False),
        ("It is \\boxed{13}, no, \\boxed{131}.", ANSWERED, 1.0, False),
        ("<answer>\\boxed{131}</answer>", ANSWERED, 1.0, False),
        ("<answer>130</answer>", ANSWERED, 0.0, False),
        ("<answer>the answer is 131</answer>", UNREADABLE, 0.0, True),
        ("<answer>I do not know</answer>", UNREADABLE, 0.0, True),
    ],
)
def test_answers(text, observation, reward, no_answer):
    env = started()
    assert said(env, text) == observation
    assert (env.reward(), env.no_answer) == (reward, no_answer)


@pytest.mark.parametrize(
    "text",
    [
        "131",
        "<answer></answer>",
        "<python>print(1)</python",
        "<answer>1<answer>2</answer>",
        "<python><answer>1</answer>",
    ],
)
def test_malformed(text):
    env = started()
    before = env.state_hash()
    assert said(env, text) == ACTION_FORMAT.help
    assert (env.state_hash(), env.life.num_steps) == (before, 1)


@pytest.mark.parametrize(
    ("code", "observation"),
    [
        ("print('a')\n1 / 0", "a\nZeroDivisionError: division by zero"),
        ("x = 1", NO_OUTPUT),
        ("42", NO_OUTPUT),
        ("print()", NO_OUTPUT),
        ("```python\nprint(3)\n```", "3"),
        ("import sys; print('seen', file=sys.stderr)", NO_OUTPUT),
        ("input()", "EOFError: EOF when reading a line"),
        ("import numpy", "ModuleNotFoundError: No module named 'numpy'"),
        ("print('x' * 1000)", "x" * 200 + "\n[... output cut ...]"),
        ("import ctypes; ctypes.string_at(0)", "Stopped: the process ended by signal 11."),
        ("import time; time.sleep(60)", STOPPED["timeout"]),
        ("while True: print('x' * 1000)", STOPPED["output"]),
        ("import os\nwhile True: os.fork()", STOPPED["processes"]),
        ("held = 'x' * 10**9", "MemoryError"),
    ],
)
def test_what_code_shows(code, observation):
    env = started(limits=SHORT | {"seconds": 2} if "sleep" in code else SHORT)
    result = env.step(python(code))
    assert result.observation.text == observation
    assert (result.reward, result.terminated) == (0.0, False)
    # The agent's error, not the machinery's: the episode goes on and can still be won.
    assert env.step(python("print(2)")).observation.text == "2"
    assert said(env, "<answer>131</answer>") == ANSWERED
    assert env.reward() == 1.0


def test_every_run_starts_afresh():
    env = started()
    env.step(python("x = 6 * 7"))
    assert env.step(python("print(x)")).observation.text == "NameError: name 'x' is not defined"


def test_persist_replays_earlier_runs():
    env = started(persist=True, limits=SHORT | {"seconds": 2})
    assert env.step(python("x = 6 * 7; print(x)")).observation.text == "42"
    assert env.step(python("y = x + 1\n1 / 0")).observation.text == "ZeroDivisionError: division by zero"
    assert env.step(python("import time; x = 0; time.sleep(60)")).observation.text == STOPPED["timeout"]
    # What failed had its effects until it failed; what was stopped had none.
    assert env.step(python("print(x, y)")).observation.text == "42 43"


def test_truncation_and_an_answer_in_the_last_step():
    env = started(max_steps=2)
    assert not env.step(python("print(1)")).truncated
    result = env.step(python("print(1)"))
    assert (result.terminated, result.truncated, env.no_answer, env.reward()) == (False, True, True, 0.0)
    env = started(max_steps=1)
    result = env.step(Action.of("<answer>131</answer>"))
    assert (result.terminated, result.truncated, env.reward()) == (True, False, 1.0)


def test_snapshot():
    env = started(persist=True)
    env.step(python("x = 1"))
    moment = env.snapshot()
    env.step(python("x = 2"))
    env.step(Action.of("<answer>1</answer>"))
    env.restore(moment)
    assert (env.life.num_steps, env.no_answer) == (1, True)
    assert env.step(python("print(x)")).observation.text == "1"
    env.close()
    with pytest.raises(EnvError, match="after close"):
        env.restore(moment)


def test_single_use():
    env = started()
    with pytest.raises(EnvError, match="second time"):
        env.reset(0)
    with pytest.raises(EnvError, match="before reset"):
        PythonEnv(task()).step(python("1"))


def test_a_changed_problem_is_noticed():
    one = task()
    changed = Task(task_id="t", env="python", goal="", settings=dict(one.settings) | {"content_hash": "0" * 64})
    with pytest.raises(EnvError, match="the task was made of 000000000000"):
        PythonEnv(changed)


def test_the_answer_is_out_of_reach(tmp_path):
    """Neither the file of the problems, nor the process that judges, nor the repository is there."""
    path = tmp_path / "problems.jsonl"
    path.write_text('{"id": "1", "problem": "What is it?", "answer": "42"}\n')
    env = PythonEnv(PythonTasks("aime", path=path).load("test")[0])
    assert env.reset(0).text == "What is it?"
    places = [str(path), str(Path(__file__).parents[3]), "/proc/self/environ", "/etc/hostname"]
    code = (
        "import os, gc\n"
        f"print([place for place in {places!r} if os.path.exists(place)])\n"
        "print([x for x in gc.get_objects() if isinstance(x, dict) and 'answer' in x and x is not globals()])"
    )
    assert env.step(python(code)).observation.text == "[]\n[]"


def test_same_actions_show_the_same_in_a_fresh_process():
    code = "import random; print(random.random(), hash('x'), {'a', 'b'}, [1][1:] or id is id)"
    script = (
        "import sys, json\n"
        "from tutelage.envs.python.env import PythonEnv\n"
        "from tutelage.tasks.python import PythonTasks\n"
        "from tutelage.types import Action\n"
        "env = PythonEnv(PythonTasks(levels=['sums']).load('train', 0, 1)[0]); env.reset(0)\n"
        f"print(json.dumps([env.step(Action.of(text)).observation.text for text in {[f'<python>{code}</python>'] * 2!r}]))"
    )
    fresh = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    env = started()
    shown = env.step(python(code)).observation.text
    assert json.loads(fresh) == [shown, shown]


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=60))
def test_any_code_gives_an_observation(code):
    env = started()
    observation = env.step(Action.of(f"<python>{code}</python>")).observation.text
    assert observation


@pytest.mark.parametrize(
    ("stdout", "stderr", "exit_code", "text"),
    [
        ("a\n\n", "", 0, "a"),
        ("", "Traceback\nValueError: b\n", 1, "ValueError: b"),
        ("a\n", "", 3, "a"),
        ("", "", 139, "Stopped: the process ended by signal 11."),
    ],
)
def test_output_text(stdout, stderr, exit_code, text):
    result = SandboxResult(
        exit_code=exit_code, stdout=stdout, stderr=stderr, timed_out=False, output_cut=False, seconds=0, killed_by=None
    )
    assert output_text(result, PYTHON_LIMITS) == text


def test_instructions_show_what_the_format_reads():
    example = INSTRUCTIONS.rpartition("Example")[2]
    lines = [line.removeprefix("You: ") for line in example.split("\n") if line.startswith("You: ")]
    calls = [ACTION_FORMAT.apply(Action.of(line)).call for line in lines]
    assert calls == [
        ParsedCall(name="python", arguments={"code": "print(12 * 34)"}),
        ParsedCall(name="answer", arguments={"text": "408"}),
    ]


def test_limits_are_checked():
    with pytest.raises(ConfigError, match="unknown 'second'"):
        task(limits={"second": 1})
