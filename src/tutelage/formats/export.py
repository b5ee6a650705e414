"""Trajectories as the training data of other tools: written, read back by the tool's own rules, and only then kept.

    ledger = export("axolotl", trajectories, "rows.jsonl", supervise=expert_steps)

A target is one line of `export_targets.TARGETS`. What a target cannot say is skipped with a reason that the ledger counts; a file that
reads back otherwise than it was meant raises `ExportError` and leaves nothing under its name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from tutelage.errors import ConfigError, ExportError, TutelageError
from tutelage.formats import reread_tokens, write_atif
from tutelage.formats.base import FormatLedger, Refused
from tutelage.formats.export_targets import TARGETS, Target
from tutelage.formats.proof import (
    check_messages,
    check_no_drift,
    check_tokens,
    fingerprint,
    fingerprint_of,
    tokens_of_reading,
    without_sampled_ids,
)
from tutelage.formats.row_files import CHUNK, RowWriter, iter_rows, kind_of
from tutelage.formats.text_renderer import TextRenderer
from tutelage.formats.write_messages import (
    Conversation,
    conversation_of,
    fit_for_utf8,
    merged,
    num_joined,
    sft_weights,
    with_named_answers,
)
from tutelage.rendering.base import Renderer
from tutelage.store import write_atomic
from tutelage.supervision.samples import Layout, build_samples
from tutelage.types import LossComponent, StepSupervision, TrainingSample, Trajectory

Supervise = Callable[[Trajectory], StepSupervision]
"""Which steps are learnt, e.g. a mask of `STEP_MASKS`."""

Merge = Literal["reject", "join"]
"""Neighbouring messages of one role in an observation: refuse what needs turns, or join them by an empty line."""


Check = Callable[[str, dict[str, Any]], None]
"""``check(where, row)`` raises `ExportError` if a row that was read back is not what was meant."""

Planned = tuple[dict[str, Any], Check]
"""A row to write, and its check. The check holds the trajectory, not the tokens: files may be larger than memory."""


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
    `load_renderer`, e.g. `written_text`); a `Refused` from there skips the trajectory. `layout` is for tokenised targets,
    `merge` for those that take turns. `round_weights`: weights of at least 0.5 count as 1, the others as 0, where a target
    knows only 0 and 1. `notes` open those of the ledger.

    Raises:
        ConfigError: an unknown target, a missing model, an output that is there already.
        ExportError: nothing could be written, or the file reads back otherwise than it was meant.
    """
    if target not in TARGETS:
        raise ConfigError.unknown("export: target", target, TARGETS)
    spec = TARGETS[target]
    out = Path(out)
    kind = kind_of(out, spec.kinds)
    check_free(out, force=force)
    if spec.sample_row is not None and renderer is None:
        raise ConfigError(
            f"export {target}: tokenised rows need the model whose tokenizer writes them (--model FOLDER)."
        )
    ledger = FormatLedger(format=target, notes=list(notes))
    job = _Job(spec, supervise, renderer, layout, merge, round_weights, ledger)
    checks: list[tuple[str, Check]] = []

    def write(path: Path) -> None:
        schema = spec.schema() if spec.schema is not None and kind != "jsonl" else None
        with RowWriter(path, kind, schema) as rows:
            for trajectory in trajectories:
                for row, check in job.planned(trajectory):
                    rows.add(row)
                    checks.append((trajectory.trajectory_id, check))
        if not checks:
            raise ExportError(f"{out}: no row to write. {_why(ledger)}")

    def prove(path: Path) -> None:
        _prove(out, iter_rows(path, kind), checks)
        if spec is TARGETS["trl"]:
            assert renderer is not None
            rows = iter_rows(path, kind)
            ledger.notes.append(_ask_trl(out, rows, renderer.pad_token_id, ledger.counts["trained_tokens"]))

    put_in_place(out, write, prove)
    amount = "tokens" if "tokens" in ledger.counts else "characters"
    if total := ledger.counts[amount]:
        share = ledger.counts[f"trained_{amount}"] / total
        ledger.notes.append(
            f"trained fraction {share:.4f} of the {amount}; read back and equal in all {len(checks)} rows"
        )
    if spec.config is not None:
        text = spec.config.format(path=out.name, name=out.stem)
        beside = out.with_name(f"{out.stem}.{target}{spec.config_suffix}")
        write_atomic(beside, text.encode())
        ledger.notes.append(f"settings of the trainer by which the flags rule: {beside}")
    if spec.note is not None:
        ledger.notes.append(spec.note)
    ledger.write_beside(out)
    return ledger


