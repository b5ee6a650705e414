from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tutelage.envs.action_formats import action_of
from tutelage.envs.base import StepResult
from tutelage.envs.repo.env import AUTO_SUBMITTED, INSTRUCTIONS, REVIEW, SUBMITTED, RepoEnv
from tutelage.envs.repo.instructions import instructions_of
from tutelage.envs.repo.patch import apply_patch
from tutelage.envs.repo.problem import Problem
from tutelage.envs.repo.settings import FORMATS
from tutelage.envs.sandbox.base import Sandbox
from tutelage.envs.sandbox.limits import SandboxUnsafe
from tutelage.errors import ConfigError, EnvError
from tutelage.types import Action, ParsedCall, Task

Begin = Callable[..., tuple[RepoEnv, Callable[..., StepResult]]]


def text_of(result: StepResult) -> str:
    return result.observation.text


def test_a_whole_episode(episode: Begin) -> None:
    env, play = episode()
    assert text_of(play("bash", command="cd shop && ls; echo $PWD")) == (
        "__init__.py\nprices.py\n/workspace/shop\n[exit status 0; working directory shop]"
    )
    assert text_of(play("bash", command="pwd; cd ..; false")) == "/workspace/shop\n[exit status 1]"
    shown = text_of(play("bash", command="python -m pytest -q | tail -n 4"))
    assert "FAILED tests/test_prices.py::test_price - assert 7 == 12" in shown
    assert shown.endswith("\n2 failed, 1 passed in 0.00s\n[exit status 0]")
    edited = text_of(play("edit", command="str_replace", path="shop/prices.py", old_str="+ each", new_str="* each"))
    assert edited.startswith(
        "Edited shop/prices.py:\n     1\tdef price(pieces, each=3):\n     2\t    return pieces * each\n"
    )
    assert env.progress() is None
    end = play("submit")
    assert (text_of(end), end.reward, end.terminated, end.truncated) == (SUBMITTED, 1.0, True, False)
    assert (env.reward(), env.progress(), env.auto_submitted) == (1.0, 1.0, False)


def test_doing_nothing_solves_nothing(episode: Begin) -> None:
    env, play = episode()
    assert play("submit").reward == 0.0
    assert env.progress() == pytest.approx(1 / 3)


def test_both_action_formats_make_the_same_episode(episode: Begin) -> None:
    texts = []
    for name in FORMATS:
        _, play = episode(action_format=name)
        texts.append(
            [
                text_of(play("bash", command="printf 'a\\n' > 'new file'; rm README.md; echo </b> \"x\"")),
                text_of(play("edit", command="view", path="shop/prices.py", last_line="2")),
                text_of(play("edit", command="create", path="a/b.txt", file_text="two\n\nlines\n")),
                text_of(play("edit", command="insert", path="a/b.txt", insert_line="0", insert_text="  zero")),
                text_of(play("bash", command="cat -A a/b.txt; ls -l")),
            ]
        )
    assert texts[0] == texts[1]
    assert texts[0][0].endswith('[exit status 1; changed -README.md, +"new file"]')
    assert texts[0][4].startswith("  zero$\ntwo$\n$\nlines$\ntotal ")


@pytest.mark.parametrize("name", FORMATS)
def test_instructions_hold_an_example_that_can_be_read(name: str) -> None:
    example = instructions_of(name).partition("written like this:")[2]
    action = FORMATS[name].apply(Action.of(example))
    assert action.call is not None
    assert action.call.arguments == {
        "command": "str_replace",
        "path": "shop/prices.py",
        "old_str": "    return price + rebate",
        "new_str": "    return price - rebate",
    }
    help_call = FORMATS[name].apply(Action.of(FORMATS[name].help)).call
    assert help_call == ParsedCall(name="bash", arguments={"command": "ls"})
    assert "You have 75 calls." in INSTRUCTIONS


def test_a_reply_without_a_call_costs_a_step(episode: Begin) -> None:
    env, play = episode(max_steps=2)
    before = env.state_hash()
    assert text_of(env.step(Action.of("I would rather not."))) == FORMATS["functions"].help
    assert (env.state_hash(), env.life.num_steps) == (before, 1)
    result = play("bash")
    assert (text_of(result), result.truncated, result.reward) == ("Error: bash needs 'command'.", True, 0.0)
    with pytest.raises(EnvError, match="after the end of the episode"):
        play("submit")


