"""Trajectories as the training data of other tools: written, read back by the tool's own rules, and only then kept.

    ledger = export("axolotl", trajectories, "rows.jsonl", supervise=expert_steps)

A target is one line of `export_targets.TARGETS`. What a target cannot say is skipped with a reason that the ledger counts; a file that
reads back otherwise than it was meant raises `ExportError` and leaves nothing under its name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tutelage.errors import ConfigError, ExportError, TutelageError
from tutelage.formats import (
    reread_tokens,
    write_atif,
    write_tokens,
)
from tutelage.formats.base import FormatLedger, Refused
from tutelage.formats.export_targets import TARGETS, Target
from tutelage.formats.proof import check_messages, check_no_drift, check_tokens, tokens_of_reading, without_sampled_ids
from tutelage.formats.text_renderer import TextRenderer
from tutelage.formats.write_messages import Conversation, conversation_of, fit_for_utf8, merged, num_joined, sft_weights
from tutelage.rendering.base import Renderer
from tutelage.store import write_atomic
from tutelage.supervision.samples import Layout, build_samples
from tutelage.types import LossComponent, StepSupervision, TrainingSample, Trajectory

Supervise = Callable[[Trajectory], StepSupervision]
"""Which steps are learnt, e.g. a mask of `STEP_MASKS`."""

Merge = Literal["reject", "join"]
"""Neighbouring messages of one role in an observation: refuse what needs turns, or join them by an empty line."""


@dataclass(slots=True)
class _Plan:
    """Rows that are to be written, and what each must read back as."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Trajectory of each row."""
    checks: list[Callable[[str, dict[str, Any]], None]] = field(default_factory=list)

    def add(self, row: dict[str, Any], name: str, check: Callable[[str, dict[str, Any]], None]) -> None:
        self.rows.append(row)
        self.names.append(name)
        self.checks.append(check)


def export(
    target: str,
    trajectories: Iterable[Trajectory],
    out: str | Path,
    *,
    supervise: Supervise,
    renderer: Renderer | None = None,
    layout: Layout = "whole",
    merge: Merge = "reject",
    round_weights: bool = False,
    force: bool = False,
    notes: Sequence[str] = (),
) -> FormatLedger:
    """Write the training data of another tool, prove it by reading it back, and account for every trajectory.

    `renderer`: of the model that will be trained; needed for tokenised targets. Without one, targets of messages are
    proven on characters in place of tokens. How it writes an action that it did not sample is its own affair (`text_of` of
    `load_renderer`, e.g. `written_text`); a `Refused` from there skips the trajectory. `layout` is for tokenised targets. `round_weights`: weights of at least 0.5
    count as 1, the others as 0, where a target knows only 0 and 1. `notes` open those of the ledger.

    Raises:
        ConfigError: an unknown target, a missing model, an output that is there already.
        ExportError: nothing could be written, or the file reads back otherwise than it was meant.
    """
    if target not in TARGETS:
        raise ConfigError.unknown("export: target", target, TARGETS)
    spec = TARGETS[target]
    out = Path(out)
    kind = out_kind(spec.kinds, out)
    check_free(out, force=force)
    if spec.sample_row is not None and renderer is None:
        raise ConfigError(
            f"export {target}: tokenised rows need the model whose tokenizer writes them (--model FOLDER)."
        )
    ledger = FormatLedger(format=target, notes=list(notes))
    plan = _Plan()
    for given in trajectories:
        try:
            supervision, rounded = _weighed(supervise(given), spec, round_weights)
            if spec.sample_row is not None:
                assert renderer is not None
                _plan_samples(spec, given, supervision, renderer, layout, plan, ledger)
            else:
                _plan_messages(spec, given, supervision, renderer, merge, plan, ledger)
            if rounded:
                ledger.counts["rounded_weights"] += rounded
        except Refused as refused:
            ledger.skip(refused.at(given.trajectory_id))
    if not plan.rows:
        raise ExportError(f"{out}: no row to write. {_why(ledger)}")
    _write_proven(spec, kind, out, plan, renderer, ledger)
    if spec.config is not None:
        text = spec.config.format(path=out.name, name=out.stem)
        beside = out.with_name(f"{out.stem}.{target}{spec.config_suffix}")
        write_atomic(beside, text.encode())
        ledger.notes.append(f"settings of the trainer by which the flags rule: {beside}")
    if spec.note is not None:
        ledger.notes.append(spec.note)
    ledger.write_beside(out)
    return ledger