@dataclass(frozen=True, slots=True)
class _Job:
    """What every trajectory of an export goes through: rows and their checks, or a line in the ledger."""

    spec: Target
    supervise: Supervise
    renderer: Renderer | None
    layout: Layout
    merge: Merge
    round_weights: bool
    ledger: FormatLedger

    def planned(self, given: Trajectory) -> list[Planned]:
        """The rows of a trajectory; none if it is refused, which the ledger counts."""
        try:
            supervision, rounded = _weighed(self.supervise(given), self.spec, self.round_weights)
            if self.spec.sample_row is not None:
                assert self.renderer is not None
                planned = self._samples(given, supervision, self.renderer)
            else:
                planned = self._messages(given, supervision)
        except Refused as refused:
            self.ledger.skip(refused.at(given.trajectory_id))
            return []
        if rounded:
            self.ledger.counts["rounded_weights"] += rounded
        return planned

    def _samples(self, trajectory: Trajectory, supervision: StepSupervision, renderer: Renderer) -> list[Planned]:
        make = partial(build_samples, trajectory, supervision, renderer, layout=self.layout)
        samples = make()
        if not samples:
            raise Refused("no_trained_step", "the mask trains none of its steps")
        assert self.spec.sample_row is not None
        counts = self.ledger.counts
        self.ledger.converted(
            rows=len(samples),
            trained_actions=sum(weight > 0.0 for weight in sft_weights(supervision)),
            tokens=sum(len(sample.token_ids) for sample in samples),
            trained_tokens=sum(sample.num_trained_tokens for sample in samples),
        )
        counts["longest_row"] = max(counts["longest_row"], *(len(sample.token_ids) for sample in samples))
        return [
            (self.spec.sample_row(sample), partial(_check_sample, self.spec, fingerprint_of(sample), make, place))
            for place, sample in enumerate(samples)
        ]

    def _messages(self, given: Trajectory, supervision: StepSupervision) -> list[Planned]:
        spec = self.spec
        renderer = None if spec.whole else self.renderer  # A record keeps what no renderer writes.
        answered, named = (given, 0) if spec.whole else with_named_answers(given)
        joined = num_joined(answered) if self.merge == "join" else 0
        trajectory, replaced = fit_for_utf8(merged(answered) if joined else answered)
        conversation = conversation_of(trajectory, supervision, whole=spec.whole)
        if renderer is not None:
            check_no_drift(trajectory, renderer)
        rows = _rows(spec, conversation, trajectory)
        text: Renderer = renderer or TextRenderer()
        compared = trajectory if renderer is not None else without_sampled_ids(trajectory)
        make = partial(build_samples, compared, supervision, text, layout=spec.layout)
        samples = make() if conversation.trained else []
        if spec.layout == "whole" and not spec.whole and not _is_one_view(samples, trajectory):
            # A trainer renders the conversation once; we train each step in the view in which it was taken.
            raise Refused(
                "history_rewritten", "the template writes past turns otherwise than they were; write tokenised rows"
            )
        unit = "tokens" if renderer is not None else "characters"
        sampled = sum(step.action.token_ids is not None for step in trajectory.steps)
        counts = {
            "rows": len(rows),
            "messages": sum(len(meant.messages) for _, meant in rows),
            "trained_messages": sum(len(meant.trained) for _, meant in rows),
            unit: sum(len(sample.token_ids) for sample in samples),
            f"trained_{unit}": sum(sample.num_trained_tokens for sample in samples),
            "answers_named": named,
            "joined_messages": joined,
            "replaced_characters": replaced,
            "sampled_ids_left_out": 0 if spec.whole else sampled,
            "keys_left_out": len(conversation.left_out),
        }
        self.ledger.converted(**{name: count for name, count in counts.items() if count})
        prints = [fingerprint_of(sample) for sample in samples]
        return [
            (row, partial(_check_row, spec, meant, text, prints if len(rows) == 1 else [prints[place]], make, place))
            for place, (row, meant) in enumerate(rows)
        ]


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


