"""Unfinished and finished training on disk, so that a killed run goes on as if nothing had happened.

    models/.imitation.training/   unfinished: run.json (what is trained), metrics.jsonl, checkpoint.pt
    models/imitation/             finished: appears by one rename, with all its files

A checkpoint replaces the one before by rename, so a torn one never carries the name that is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from tutelage.errors import StoreError
from tutelage.types import TrainingSample

CHECKPOINT, METRICS, RUN, SUMMARY = "checkpoint.pt", "metrics.jsonl", "run.json", "training.json"
WEIGHT_SUFFIXES: Final = (".safetensors", ".bin", ".pt", ".pth")
NOT_COPIED: Final = frozenset({METRICS, SUMMARY, "model.safetensors.index.json", "pytorch_model.bin.index.json"})
"""Side files of a start model that belong to its own training or weights."""


class TrainingFolder:
    """Where one training keeps its state: opened at the start, finished by a rename."""

    def __init__(self, out_dir: Path) -> None:
        self.out_dir = out_dir
        self.work_dir = out_dir.with_name(f".{out_dir.name}.training")
        self._new_dir = out_dir.with_name(f".{out_dir.name}.new")
        self._old_dir = out_dir.with_name(f".{out_dir.name}.old")

    def open(self, identity: Mapping[str, Any], *, force: bool = False) -> dict[str, Any] | None:
        """Prepare the work folder. Returns the summary of a finished training of the same identity, else None.

        Raises:
            StoreError: the folder holds a training of other settings, samples or start model, or something else.
                `force` throws that away and starts anew.
        """
        shutil.rmtree(self._new_dir, ignore_errors=True)
        if self._old_dir.exists() and not self.out_dir.exists():
            self._old_dir.rename(self.out_dir)
        shutil.rmtree(self._old_dir, ignore_errors=True)
        if self.out_dir.exists() and any(self.out_dir.iterdir()):
            summary = _read_json(self.out_dir / SUMMARY)
            if summary is None and not force:
                raise StoreError(
                    f"{self.out_dir}: not empty and without {SUMMARY}, expected a new folder or a model that was trained "
                    "here. Choose another folder, or force to replace it."
                )
            if summary is not None and _differences(summary["identity"], identity) == []:
                shutil.rmtree(self.work_dir, ignore_errors=True)
                return summary
            if summary is not None:
                self._refuse(self.out_dir, summary["identity"], identity, force)
        known = _read_json(self.work_dir / RUN)
        if known is not None and _differences(known, identity):
            self._refuse(self.work_dir, known, identity, force)
            shutil.rmtree(self.work_dir)
        self.work_dir.mkdir(parents=True, exist_ok=True)
        write_json(self.work_dir / RUN, identity)
        return None

    def _refuse(self, where: Path, known: Mapping[str, Any], wanted: Mapping[str, Any], force: bool) -> None:
        if not force:
            raise StoreError(
                f"{where}: made with other {', '.join(_differences(known, wanted))}. "
                "Go on with what it was made with, choose another folder, or force to throw it away and start anew."
            )

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the checkpoint; on return it is on the disk."""
        temporary = self.work_dir / f"{CHECKPOINT}.tmp"
        with temporary.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.work_dir / CHECKPOINT)

    def load(self) -> dict[str, Any] | None:
        """The newest checkpoint. None: there is none, or it cannot be read, which warns and starts at the beginning."""
        path = self.work_dir / CHECKPOINT
        if not path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except (RuntimeError, EOFError, OSError, pickle.UnpicklingError) as error:
            warnings.warn(f"{path}: unreadable ({error}); training starts at the beginning", stacklevel=2)
            return None
        return state

    def cut_metrics(self, num_rows: int) -> None:
        """Keep the first rows of the metrics, so that repeated updates are not listed twice."""
        path = self.work_dir / METRICS
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(b"".join(lines[:num_rows]))
        temporary.replace(path)

    def finish(self, model: Any, start_dir: Path, summary: Mapping[str, Any], *, kept: Sequence[str] = ()) -> None:
        """Write the model folder beside its place and move it there in one rename. `kept`: folders to take along."""
        self._new_dir.mkdir()
        model.save_pretrained(self._new_dir)
        copy_side_files(start_dir, self._new_dir)
        shutil.copyfile(self.work_dir / METRICS, self._new_dir / METRICS)
        for name in kept:
            (self.work_dir / name).rename(self._new_dir / name)
        write_json(self._new_dir / SUMMARY, summary)
        if self.out_dir.exists():
            self.out_dir.rename(self._old_dir)
        self._new_dir.rename(self.out_dir)
        shutil.rmtree(self._old_dir, ignore_errors=True)
        shutil.rmtree(self.work_dir)


def copy_side_files(start_dir: Path, new_dir: Path) -> None:
    """Tokenizer, chat template, entity table: every file that is not weights and was not written already."""
    for path in sorted(start_dir.iterdir()):
        wanted = path.is_file() and path.suffix not in WEIGHT_SUFFIXES and path.name not in NOT_COPIED
        if wanted and not (new_dir / path.name).exists():
            shutil.copyfile(path, new_dir / path.name)


def hash_samples(samples: Iterable[TrainingSample]) -> str:
    """SHA-256 over everything of the samples that training reads, in their order."""
    digest = hashlib.sha256()
    for sample in samples:
        digest.update(sample.sample_id.encode())
        digest.update(np.asarray(sample.token_ids, np.int64).tobytes())
        digest.update(np.asarray(sample.loss_mask, np.bool_).tobytes())
        for component in sorted(sample.loss_weights):
            digest.update(component.value.encode())
            digest.update(np.asarray(sample.loss_weights[component], np.float64).tobytes())
        digest.update(repr((sample.trajectory_id, sample.step_spans)).encode())
    return digest.hexdigest()


def hash_model(model_dir: Path) -> str:
    """SHA-256 over the files of a model folder that make the model: configuration, tokenizer and weights."""
    digest = hashlib.sha256()
    for path in sorted(model_dir.iterdir()):
        if path.is_file() and path.name not in NOT_COPIED:
            digest.update(path.name.encode())
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file in one rename."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(path)


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def _differences(known: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> Sequence[str]:
    """Keys whose values differ, e.g. ``config.learning_rate (0.002, now 0.001)``."""
    found: list[str] = []
    for key in sorted({*known, *wanted}):
        old, new = known.get(key), wanted.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            short = all(len(str(value)) <= 40 for value in (old, new))
            found.append(f"{prefix}{key} ({old}, now {new})" if short else f"{prefix}{key}")
    return found
