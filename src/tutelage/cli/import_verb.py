"""Verb `import`: files of other tools -> our own records, with an account of everything that was left out."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutelage.errors import ConfigError

if TYPE_CHECKING:
    from tutelage.formats.base import FormatLedger, ReadOptions

SHOWN_PROBLEMS = 5
"""Problems that are printed; the ledger has all."""


def import_(
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT", help="A format, or auto; `tutelage import list` names them.")
    ],
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH...", help="Files, or folders of them.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The trajectories.jsonl to write.")] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", help="Who acted, where the files do not say: student or expert.")
    ] = None,
    switch_index: Annotated[
        str | None,
        typer.Option(
            "--switch-index",
            metavar="FIELD|FILE",
            help="Number of student steps before the expert's: a key of the files, or a file of ids and indices.",
        ),
    ] = None,
    env: Annotated[str | None, typer.Option("--env", help="Name of the environment they were played in.")] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="A grader's report (JSON), where none stands beside the files.")
    ] = None,
    flag: Annotated[
        str | None,
        typer.Option("--flag", help="Key of messages that says what is trained, e.g. weight. Without it none does."),
    ] = None,
    one_submit: Annotated[
        bool,
        typer.Option(
            "--cut-at-first-submit", help="End each trajectory at its first submit (of an expert that asks twice)."
        ),
    ] = False,
    drop_token_ids: Annotated[
        bool, typer.Option("--drop-token-ids", help="Leave out sampled ids (for another tokenizer).")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and count, write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what stands under the name.")] = False,
    max_skipped: Annotated[
        int | None, typer.Option("--max-skipped", min=0, help="Exit with code 3 if more items are skipped.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ledger as JSON.")] = False,
) -> int:
    """Read trajectories of other tools. What cannot be read is named with file, line or byte, and reason."""
    from tutelage.formats.registry import FORMATS

    if format_name == "list":
        for one in FORMATS.values():
            print(f"{one.name:<15} {one.summary}")
        print(f"{'auto':<15} each file by what stands in it")
        return 0
    if not paths or (out is None and not dry_run):
        raise ConfigError(
            "import: name the files to read and --out FILE, e.g. tutelage import auto runs/ --out t.jsonl."
        )
    if out is not None and out.exists() and not force and not dry_run:
        raise ConfigError(f"{out}: is there already. Give --force to replace it, or another --out.")
    options = _options(actor, switch_index, report)
    options = replace(options, env=env, flag=flag, one_submit=one_submit, token_ids=not drop_token_ids)
    ledger = _import(format_name, paths, None if dry_run else out, options)
    _tell(ledger, None if dry_run else out, as_json)
    if not ledger.num_converted:
        return 1
    return 3 if max_skipped is not None and sum(ledger.skipped.values()) > max_skipped else 0


def _options(actor: str | None, switch_index: str | None, report: Path | None) -> ReadOptions:
    """What a reader is told of authors and outcomes."""
    from tutelage.formats.base import ReadOptions, Refused, json_from_bytes
    from tutelage.formats.outcomes import rewards_of
    from tutelage.formats.registry import read_switch_indices
    from tutelage.types import Actor

    if actor is not None and actor not in list(Actor):
        raise ConfigError.unknown("import: --actor", actor, Actor)
    options = ReadOptions(actor=None if actor is None else Actor(actor))
    if switch_index is not None:
        side = Path(switch_index)
        if side.is_file():
            options = replace(options, switch_indices=read_switch_indices(side))
        elif side.suffix in (".json", ".jsonl", ".csv", ".txt") or len(side.parts) > 1:
            raise ConfigError(f"{side}: no such file of switch indices.")
        else:
            options = replace(options, switch_field=switch_index)
    if report is not None:
        if not report.is_file():
            raise ConfigError(f"{report}: no such report.")
        try:
            found = rewards_of(json_from_bytes(report.read_bytes()))
        except Refused as refused:
            raise ConfigError(f"{report}: {refused}") from None
        if not found:
            raise ConfigError(
                f"{report}: names no resolved or unresolved task. Expected e.g. {{'resolved_ids': [...]}}."
            )
        options = replace(options, outcomes=found)
    return options


def _import(format_name: str, paths: list[Path], out: Path | None, options: ReadOptions) -> FormatLedger:
    """Read everything, then put the files under their names: an import that fails leaves nothing."""
    from tutelage.formats.base import FormatLedger, Refused
    from tutelage.formats.flags import flag_supervision
    from tutelage.formats.registry import read_all
    from tutelage.store import RecordStore

    ledger = FormatLedger(format=format_name)
    if out is None:
        for _ in read_all(format_name, paths, options, ledger):
            pass
        return ledger
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = out.with_suffix(".supervision.jsonl")
    temporary = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in (out, beside)}
    try:
        store: RecordStore = RecordStore(temporary[out], "trajectory")
        flags: RecordStore = RecordStore(temporary[beside], "step_supervision")
        for trajectory in read_all(format_name, paths, options, ledger, out=out):
            if options.flag is not None:
                try:
                    flags.append(flag_supervision(trajectory, options.flag))
                except Refused as refused:
                    raise ConfigError(
                        f"import: --flag: trajectory {trajectory.trajectory_id}: {refused.detail}"
                    ) from None
            store.append(trajectory)
        for path, written in temporary.items():
            if written.exists():
                os.replace(written, path)
    finally:
        for written in temporary.values():
            written.unlink(missing_ok=True)
    return ledger


def _tell(ledger: FormatLedger, out: Path | None, as_json: bool) -> None:
    if out is not None:
        ledger.write_beside(out)
    if as_json:
        print(json.dumps(ledger.to_json(), indent=1))
        return
    print(f"import  {ledger}")
    for problem in ledger.problems[:SHOWN_PROBLEMS]:
        print(f"  {problem}", file=sys.stderr)
    if len(ledger.problems) > SHOWN_PROBLEMS:
        print(f"  and {len(ledger.problems) - SHOWN_PROBLEMS} more, in the ledger", file=sys.stderr)
    if ledger.counts["unscored"] == ledger.num_converted and ledger.num_converted:
        print(
            "  no trajectory has a reward: the filter 'solved' would drop them all as unscored (--report FILE)",
            file=sys.stderr,
        )
    if out is not None and ledger.num_converted:
        from tutelage.formats.base import ledger_path

        print(f"        -> {out}   ledger {ledger_path(out)}")
