from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tutelage.envs.repo.bugs import mutated
from tutelage.envs.repo.embedded import PACKAGES, embedded_package
from tutelage.envs.repo.patch import make_patch
from tutelage.envs.repo.problem import content_hash_of, problem_of
from tutelage.envs.repo.tree import Entry, Tree, run_git
from tutelage.errors import ConfigError, FormatError
from tutelage.tasks.base import check_disjoint, manifest_hash
from tutelage.tasks.registry import load_tasks
from tutelage.tasks.repo import TEST_PACKAGES, RepoTasks, split_of
from tutelage.types import Split


def test_the_embedded_splits_share_no_package_and_no_function() -> None:
    functions: dict[Split, set[tuple[str, str, str]]] = {split: set() for split in Split}
    sizes = dict.fromkeys(Split, 0)
    for package in PACKAGES:
        for bug in embedded_package(package).bugs:
            split = split_of(package, bug)
            sizes[split] += 1
            functions[split].add((package, bug.mutation.path, bug.mutation.function.split(".")[0]))
    assert {package for package, _, _ in functions[Split.TEST]} == set(TEST_PACKAGES)
    assert not functions[Split.TRAIN] & functions[Split.VALIDATION]
    assert not {package for package, _, _ in functions[Split.TRAIN]} & set(TEST_PACKAGES)
    assert sizes[Split.TRAIN] >= 200
    assert sizes[Split.VALIDATION] >= 40
    assert sizes[Split.TEST] >= 100
    assert RepoTasks().report() == (
        f"bugs in 6 embedded packages: {sizes[Split.TRAIN]} train, {sizes[Split.VALIDATION]} validation, "
        f"{sizes[Split.TEST]} test"
    )


def test_panels_are_disjoint_and_whole() -> None:
    panels = [load_tasks("repo", split, count=1000) for split in Split]
    check_disjoint(*panels)
    assert len({task.task_id for panel in panels for task in panel}) == sum(map(len, panels))
    first = panels[0][:4]
    assert [task.settings["package"] for task in first] == ["gridmath", "purse", "spans", "textkit"]
    assert manifest_hash(load_tasks("repo", "train", count=4)) == manifest_hash(first)
    assert load_tasks("repo", "train", start=2, count=2) == first[2:]
    assert len(load_tasks("repo", "test")) == 100


def test_a_task_tells_what_fails_and_not_why() -> None:
    for task in load_tasks("repo", "validation", count=20):
        package = embedded_package(task.settings["package"])
        bug = package.bug(task.settings["bug"])
        problem = problem_of(task.settings)
        assert task.kind == bug.mutation.mutator
        assert task.goal == problem.statement
        assert bug.mutation.path not in task.goal
        assert bug.mutation.mutator not in task.goal
        assert {*problem.fail_to_pass, *problem.pass_to_pass} == set(package.tests)
        assert problem.tree.changed(problem.fix or {}) == package.tree
        assert set(problem.tests) < set(problem.tree)
        assert task.settings["content_hash"] == content_hash_of(task.settings)
        json.dumps(task.settings)


def test_settings_of_all_tasks() -> None:
    (task,) = load_tasks("repo", "train", count=1, action_format="tool_calls", max_steps=9, play={"review": True})
    assert {name: task.settings[name] for name in ("action_format", "max_steps", "review")} == {
        "action_format": "tool_calls",
        "max_steps": 9,
        "review": True,
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"source": "files"}, "source: unknown 'files'"),
        ({"source": "rows"}, "source 'rows' with path None"),
        ({"path": "x"}, "source 'embedded' with path 'x'"),
        ({"source": "rows", "path": "x"}, "give 'repositories', where they are, or 'image'"),
        ({"action_format": "xml"}, "action_format: unknown 'xml'"),
        ({"play": {"revue": True}}, "unknown 'revue'. Did you mean 'review'"),
        ({"max_steps": 0}, "max_steps is 0"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RepoTasks(**options)


def test_ranges_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="start -1 and count None"):
        RepoTasks().load("train", start=-1)
    with pytest.raises(ConfigError, match=r"split 'test' has \d+ tasks, none at 5000"):
        RepoTasks().load("test", start=5000)