def test_auto_submit_is_off_unless_asked_for_and_marked(episode: Begin, shop: Problem) -> None:
    assert shop.fix is not None
    fixed = (shop.fix["shop/prices.py"] or shop.tree["shop/prices.py"]).data.decode()
    env, play = episode(max_steps=1)
    result = play("edit", command="create", path="shop/prices.py", file_text=fixed)
    assert (result.truncated, result.reward, env.auto_submitted) == (True, 0.0, False)
    env, play = episode(max_steps=1, auto_submit=True)
    result = play("edit", command="create", path="shop/prices.py", file_text=fixed)
    assert (result.truncated, result.terminated, result.reward, env.auto_submitted) == (True, False, 1.0, True)
    assert text_of(result).endswith(f"\n{AUTO_SUBMITTED}")


def test_submit_on_the_last_step_is_an_end_of_the_task(episode: Begin) -> None:
    _, play = episode(max_steps=1)
    result = play("submit")
    assert (result.terminated, result.truncated) == (True, False)


def test_review_shows_the_change_first(episode: Begin, shop: Problem) -> None:
    env, play = episode(review=True)
    assert text_of(play("submit")) == f"{REVIEW}(nothing was changed)"
    _, play = episode(review=True)
    play("edit", command="str_replace", path="shop/prices.py", old_str="+ each", new_str="* each")
    first = play("submit")
    assert not first.terminated
    assert text_of(first).startswith(f"{REVIEW}diff --git a/shop/prices.py b/shop/prices.py\n")
    assert play("submit").terminated
    assert env.life.num_steps == 1


def test_the_patch_of_an_episode(episode: Begin, shop: Problem) -> None:
    env, play = episode()
    play("bash", command="printf 'x\\r\\ny' > odd\\ name; rm shop/__init__.py; chmod +x README.md")
    assert apply_patch(shop.tree, env.patch()) == env._workspace.tree()


def test_the_repository_in_the_workspace_has_no_history(episode: Begin) -> None:
    env, play = episode(git=True)
    first = text_of(
        play("bash", command="git log --format='%H %s' --all; git status --short; git stash list; git reflog")
    )
    lines = first.split("\n")
    assert [line.split(" ", 1)[1] for line in lines[:1]] == ["start"]
    assert len(lines) == 3
    play("edit", command="create", path="README.md", file_text="other\n")
    committed = text_of(play("bash", command="git diff --stat; git commit -qam change; git rev-parse HEAD"))
    assert " README.md | 2 +-" in committed
    env.close()
    _, again = episode(git=True)
    again("bash", command="true")
    again("edit", command="create", path="README.md", file_text="other\n")
    assert text_of(again("bash", command="git diff --stat; git commit -qam change; git rev-parse HEAD")) == committed


def test_same_actions_same_texts(episode: Begin) -> None:
    def play_once() -> list[Any]:
        env, play = episode()
        commands = [
            "python -m pytest -q; ls -la shop; stat -c '%n %y' README.md; echo $RANDOM >/dev/null",
            'python -c \'print({"b", "a"}, object())\'; id; hostname; env | sort | grep -v TUTELAGE',
            "echo x > y",
            "stat -c '%n %y' y .; find . -newer README.md",
        ]
        texts = [text_of(play("bash", command=command)) for command in commands]
        return [*texts, env.state_hash()]

    assert play_once() == play_once()


def test_output_keeps_its_beginning_and_its_end(episode: Begin) -> None:
    _, play = episode(output_chars=100)
    text = text_of(play("bash", command="seq 1000"))
    assert text.startswith("1\n2\n3\n")
    assert "\n[... output cut ...]\n" in text
    assert text.endswith("999\n1000\n[exit status 0]")


def test_what_is_no_text_is_shown_with_marks(episode: Begin) -> None:
    _, play = episode()
    assert text_of(play("bash", command=r"printf 'a\xff\0b\n'")) == "a\ufffd\ufffdb\n[exit status 0]"
    assert text_of(play("bash", command="exit 3")) == "[exit status 3]"
    assert text_of(play("bash", command="echo 'unclosed")).endswith("[exit status 2]")


def test_an_episode_is_single_use_and_leaves_nothing(shop_task: Callable[..., Task], sandbox: Sandbox) -> None:
    env = RepoEnv(shop_task())
    with pytest.raises(EnvError, match="step before reset"):
        env.step(Action.of("x"))
    env.reset(0)
    folder = env._scratch
    assert folder.is_dir()
    with pytest.raises(EnvError, match="reset a second time"):
        env.reset(0)
    env.close()
    env.close()
    assert not folder.exists()
    with pytest.raises(EnvError, match="after close"):
        env.step(Action.of("x"))
    assert RepoEnv(shop_task()).close() is None