def _plan_samples(
    spec: Target,
    trajectory: Trajectory,
    supervision: StepSupervision,
    renderer: Renderer,
    layout: Layout,
    plan: _Plan,
    ledger: FormatLedger,
) -> None:
    samples = build_samples(trajectory, supervision, renderer, layout=layout)
    if not samples:
        raise Refused("no_trained_step", "the mask trains none of its steps")
    assert spec.sample_row is not None
    for sample in samples:

        def check(where: str, row: dict[str, Any], meant: TrainingSample = sample) -> None:
            assert spec.reread_sample is not None
            check_tokens(where, spec.reread_sample(row), meant)

        plan.add(spec.sample_row(sample), trajectory.trajectory_id, check)
    ledger.converted(
        rows=len(samples),
        trained_actions=sum(weight > 0.0 for weight in sft_weights(supervision)),
        tokens=sum(len(sample.token_ids) for sample in samples),
        trained_tokens=sum(sample.num_trained_tokens for sample in samples),
    )
    longest = max(len(sample.token_ids) for sample in samples)
    ledger.counts["longest_row"] = max(ledger.counts["longest_row"], longest)


def _plan_messages(
    spec: Target,
    given: Trajectory,
    supervision: StepSupervision,
    renderer: Renderer | None,
    merge: Merge,
    plan: _Plan,
    ledger: FormatLedger,
) -> None:
    joined = num_joined(given) if merge == "join" else 0
    trajectory, replaced = fit_for_utf8(merged(given) if joined else given)
    conversation = conversation_of(trajectory, supervision, whole=spec.whole)
    if renderer is not None and not spec.whole:
        check_no_drift(trajectory, renderer)
    sampled = sum(step.action.token_ids is not None for step in trajectory.steps)
    text: Renderer = renderer or TextRenderer()
    compared = trajectory if renderer is not None and not spec.whole else without_sampled_ids(trajectory)
    rows = _rows(spec, conversation, trajectory)
    samples = build_samples(compared, supervision, text, layout=spec.layout) if conversation.trained else []
    if spec.layout == "whole" and not spec.whole and not _is_one_view(samples, trajectory):
        # A trainer renders the conversation once; we train each step in the view in which it was taken.
        raise Refused(
            "history_rewritten", "the template writes past turns otherwise than they were; write tokenised rows"
        )
    for place, (row, meant) in enumerate(rows):
        expected = samples if len(rows) == 1 else samples[place : place + 1]
        plan.add(row, trajectory.trajectory_id, partial(_check_row, spec, meant, text, expected))
    unit = "tokens" if renderer is not None else "characters"
    counts = {
        "rows": len(rows),
        "messages": sum(len(meant.messages) for _, meant in rows),
        "trained_messages": sum(len(meant.trained) for _, meant in rows),
        unit: sum(len(sample.token_ids) for sample in samples),
        f"trained_{unit}": sum(sample.num_trained_tokens for sample in samples),
        "joined_messages": joined,
        "replaced_characters": replaced,
        "sampled_ids_left_out": 0 if spec.whole else sampled,
        "keys_left_out": len(conversation.left_out),
    }
    ledger.converted(**{name: count for name, count in counts.items() if count})


def _is_one_view(samples: Sequence[TrainingSample], trajectory: Trajectory) -> bool:
    """Whether all that is trained stands in the view before the end of the episode."""
    return len(samples) == 1 and samples[0].step_spans[-1][0] == len(trajectory.steps) - 1


def _rows(
    spec: Target, conversation: Conversation, trajectory: Trajectory
) -> list[tuple[dict[str, Any], Conversation]]:
    if spec.rows is not None:
        return spec.rows(conversation)
    if spec.row is not None:
        return [(spec.row(conversation), conversation)]
    return [(write_atif.atif_document(conversation, trajectory), conversation)]


def _check_row(
    spec: Target,
    meant: Conversation,
    renderer: Renderer,
    expected: Sequence[TrainingSample],
    where: str,
    row: dict[str, Any],
) -> None:
    assert spec.reread is not None
    reading = spec.reread(row)
    check_messages(where, reading, meant, loses=spec.loses)
    if not expected:
        return
    got = tokens_of_reading(reading, meant, renderer, spec.layout)
    if len(got) != len(expected):
        raise ExportError(f"{where}: {len(got)} samples are read back, expected {len(expected)}.")
    for one, sample in zip(got, expected, strict=True):
        check_tokens(where, one, sample)


