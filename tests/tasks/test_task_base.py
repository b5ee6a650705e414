from __future__ import annotations

import hashlib

import pytest

from tutelage.errors import ConfigError
from tutelage.tasks.base import check_disjoint, manifest, manifest_hash, manifest_line, split_named
from tutelage.types import Split, Task


def make_task(task_id: str, content_hash: str, root: str = "here") -> Task:
    settings = {"content_hash": content_hash, "root": root, "folder": "a/b"}
    return Task(task_id=task_id, env="household", goal="g", split=Split.TEST, settings=settings)


def test_a_manifest_line_holds_id_split_content_hash_and_settings() -> None:
    assert manifest_line(make_task("t-1", "9f0c")) == (
        '{"content_hash": "9f0c", "id": "t-1", "settings": {"folder": "a/b"}, "split": "test"}'
    )


def test_the_manifest_hash_is_that_of_its_text_and_independent_of_the_machine() -> None:
    tasks = [make_task("t-1", "aa"), make_task("t-2", "bb")]
    text = "".join(manifest_line(task) + "\n" for task in tasks)
    assert manifest(tasks) == text
    assert manifest_hash(tasks) == hashlib.sha256(text.encode()).hexdigest()
    assert manifest_hash([make_task("t-1", "aa", "there"), make_task("t-2", "bb", "there")]) == manifest_hash(tasks)
    assert manifest_hash(tasks[::-1]) != manifest_hash(tasks)


def test_panels_that_share_an_id_or_a_content_are_refused() -> None:
    check_disjoint([make_task("t-1", "aa")], [make_task("t-2", "bb")], [])
    with pytest.raises(ConfigError, match="panels 0 and 1 share id t-1"):
        check_disjoint([make_task("t-1", "aa")], [make_task("t-1", "bb")])
    with pytest.raises(ConfigError, match=r"panels 0 and 1 share content aa \(tasks t-1 and t-2\)"):
        check_disjoint([make_task("t-1", "aa")], [make_task("t-2", "aa")])


def test_splits_are_known_by_name() -> None:
    assert split_named("validation") is Split.VALIDATION
    assert split_named(Split.TEST) is Split.TEST
    with pytest.raises(ConfigError, match=r"tasks: split: unknown 'tests'. Did you mean 'test'?"):
        split_named("tests")