CLEAN = Tree({"shop/a.py": Entry(b"def f():\n    return 1\n"), "tests/test_a.py": Entry(b"def test_a(): pass\n")})
BROKEN = CLEAN.changed({"shop/a.py": Entry(b"def f():\n    return 2\n")})


def row(**more: Any) -> dict[str, Any]:
    return {
        "instance_id": "owner__name-1",
        "repo": "owner/name",
        "problem_statement": "It is broken.",
        "FAIL_TO_PASS": ["tests/test_a.py::test_a"],
        "PASS_TO_PASS": [],
        **more,
    }


def test_rows_of_a_clone(tmp_path: Path) -> None:
    clone = tmp_path / "owner__name"
    clone.mkdir()
    BROKEN.write(clone)
    run_git(["init", "--quiet"], clone)
    run_git(["add", "."], clone)
    run_git(["commit", "--quiet", "-m", "x"], clone)
    commit = run_git(["rev-parse", "HEAD"], clone).decode().strip()
    (clone / "shop/a.py").write_bytes(b"worked on since")
    bench = row(base_commit=commit, patch=make_patch(BROKEN, CLEAN).decode(), test_patch="")
    (tmp_path / "rows.jsonl").write_text(json.dumps(bench))
    tasks = RepoTasks(source="rows", path=tmp_path / "rows.jsonl", repositories=tmp_path)
    (task,) = tasks.load("test")
    assert (task.task_id, task.kind, task.split, task.goal) == (
        "owner__name-1",
        "owner/name",
        Split.TEST,
        "It is broken.",
    )
    assert (task.settings["folder"], task.settings["commit"]) == ("owner__name", commit)
    assert problem_of(task.settings).tree == BROKEN
    with pytest.raises(ConfigError, match="split 'train' has 0 tasks"):
        tasks.load("train")


def test_rows_of_a_folder_make_the_bug(tmp_path: Path) -> None:
    (tmp_path / "name").mkdir()
    CLEAN.write(tmp_path / "name")
    smith = row(image_name="some/image", patch=make_patch(CLEAN, BROKEN).decode())
    (tmp_path / "rows.json").write_text(json.dumps([smith]))
    (task,) = RepoTasks(source="rows", path=tmp_path / "rows.json", repositories=tmp_path).load("train")
    assert problem_of(task.settings).tree == BROKEN
    images = RepoTasks(
        source="rows",
        path=tmp_path / "rows.json",
        repositories=tmp_path,
        image="{image_name}:{hub_id}",
        split="validation",
    )
    (task,) = images.load("validation")
    assert task.settings["image"] == "some/image:owner_1776_name-1"


def test_repositories_that_are_missing(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(row(base_commit="abc", patch="x", test_patch="y")))
    tasks = RepoTasks(source="rows", path=tmp_path / "rows.json", repositories=tmp_path)
    with pytest.raises(
        FormatError, match=r"none of owner__name, owner/name, name for owner__name-1\. Clone it there\."
    ):
        tasks.load("test")
    (tmp_path / "name").mkdir()
    with pytest.raises(FormatError, match="owner__name-1 needs commit abc, and this is no git clone"):
        tasks.load("test")


def test_mutations_and_trees_agree() -> None:
    (task,) = load_tasks("repo", "test", count=1)
    package = embedded_package(task.settings["package"])
    assert problem_of(task.settings).tree == mutated(package.tree, package.bug(task.settings["bug"]).mutation)
    with pytest.raises(ConfigError, match="has no bug 'x'"):
        package.bug("x")
    with pytest.raises(ConfigError, match="package: unknown 'purs'"):
        problem_of({"package": "purs", "bug": "x"})