def _weighed(supervision: StepSupervision, spec: Target, round_weights: bool) -> tuple[StepSupervision, int]:
    """The supervision with weights that the target can say, and how many were rounded. Raises Refused where it cannot."""
    weights = sft_weights(supervision)
    others = [component.value for component in supervision.step_weights if component is not LossComponent.SFT]
    if others and not spec.whole:
        raise Refused("other_components", f"weights of {', '.join(others)}: foreign trainers only imitate")
    odd = [index for index, weight in enumerate(weights) if weight not in (0.0, 1.0)]
    if spec.whole or not odd:
        return supervision, 0
    if not round_weights:
        raise Refused("fractional_weight", f"step {odd[0]} weighs {weights[odd[0]]}; --round-weights makes it 0 or 1")
    whole = tuple(float(weight >= 0.5) for weight in weights)
    return replace(supervision, step_weights={LossComponent.SFT: whole}), len(odd)


def _write_proven(
    spec: Target, kind: str, out: Path, plan: _Plan, renderer: Renderer | None, ledger: FormatLedger
) -> None:
    """Write under another name, read back, compare; then give it its name, or leave nothing."""

    def write(path: Path) -> None:
        if kind == "folder":
            write_atif.write_documents(plan.rows, path)
        else:
            write_tokens.write_rows(plan.rows, path, kind=kind, schema=spec.schema() if spec.schema else None)

    def prove(path: Path) -> None:
        found = write_atif.read_documents(path) if kind == "folder" else write_tokens.read_rows(path, kind=kind)
        if len(found) != len(plan.rows):
            raise ExportError(f"{out}: {len(found)} rows are read back, {len(plan.rows)} were written.")
        for number, (row, name, check) in enumerate(zip(found, plan.names, plan.checks, strict=True), start=1):
            where = f"{out}, row {number} (trajectory {name})"
            try:
                check(where, row)
            except ExportError:
                raise
            except (TutelageError, ValueError, KeyError, TypeError) as error:
                raise ExportError(f"{where}: the trainer would refuse it: {error}") from error
        if spec is TARGETS["trl"]:
            assert renderer is not None
            ledger.notes.append(_ask_trl(out, found, renderer.pad_token_id, ledger.counts["trained_tokens"]))

    put_in_place(out, write, prove)
    amount = "tokens" if "tokens" in ledger.counts else "characters"
    if total := ledger.counts[amount]:
        share = ledger.counts[f"trained_{amount}"] / total
        ledger.notes.append(
            f"trained fraction {share:.4f} of the {amount}; read back and equal in all {len(plan.rows)} rows"
        )


def _ask_trl(out: Path, rows: list[dict[str, Any]], pad_token_id: int, expected: int) -> str:
    """What TRL itself trains of the rows, batch by batch and packed. Returns a sentence for the ledger."""
    if not reread_tokens.has_trl():
        return "TRL is not installed here, so its published rule was applied and its collator was not asked"
    for number, (row, positions) in enumerate(
        zip(rows, reread_tokens.trl_batches(rows, pad_token_id), strict=True), start=1
    ):
        if positions != reread_tokens.reread_trl(row)[1]:
            raise ExportError(f"{out}, row {number}: TRL's collator trains other tokens than the labels say.")
    packed = reread_tokens.trl_packed_count(rows, pad_token_id)
    if packed != expected:
        raise ExportError(f"{out}: TRL trains {packed} tokens when it packs, expected {expected}.")
    return f"TRL's own collator trains the same tokens, padded and packed: {expected}"


def put_in_place(out: Path, write: Callable[[Path], None], prove: Callable[[Path], None]) -> None:
    """Give a file or folder its name once it is proven; on any failure nothing new is left."""
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        prove(temporary)
        if out.is_dir():
            shutil.rmtree(out)
        os.replace(temporary, out)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def out_kind(kinds: Sequence[str], out: Path) -> str:
    """Which of its kinds of file the name asks a target for."""
    if "folder" in kinds and not out.suffix:
        return "folder"
    return write_tokens.kind_of(out, [kind for kind in kinds if kind != "folder"])


def check_free(out: Path, *, force: bool) -> None:
    """Raise ConfigError where something stands under the name already, unless `force`."""
    if out.exists() and not force:
        raise ConfigError(f"{out}: is there already. Give another name, or --force to write it anew.")


def _why(ledger: FormatLedger) -> str:
    if not ledger.problems:
        return "No trajectory came in."
    counts = ", ".join(f"{count} {reason}" for reason, count in ledger.skipped.items())
    return f"Skipped: {counts}. The first: {ledger.problems[0]}"
