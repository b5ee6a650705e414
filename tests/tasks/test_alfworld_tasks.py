from __future__ import annotations

import json
import warnings

import pytest

from tutelage.envs.alfworld.env import DataMismatch
from tutelage.errors import FormatError
from tutelage.tasks.alfworld import AlfworldTasks
from tutelage.tasks.base import manifest, manifest_hash, read_manifest
from tutelage.tasks.household import HouseholdTasks
from tutelage.tasks.registry import load_tasks


def test_panels_and_manifests_are_those_of_household():
    ours = HouseholdTasks("small").load("test", start=6, count=12)
    theirs = load_tasks("alfworld", "test", start=6, count=12, python="/opt/python")
    assert {task.env for task in theirs} == {"alfworld"}
    assert [task.task_id for task in theirs] == [task.task_id for task in ours]
    assert [task.goal for task in theirs] == [task.goal for task in ours]
    assert theirs[0].settings == {**ours[0].settings, "python": "/opt/python"}
    assert manifest_hash(theirs) == manifest_hash(ours)


def test_a_recorded_manifest_is_compared_loudly(tmp_path):
    path = tmp_path / "panel.jsonl"
    tasks = HouseholdTasks("small").load("test", count=3)
    path.write_text(manifest(tasks))
    assert read_manifest(path) == {task.task_id: task.settings["content_hash"] for task in tasks}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(AlfworldTasks(manifest=path).load("test", count=3)) == 3

    first, *others = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(one) + "\n" for one in [{**first, "content_hash": "0" * 64}, *others]))
    with pytest.warns(
        DataMismatch, match=r"1 of 3 tasks have another content hash than recorded, first hh-small-test-000000"
    ):
        AlfworldTasks(manifest=path).load("test", count=3)
    path.write_text("".join(json.dumps(one) + "\n" for one in [first, *others[1:]]))
    with pytest.warns(DataMismatch, match=r"1 of 3 tasks are not listed, first hh-small-test-000001"):
        AlfworldTasks(manifest=path).load("test", count=3)


def test_a_file_that_is_no_manifest_is_refused(tmp_path):
    path = tmp_path / "panel.jsonl"
    with pytest.raises(FormatError, match="cannot be read"):
        read_manifest(path)
    path.write_text('{"id": "a", "content_hash": null}\n{"id": "b"}\n')
    with pytest.raises(FormatError, match="line 2: expected a JSON object with 'id' and 'content_hash'"):
        read_manifest(path)
