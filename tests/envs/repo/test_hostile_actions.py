"""What an agent may try: all of it is contained, and the episode goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tutelage.envs.base import StepResult
from tutelage.envs.repo.env import RepoEnv

Begin = Callable[..., tuple[RepoEnv, Callable[..., StepResult]]]


def processes_of(folder: Path) -> list[str]:
    """Live processes that have a file of a folder open or as their directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(str(folder)):
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("command", "endings"),
    [
        # Which bound is met first depends on the machine.
        (":(){ :|:& };: ; sleep 30", ("processes", "memory", "ran longer")),
        ("python -c 'x = [bytearray(1 << 24) for _ in range(1000)]'", ("exit status 1", "memory")),
        ("yes", ("wrote too much", "ran longer")),
        ("while :; do :; done", ("ran longer", "processor time")),
        ("dd if=/dev/zero of=big bs=1M count=4000 2>/dev/null; rm -f big", ("exit status", "MiB to the disk")),
    ],
)
def test_bombs(episode: Begin, command: str, endings: tuple[str, ...]) -> None:
    env, play = episode(bash_seconds=2, memory_mb=256, disk_mb=128, output_chars=200)
    started = time.monotonic()
    last = play("bash", command=command).observation.text.split("\n")[-1]
    assert any(ending in last for ending in endings), last
    assert time.monotonic() - started < 30
    assert play("bash", command="rm -f big; echo alive").observation.text.startswith("alive\n[exit status 0")
    assert processes_of(env._scratch) == []


def test_nothing_outside_can_be_reached(episode: Begin, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    _, play = episode()
    tries = f"""cat {secret}; cat /etc/shadow; ls -a ~ /home /home/*/.ssh; cat /proc/1/environ | tr '\\0' '\\n' | grep -i secret
python - <<'END'
import socket
for target in [("127.0.0.1", 22), ("1.1.1.1", 53)]:
    try:
        socket.create_connection(target, timeout=1)
        print("connected", target)
    except OSError as error:
        print("no network")
END
kill -9 -1; kill -9 {os.getpid()} {os.getppid()}; echo after
touch /usr/x /opt/x /etc/x; mount -t tmpfs none /usr; chroot / true"""
    text = play("bash", command=tries).observation.text
    assert "the secret" not in text
    assert text.count("no network") == 2 or "connected" not in text
    assert not Path("/usr/x").exists()
    assert play("bash", command="echo alive").observation.text == "alive\n[exit status 0]"
    assert secret.read_text() == "the secret"


def test_links_lead_nowhere(episode: Begin, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    env, play = episode()
    play("bash", command=f"ln -s {secret} a; ln -s {tmp_path} b; rm -rf tests; ln -s {tmp_path} tests; ln -s / shop/c")
    assert play("edit", command="view", path="a").observation.text.startswith("Error: a is a symbolic link")
    assert play("edit", command="create", path="b/new", file_text="x").observation.text.startswith("Error: b/new is a")
    end = play("submit")
    assert (end.terminated, end.reward) == (True, 0.0)
    assert env.judgement is not None
    assert env.judgement.num_passed == 1
    env.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.txt", "shop"]
    assert secret.read_text() == "the secret"


def test_writing_the_tests_gains_nothing(episode: Begin) -> None:
    _, play = episode()
    play(
        "bash",
        command='for t in price price_of_other total; do echo "def test_$t(): pass"; done > tests/test_prices.py',
    )
    assert "3 passed" in play("bash", command="pytest -q").observation.text
    assert play("submit").reward == 0.0


def test_deleting_everything_is_no_crash(episode: Begin) -> None:
    env, play = episode()
    text = play("bash", command="cd shop; rm -rf /workspace /workspace/* /workspace/.[!.]*").observation.text
    assert "-shop/prices.py" in text
    assert "[exit status 0; changed +x]" in play("bash", command="pwd > x").observation.text
    assert play("edit", command="view", path="shop/prices.py").observation.text.startswith("Error: ")
    assert (play("submit").reward, env.reward()) == (0.0, 0.0)


def test_files_that_cannot_be_read(episode: Begin) -> None:
    env, play = episode()
    play("bash", command="mkdir -p d/e; echo x > d/e/f; chmod 0 d/e/f d/e d shop/prices.py; mkfifo p; chmod 555 .")
    assert play("bash", command="rm -f shop/prices.py; mkfifo shop/prices.py; ls d").observation.text.startswith("e\n")
    assert (
        play("edit", command="view", path="shop/prices.py").observation.text
        == "Error: shop/prices.py: not a regular file."
    )
    assert play("submit").reward == 0.0
    folder = env._scratch
    env.close()
    assert not folder.exists()


def test_nothing_runs_on_between_calls(episode: Begin) -> None:
    env, play = episode()
    play(
        "bash",
        command="(setsid sh -c 'while :; do date > late; sleep 0.05; done' >/dev/null 2>&1 &) ; nohup sleep 99 &",
    )
    folder = env._workspace.folder
    before = (folder / "late").stat().st_mtime_ns if (folder / "late").exists() else None
    time.sleep(0.3)
    assert (((folder / "late").stat().st_mtime_ns) if (folder / "late").exists() else None) == before
    assert processes_of(env._scratch) == []


def test_a_workspace_that_is_filled_ends_the_episode(episode: Begin) -> None:
    env, play = episode(disk_mb=20, max_steps=5, auto_submit=True)
    result = play("bash", command="for i in 1 2 3; do head -c 9000000 /dev/zero > f$i; done")
    assert (result.truncated, result.terminated, result.reward, env.auto_submitted) == (True, False, 0.0, False)
    assert result.observation.text.endswith("[the workspace holds more than 20 MiB; the episode ends]")
