"""What a report reads: the files of a run directory, as plain values. Nothing here needs a live object."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tutelage.errors import ConfigError
from tutelage.evaluation.run import EvaluationResult
from tutelage.rollout.summary import latest_attempts
from tutelage.store import RecordStore
from tutelage.types import Trajectory


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFiles:
    """The parts of a run that a report shows; empty where a stage has not written them."""

    root: Path
    recipe: dict[str, Any]
    recipe_text: str
    summary: dict[str, Any]
    """run.json: versions, machine, stages."""
    results: dict[str, EvaluationResult]
    """In the order of the recipe's evaluation."""
    ledgers: dict[str, dict[str, Any]]
    """Of the selection of each rollout."""
    sample_ledgers: dict[str, dict[str, Any]]
    metrics: dict[str, list[dict[str, Any]]]
    """Training metrics of each model, one mapping per update; per round, with the figures under `values`, of those that
    learn by reinforcement."""
    reinforced: tuple[str, ...]
    """Models of the recipe that learn by reinforcement, in its order."""
    training: dict[str, dict[str, Any]]
    """Result of each finished training."""

    def stage(self, stage_id: str) -> dict[str, Any]:
        """The summary of one stage, e.g. ``train:corrected``; empty if it was not done."""
        return dict(self.summary.get("stages", {}).get(stage_id, {}))

    def trajectories(self, *parts: str) -> list[Trajectory]:
        """Stored trajectories, e.g. of ("rollouts", "corrections"); none if the file is not there."""
        path = self.root.joinpath(*parts, "trajectories.jsonl")
        return latest_attempts(RecordStore(path, "trajectory")) if path.is_file() else []

    def dropped(self, rollout: str) -> dict[str, str]:
        """trajectory_id -> reason, of the trajectories of a rollout that selection dropped."""
        path = self.root / "rollouts" / rollout / "verdicts.jsonl"
        if not path.is_file():
            return {}
        return {one.trajectory_id: one.reason for one in RecordStore(path, "verdict") if not one.keep}


def read_run(root: Path) -> RunFiles:
    """Read a run directory. Raises ConfigError where there is none."""
    recipe_path = root / "recipe.yaml"
    if not recipe_path.is_file():
        raise ConfigError(
            f"{root}: not a run directory (no recipe.yaml). "
            "Give the folder that `tutelage run` printed, e.g. runs/household_oec."
        )
    recipe_text = recipe_path.read_text(encoding="utf-8")
    recipe = yaml.safe_load(recipe_text)
    sections = recipe.get("models") or {}
    models = list(sections)
    arms = (recipe.get("evaluate") or {}).get("models") or models
    return RunFiles(
        root=root,
        recipe=recipe,
        recipe_text=recipe_text,
        summary=_read_json(root / "run.json"),
        results={
            arm: EvaluationResult.from_json(data)
            for arm in arms
            if (data := _read_json(root / "evaluations" / arm / "result.json"))
        },
        ledgers={
            name: data
            for name in recipe.get("rollouts") or {}
            if (data := _read_json(root / "rollouts" / name / "ledger.json"))
        },
        sample_ledgers={
            name: data for name in models if (data := _read_json(root / "samples" / f"{name}.ledger.json"))
        },
        metrics={name: rows for name in models if (rows := _read_json_lines(root / "models" / name / "metrics.jsonl"))},
        reinforced=tuple(name for name in models if (sections[name] or {}).get("rl")),
        training={
            name: data["result"] for name in models if (data := _read_json(root / "models" / name / "training.json"))
        },
    )


def _read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_bytes())) if path.is_file() else {}


def _read_json_lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]
