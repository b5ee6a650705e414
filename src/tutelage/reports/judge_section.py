"""The part of the page on why episodes failed: the judgements of a run, per judge and per part that was judged.

In: judgements.jsonl and the trajectories that it names. Out: plain values for the template; nothing for a run without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tutelage.evaluation.judge.base import latest_judgements
from tutelage.evaluation.judge.shares import Shares, shares_of
from tutelage.evaluation.judge.taxonomy import meaning
from tutelage.reports.data import RunFiles
from tutelage.reports.words import percent
from tutelage.store import RecordStore
from tutelage.types import Judgement, Trajectory


def judgements(run: RunFiles) -> list[dict[str, Any]]:
    """One entry per judge and source, in the order of the file."""
    path = run.root / "judgements.jsonl"
    if not path.is_file():
        return []
    everything: list[Judgement] = list(RecordStore(path, "judgement"))
    held: dict[str, list[Trajectory]] = {}
    entries = []
    for judge, source in dict.fromkeys((one.judge, one.source) for one in everything):
        if source not in held:
            held[source] = list(_trajectories(run, source))
        known = {one.trajectory_id for one in held[source]}
        latest = latest_judgements((one for one in everything if one.source == source), judge=judge)
        judged = [one for one in latest.values() if one.trajectory_id in known]
        if judged:
            entries.append(_entry(shares_of(judged, held[source]), held[source][0].env, len(latest) - len(judged)))
    return entries


def _trajectories(run: RunFiles, source: str) -> Iterator[Trajectory]:
    """All attempts: the judgements say which of them count. None for a source that the run does not have."""
    path = run.root.joinpath(source, "trajectories.jsonl")
    if source and path.is_file():
        yield from RecordStore(path, "trajectory")


def _entry(shares: Shares, env: str, num_gone: int) -> dict[str, Any]:
    columns = [column for column in shares.totals if column != "all"]
    notes = [shares.note()] if shares.note() else []
    notes += [f"{num_gone} of trajectories that are no longer there"] if num_gone else []
    return {
        "title": shares.source.replace("/", " of ", 1)
        .replace("evaluations of", "Evaluation of")
        .replace("rollouts of", "Rollout"),
        "judge": shares.judge,
        "count": f"{shares.num_scored} failed episodes",
        "note": "; ".join(notes),
        "columns": columns,
        "totals": [shares.totals[column] for column in columns],
        "rows": [
            {
                "name": category.value.replace("_", " "),
                "meaning": meaning(category, env),
                "count": counts.get("all", 0),
                "share": percent(shares.share(category).estimate, 0),
                "interval": _interval(shares, category),
                "cells": [
                    f"{counts.get(column, 0)} ({percent(shares.share(category, column).estimate, 0)})"
                    for column in columns
                ],
            }
            for category, counts in shares.counts.items()
        ],
    }


def _interval(shares: Shares, category: Any) -> str:
    share = shares.share(category)
    return "–" if math.isnan(share.estimate) else f"{percent(share.low, 0)} to {percent(share.high, 0)}"
