"""The folders of a training: one rename makes the model appear, and nothing else is taken for it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tutelage.errors import StoreError
from tutelage.training.checkpoint import TrainingFolder, hash_model, hash_samples
from tutelage.types import TrainingSample

IDENTITY = {"config": {"learning_rate": 0.002, "seed": 0}, "samples": "a" * 64}


def finished(tmp_path: Path, start_dir: Path, model: Any) -> TrainingFolder:
    folder = TrainingFolder(tmp_path / "model")
    assert folder.open(IDENTITY) is None
    (folder.work_dir / "metrics.jsonl").write_text("{}\n")
    folder.finish(model, start_dir, {"identity": IDENTITY, "result": {"num_updates": 3}})
    return folder


def test_finish_makes_a_plain_model_folder(tmp_path: Path, start_dir: Path, make_model: Callable[..., Any]) -> None:
    folder = finished(tmp_path, start_dir, make_model())
    assert sorted(os.listdir(tmp_path)) == ["model"]
    assert sorted(os.listdir(folder.out_dir)) == [
        "config.json",
        "entities.json",
        "generation_config.json",
        "metrics.jsonl",
        "model.safetensors",
        "tokenizer.json",
        "training.json",
    ]
    summary = {"identity": IDENTITY, "result": {"num_updates": 3}}
    assert json.loads((folder.out_dir / "training.json").read_text()) == summary
    assert folder.open(IDENTITY) == summary


def test_a_finished_training_of_other_settings_is_refused(
    tmp_path: Path, start_dir: Path, make_model: Callable[..., Any]
) -> None:
    folder = finished(tmp_path, start_dir, make_model())
    other = {"config": {"learning_rate": 0.001, "seed": 0}, "samples": "b" * 64}
    with pytest.raises(
        StoreError, match=r"made with other config\.learning_rate \(0\.002, now 0\.001\), samples\. Go on"
    ):
        folder.open(other)
    assert folder.open(other, force=True) is None
    assert (folder.out_dir / "model.safetensors").exists(), "the old model stays until the new one is complete"


def test_an_unfinished_training_of_other_settings_is_refused(tmp_path: Path) -> None:
    folder = TrainingFolder(tmp_path / "model")
    folder.open(IDENTITY)
    folder.save({"update_index": 4})
    assert folder.open(IDENTITY) is None
    assert folder.load() == {"update_index": 4}
    other = {**IDENTITY, "samples": "b" * 64}
    with pytest.raises(StoreError, match=r"\.model\.training: made with other samples"):
        folder.open(other)
    folder.open(other, force=True)
    assert folder.load() is None


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    TrainingFolder(tmp_path / "model").open(IDENTITY)
    (tmp_path / "model" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"not empty and without training\.json"):
        TrainingFolder(tmp_path / "model").open(IDENTITY)


def test_a_torn_checkpoint_is_ignored(tmp_path: Path) -> None:
    """A kill while writing leaves the temporary file, and the checkpoint before it stays."""
    folder = TrainingFolder(tmp_path / "model")
    folder.open(IDENTITY)
    assert folder.load() is None
    folder.save({"update_index": 4, "weights": torch.arange(3)})
    (folder.work_dir / "checkpoint.pt.tmp").write_bytes(b"half")
    state = folder.load()
    assert state is not None
    assert (state["update_index"], state["weights"].tolist()) == (4, [0, 1, 2])


def test_a_kill_while_replacing_a_model_loses_neither(
    tmp_path: Path, start_dir: Path, make_model: Callable[..., Any]
) -> None:
    """The old model stood aside and the new one was half written: the old one comes back."""
    folder = finished(tmp_path, start_dir, make_model())
    folder.out_dir.rename(tmp_path / ".model.old")
    (tmp_path / ".model.new").mkdir()
    (tmp_path / ".model.new" / "config.json").write_text("{")
    summary = TrainingFolder(folder.out_dir).open(IDENTITY)
    assert summary is not None
    assert sorted(os.listdir(tmp_path)) == ["model"]


@pytest.mark.parametrize("keep", [0, 100, 600])
def test_a_damaged_checkpoint_warns_and_starts_at_the_beginning(tmp_path: Path, keep: int) -> None:
    folder = TrainingFolder(tmp_path / "model")
    folder.open(IDENTITY)
    folder.save({"update_index": 4, "weights": torch.arange(300)})
    path = folder.work_dir / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.warns(UserWarning, match=r"checkpoint\.pt: unreadable .* training starts at the beginning"):
        assert folder.load() is None


def test_metrics_of_repeated_updates_are_cut(tmp_path: Path) -> None:
    folder = TrainingFolder(tmp_path / "model")
    folder.open(IDENTITY)
    path = folder.work_dir / "metrics.jsonl"
    path.write_text('{"update_index": 0}\n{"update_index": 1}\n{"update_in')
    folder.cut_metrics(1)
    assert path.read_text() == '{"update_index": 0}\n'


def test_hashes_tell_samples_and_models_apart(
    tmp_path: Path, start_dir: Path, make_samples: Callable[..., list[TrainingSample]]
) -> None:
    samples = make_samples([5, 6])
    assert hash_samples(samples) == hash_samples(make_samples([5, 6]))
    others = [samples[::-1], samples[:1], make_samples([5, 6], seed=1), make_samples([5, 6], every=2)]
    assert len({hash_samples(one) for one in [samples, *others]}) == 5
    before = hash_model(start_dir)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in start_dir.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    assert hash_model(copy) == before
    (copy / "tokenizer.json").write_text("[]\n")
    assert hash_model(copy) != before