def _check_sample(
    spec: Target, meant: bytes, make: Callable[[], list[TrainingSample]], place: int, where: str, row: dict[str, Any]
) -> None:
    assert spec.reread_sample is not None
    got = spec.reread_sample(row)
    if fingerprint(*got) != meant:
        check_tokens(where, got, make()[place])
        raise AssertionError(f"{where}: equal tokens with unequal fingerprints")


def _check_row(
    spec: Target,
    meant: Conversation,
    renderer: Renderer,
    prints: Sequence[bytes],
    make: Callable[[], list[TrainingSample]],
    place: int,
    where: str,
    row: dict[str, Any],
) -> None:
    assert spec.reread is not None
    reading = spec.reread(row)
    check_messages(where, reading, meant, loses=spec.loses)
    if not prints:
        return
    got = tokens_of_reading(reading, meant, renderer, spec.layout)
    if len(got) != len(prints):
        raise ExportError(f"{where}: {len(got)} samples are read back, expected {len(prints)}.")
    for number, (one, expected) in enumerate(zip(got, prints, strict=True)):
        if fingerprint(*one) != expected:
            check_tokens(where, one, make()[place + number])
            raise AssertionError(f"{where}: equal tokens with unequal fingerprints")


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


def _prove(out: Path, found: Iterator[dict[str, Any]], checks: Sequence[tuple[str, Check]]) -> None:
    """Compare each row that is read back with what was meant. Raises ExportError."""
    number = 0
    for number, row in enumerate(found, start=1):
        if number > len(checks):
            break
        name, check = checks[number - 1]
        where = f"{out}, row {number} (trajectory {name})"
        try:
            check(where, row)
        except ExportError:
            raise
        except (TutelageError, ValueError, KeyError, TypeError) as error:
            raise ExportError(f"{where}: the trainer would refuse it: {error}") from error
    if number != len(checks):
        raise ExportError(f"{out}: {number} rows are read back, {len(checks)} were written.")


def _ask_trl(out: Path, rows: Iterator[dict[str, Any]], pad_token_id: int, expected: int) -> str:
    """What TRL itself trains of the rows, batch by batch and packed. Returns a sentence for the ledger."""
    if not reread_tokens.has_trl():
        return "TRL is not installed here, so its published rule was applied and its collator was not asked"
    number = packed = 0
    while chunk := list(islice(rows, CHUNK)):
        for row, positions in zip(chunk, reread_tokens.trl_batches(chunk, pad_token_id), strict=True):
            number += 1
            if positions != reread_tokens.reread_trl(row)[1]:
                raise ExportError(f"{out}, row {number}: TRL's collator trains other tokens than the labels say.")
        packed += reread_tokens.trl_packed_count(chunk, pad_token_id)
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


def check_free(out: Path, *, force: bool) -> None:
    """Raise ConfigError where something stands under the name already, unless `force`."""
    if out.exists() and not force:
        raise ConfigError(f"{out}: is there already. Give another name, or --force to write it anew.")


def _why(ledger: FormatLedger) -> str:
    if not ledger.problems:
        return "No trajectory came in."
    counts = ", ".join(f"{count} {reason}" for reason, count in ledger.skipped.items())
    return f"Skipped: {counts}. The first: {ledger.problems[0]}"
