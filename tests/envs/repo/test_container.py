"""Command lines for a container engine, and a run with a program that stands for one."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest

from tutelage.envs.repo.container import ContainerSandbox, container_argv, image_tree
from tutelage.envs.repo.tree import Entry
from tutelage.envs.sandbox.base import Request
from tutelage.envs.sandbox.limits import SandboxLimits
from tutelage.errors import ConfigError, EnvError

ENGINE = """#!/bin/sh
case "$1" in
  run)
    echo "$@" > "$(dirname "$0")/called"
    for word in "$@"; do test "$word" = bad/image && { echo "no such image" >&2; exit 125; }; done
    while test "$1" != --entrypoint; do test "$1" = --workdir && echo "in $2"; shift; done
    program=$2; shift 3; exec "$program" "$@" ;;
  kill) echo "$2" > "$(dirname "$0")/killed" ;;
  create) echo c1 ;;
  cp) tar cf - -C "$(dirname "$0")/image" . ;;
  rm) ;;
esac
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    path = tmp_path / "engine"
    path.write_text(ENGINE)
    path.chmod(0o755)
    return path


def test_the_command_line_of_a_container(tmp_path: Path) -> None:
    request = Request(
        argv=("bash", "-c", "ls"),
        env={"PATH": "/usr/bin", "HOME": "/x", "LANG": "C.UTF-8", "A": "b c"},
        workspace=tmp_path / "work",
        cwd=PurePosixPath("src"),
        limits=SandboxLimits(memory_mb=100, processes=9, cpu_seconds=7, file_mb=2),
        readonly={tmp_path / "check.py": "/opt/check.py"},
    )
    argv = container_argv(request, "some/image:1", engine="podman", folder="/testbed", name="n1")
    assert argv == [
        *("podman", "run", "--rm", "--interactive", "--init", "--name", "n1", "--network", "none"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
        *("--tmpfs", "/tmp:size=100m,mode=1777", "--user", f"{os.getuid()}:{os.getgid()}"),
        *("--memory", "100m", "--memory-swap", "100m"),
        *("--pids-limit", "10", "--ulimit", "cpu=7", "--ulimit", "core=0", "--ulimit", "fsize=2097152"),
        *("--volume", f"{tmp_path}/check.py:/opt/check.py:ro", "--volume", f"{tmp_path}/work:/testbed"),
        *("--workdir", "/testbed/src", "--env", "HOME=/tmp", "--env", "A=b c", "--env", "LANG=C.UTF-8"),
        *("--entrypoint", "bash", "some/image:1", "-c", "ls"),
    ]


def test_a_command_goes_through_the_engine(engine: Path, tmp_path: Path) -> None:
    sandbox = ContainerSandbox("some/image", engine=str(engine))
    result = sandbox.run(["sh", "-c", "cat; exit 3"], workspace=tmp_path, stdin=b"hello")
    assert (result.stdout, result.exit_code, result.killed_by) == ("in /testbed\nhello", 3, None)
    assert sandbox.workspace_path(tmp_path) == "/testbed"


def test_a_container_is_ended_by_its_name(engine: Path, tmp_path: Path) -> None:
    sandbox = ContainerSandbox("some/image", engine=str(engine))
    result = sandbox.run(["sleep", "30"], limits=SandboxLimits(seconds=0.3))
    assert (result.timed_out, result.exit_code) == (True, None)
    name = (tmp_path / "killed").read_text().strip()
    assert f"--name {name} " in (tmp_path / "called").read_text()


def test_a_failing_engine_is_no_failing_command(engine: Path) -> None:
    with pytest.raises(EnvError, match="could not run bad/image: no such image"):
        ContainerSandbox("bad/image", engine=str(engine)).run(["true"])


def test_the_tree_of_an_image(engine: Path, tmp_path: Path) -> None:
    (tmp_path / "image" / ".git").mkdir(parents=True)
    (tmp_path / "image" / ".git" / "HEAD").write_text("x")
    (tmp_path / "image" / "a.py").write_bytes(b"x\r\n")
    assert dict(image_tree("some/image", engine=str(engine))) == {"a.py": Entry(b"x\r\n")}


def test_an_engine_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="the container engine '/nowhere/docker' is not there"):
        image_tree("some/image", engine="/nowhere/docker")