def test_a_lost_episode_is_cleaned_up(shop_task: Callable[..., Task], sandbox: Sandbox) -> None:
    env = RepoEnv(shop_task())
    env.reset(0)
    folder = env._scratch
    del env
    assert not folder.exists()


def test_closed_while_a_command_runs(shop_task: Callable[..., Task], sandbox: Sandbox) -> None:
    env = RepoEnv(shop_task())
    env.reset(0)
    call = action_of(env.action_format, ParsedCall(name="bash", arguments={"command": "touch started; sleep 1"}))
    thread = threading.Thread(target=env.step, args=(call,))
    thread.start()
    while not (env._scratch / "work" / "started").exists():
        time.sleep(0.01)
    env.close()
    assert env._scratch.exists()
    thread.join()
    assert not env._scratch.exists()


def test_a_verifier_that_fails_gives_no_reward(episode: Begin) -> None:
    env, play = episode()
    env._toolbox.check_script = "/nowhere.py"
    result = play("submit")
    assert (result.terminated, result.reward, env.reward()) == (True, None, None)
    assert "the tests could not be started" in env.check_error


def test_settings_that_cannot_be(shop_task: Callable[..., Task]) -> None:
    with pytest.raises(ConfigError, match=r"unknown 'max_step'\. Did you mean 'max_steps'"):
        RepoEnv(shop_task(max_step=3))
    with pytest.raises(ConfigError, match="action_format: unknown 'xml'"):
        RepoEnv(shop_task(action_format="xml"))
    with pytest.raises(ConfigError, match="max_steps is 0"):
        RepoEnv(shop_task(max_steps=0))
    with pytest.raises(ConfigError, match="neither 'package' with 'bug' nor 'folder'"):
        RepoEnv(Task(task_id="x", env="repo", goal="")).reset(0)


def test_a_changed_problem_is_noticed(shop_task: Callable[..., Task]) -> None:
    with pytest.raises(
        EnvError, match=r"task shop-1: the problem has content hash [0-9a-f]{12}, the task was made of 000000000000"
    ):
        RepoEnv(shop_task(content_hash="0" * 64)).reset(0)


def test_arguments_that_are_no_text(episode: Begin) -> None:
    env, _ = episode(action_format="tool_calls")
    call = ParsedCall(
        name="edit", arguments={"command": "insert", "path": "README.md", "insert_line": 1, "insert_text": 5}
    )
    assert text_of(env.step(action_of(env.action_format, call))) == "Edited README.md:\n     1\t# shop\n     2\t5"
    empty = ParsedCall(name="bash", arguments={"command": None})
    assert text_of(env.step(action_of(env.action_format, empty))) == "Error: bash needs 'command'."


def test_a_long_command_arrives_whole(episode: Begin) -> None:
    _, play = episode()
    command = "cat > big.txt <<'END'\n" + "x" * 300_000 + "\nEND\nwc -c big.txt"
    assert text_of(play("bash", command=command)) == "300001 big.txt\n[exit status 0; changed +big.txt]"


def test_tests_of_the_tree_are_found_by_all_names(episode: Begin) -> None:
    _, play = episode()
    text = text_of(
        play("bash", command="cd tests; pytest -q test_prices.py | tail -n 1; python3 -m pytest -q | tail -n 1")
    )
    assert text.startswith("2 failed, 1 passed in 0.00s\n2 failed, 1 passed in 0.00s\n")


def test_no_file_of_ours_is_visible(episode: Begin) -> None:
    _, play = episode()
    ours = Path(__file__).parents[3] / "src"
    text = text_of(
        play("bash", command=f"python -c 'import tutelage'; ls {ours}; ls /work /root; cat {os.path.abspath(__file__)}")
    )
    assert "No module named 'tutelage'" in text
    assert text.count("No such file or directory") + text.count("Permission denied") >= 4


def test_limits_alone_are_a_last_resort_and_work(episode: Begin) -> None:
    with pytest.warns(SandboxUnsafe, match="without isolation"):
        _, play = episode(sandbox="rlimit", allow_unsafe=True)
    assert text_of(play("bash", command="cd shop && ls")).startswith("__init__.py\nprices.py\n[exit status 0; working")
    assert "2 failed, 1 passed" in text_of(play("bash", command="cd .. && pytest -q tests | tail -n 1"))
    play("edit", command="str_replace", path="shop/prices.py", old_str="+ each", new_str="* each")
    assert play("submit").reward == 1.0


def test_unsafe_is_refused_unless_allowed(shop_task: Callable[..., Task]) -> None:
    with pytest.raises(ConfigError, match="it isolates nothing, and allow_unsafe is False"):
        RepoEnv(shop_task(sandbox="rlimit")).reset(0)
