"""Verb `export`: stored trajectories -> the training data of another tool, proven by reading it back."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tutelage.errors import ConfigError

if TYPE_CHECKING:
    from tutelage.formats.base import FormatLedger
    from tutelage.formats.write_text import CallStyle
    from tutelage.rendering.base import Renderer
    from tutelage.types import StepSupervision, Task, Trajectory

DEFAULT_SELECT = "not_truncated"
"""Filter before training data of another tool."""

MASKS = ("expert_steps", "student_steps", "all_steps", "expert_labels", "expert_labels_disagree")


def export(
    target: Annotated[str, typer.Argument(help="What to write; `tutelage export list` names the targets.")],
    source: Annotated[
        str, typer.Argument(help="A trajectories.jsonl or a run directory. For verl: a file of tasks, or NAME:SPLIT.")
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", help="File or folder to write.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="A rollout of the run directory.")] = None,
    mask: Annotated[str, typer.Option("--mask", help=f"Which steps are learnt: {', '.join(MASKS)}.")] = "expert_steps",
    supervision: Annotated[
        Path | None, typer.Option("--supervision", help="A file of step supervisions, in place of --mask.")
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            "--select",
            help="Filters before it, e.g. solved,no_repetition:max_identical=4, or none. "
            f"Default: {DEFAULT_SELECT} (records: none).",
        ),
    ] = None,
    instructions: Annotated[
        str,
        typer.Option(
            "--instructions",
            help="System message of episodes without one: auto (the environment's own text), a text, or none.",
        ),
    ] = "none",
    model: Annotated[
        str | None, typer.Option("--model", help="Folder of the model to train, or builtin:NAME: its tokenizer writes.")
    ] = None,
    text: Annotated[
        str, typer.Option("--text", help="With --model, an action not sampled by it: as written, or its bare command.")
    ] = "written",
    calls: Annotated[
        str, typer.Option("--calls", help="Native calls in tokenised rows: refuse, or tool_call (<tool_call> JSON).")
    ] = "refuse",
    layout: Annotated[str, typer.Option("--layout", help="Tokenised rows: whole episodes, or per_step.")] = "whole",
    merge: Annotated[
        str, typer.Option("--merge", help="Neighbouring messages of one role where turns are wanted: reject or join.")
    ] = "reject",
    round_weights: Annotated[
        bool, typer.Option("--round-weights", help="Weights of 0.5 and more count as 1, the others as 0.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="verl: only the first tasks of NAME:SPLIT.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do and prove all of it, show the first episode, keep no file.")
    ] = False,
    max_skipped: Annotated[
        int | None, typer.Option("--max-skipped", min=0, help="Exit with code 3 if more trajectories are skipped.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what stands under the name.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ledger as JSON.")] = False,
) -> int:
    """Write training data for another tool, read it back by that tool's rules, and keep it only if it says the same."""
    from tutelage.formats.export import export
    from tutelage.formats.export_records import export_native, export_verl
    from tutelage.formats.export_targets import TARGETS
    from tutelage.formats.instructions import with_instructions

    if target == "list":
        _print_targets()
        return 0
    if target not in (*TARGETS, "native", "verl"):
        raise ConfigError.unknown("export: target", target, (*TARGETS, "native", "verl"))
    if not source or out is None:
        raise ConfigError(f"export {target}: name what to read and --out FILE.")
    for option, value, known in (
        ("merge", merge, ("reject", "join")),
        ("layout", layout, ("whole", "per_step")),
        ("text", text, ("written", "command")),
        ("calls", calls, ("refuse", "tool_call")),
    ):
        if value not in known:
            raise ConfigError.unknown(f"export: --{option}", value, known)

    def write(to: Path) -> FormatLedger:
        if target == "verl":
            return export_verl(_tasks(source, count), to, force=force)
        # What a limit ended is no example to learn from, unless it is asked for; records keep everything.
        record = target == "native" or TARGETS[target].whole
        wanted = select if select is not None else "none" if record else DEFAULT_SELECT
        trajectories = _selected(_trajectories(source, name), wanted)
        supervise = _supervise(mask, supervision)
        if instructions != "none":
            if record:
                raise ConfigError(
                    f"export {target}: records are kept as they were played; --instructions has no place in them."
                )
            # A list, since it is read more than once.
            trajectories = list(with_instructions(trajectories, instructions))
        if dry_run:
            _show_first(trajectories, supervise)
        if target == "native":
            return export_native(trajectories, to, supervise=supervise, force=force)
        notes: list[str] = []
        renderer = None
        if model is not None:
            tokenised = TARGETS[target].sample_row is not None
            # Messages say their calls themselves; the style serves only to compare tokens.
            style: CallStyle = "tool_call" if calls == "tool_call" or not tokenised else "refuse"
            renderer = _renderer(model, text, style, trajectories if tokenised else (), notes)
        return export(
            target,
            trajectories,
            to,
            supervise=supervise,
            renderer=renderer,
            layout="per_step" if layout == "per_step" else "whole",
            merge="join" if merge == "join" else "reject",
            round_weights=round_weights,
            force=force,
            notes=notes,
        )

    if dry_run:
        with tempfile.TemporaryDirectory() as folder:
            ledger = write(Path(folder) / out.name)
            ledger.notes = [note for note in ledger.notes if folder not in note]  # of files that were written beside
    else:
        ledger = write(out)
    _tell(ledger, None if dry_run else out, as_json)
    return 3 if max_skipped is not None and sum(ledger.skipped.values()) > max_skipped else 0


def _print_targets() -> None:
    from tutelage.formats.export_targets import TARGETS

    for name, target in TARGETS.items():
        print(f"{name:<14} {target.help}")
    print(f"{'native':<14} our own records: trajectories and what is learnt of each")
    print(f"{'verl':<14} Parquet of tasks for reinforcement learning")


def _trajectories(source: str, name: str | None) -> Iterable[Trajectory]:
    from tutelage.cli.stored import trajectories_of
    from tutelage.store import RecordStore

    path, _ = trajectories_of(Path(source), name)
    store: RecordStore = RecordStore(path, "trajectory")
    if store.note:
        print(f"note: {store.note}", file=sys.stderr)
    return store


def _tasks(source: str, count: int | None) -> list[Task]:
    from tutelage.store import RecordStore
    from tutelage.tasks.registry import load_tasks
    from tutelage.types import Split

    name, colon, split = source.partition(":")
    if colon and not Path(source).exists():
        if split not in set(Split):
            raise ConfigError.unknown(f"export verl: split of {source}", split, Split)
        if count is None:
            raise ConfigError(f"export verl: say how many tasks of {source} with --count N.")
        return list(load_tasks(name, split, count=count))
    if not Path(source).is_file():
        raise ConfigError(f"{source}: no such file. Give a file of task records, or NAME:SPLIT, e.g. household:train.")
    return list(RecordStore(source, "task"))


def _selected(trajectories: Iterable[Trajectory], wanted: str) -> Iterable[Trajectory]:
    """What the filters keep; their ledger goes to standard error."""
    if wanted in ("", "none"):
        return trajectories
    from tutelage.selection.filters import make_filter
    from tutelage.selection.ledger import select

    filters = []
    for one in wanted.split(","):
        name, *options = one.strip().split(":")
        pairs = [option.partition("=") for option in options]
        filters.append(make_filter(name, **{key: _value(text) for key, _, text in pairs}))
    selection = select(trajectories, filters)
    print(f"select  {selection.ledger}", file=sys.stderr)
    return selection.kept


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _supervise(mask: str, supervision: Path | None) -> Callable[[Trajectory], StepSupervision]:
    from tutelage.supervision.step_masks import STEP_MASKS

    if supervision is None:
        if mask not in STEP_MASKS:
            raise ConfigError.unknown("export: --mask", mask, STEP_MASKS)
        return STEP_MASKS[mask]
    from tutelage.store import read_records

    stored = {one.trajectory_id: one for one in read_records(supervision, "step_supervision")}

    def look_up(trajectory: Trajectory) -> StepSupervision:
        if trajectory.trajectory_id not in stored:
            raise ConfigError(f"{supervision}: holds no supervision of trajectory {trajectory.trajectory_id}.")
        found: StepSupervision = stored[trajectory.trajectory_id]
        return found

    return look_up


def _renderer(model: str, text: str, style: CallStyle, shown: Iterable[Trajectory], notes: list[str]) -> Renderer:
    """The renderer of the model, told the tools that the agents had, where its template asks for them."""
    from functools import partial

    from tutelage.formats.write_text import written_text
    from tutelage.rendering.load import load_renderer
    from tutelage.students import student_path

    folder = student_path(model)
    text_of = partial(written_text, calls=style) if text == "written" else None
    lists = {json.dumps(one.info["tools"]) for one in shown if one.info.get("tools")}
    if len(lists) > 1:
        raise ConfigError(
            f"export: the episodes have {len(lists)} different lists of tools, and a chat template is told one. Export them "
            "apart, or write messages."
        )
    if lists:
        try:
            return load_renderer(folder, text_of=text_of, tools=json.loads(lists.pop()))
        except ConfigError as error:
            notes.append(f"the tools that the agents had are not in the rows: {error}")
    return load_renderer(folder, text_of=text_of)


def _show_first(trajectories: Iterable[Trajectory], supervise: Callable[[Trajectory], StepSupervision]) -> None:
    """The first episode of which something is learnt, line by line; a star marks what is."""
    from tutelage.formats.base import Refused
    from tutelage.formats.write_messages import conversation_of

    for trajectory in trajectories:
        try:
            conversation = conversation_of(trajectory, supervise(trajectory))
        except Refused:
            continue
        print(trajectory.trajectory_id)
        for message, weight in zip(conversation.messages, conversation.weights, strict=True):
            said = " ".join((message["content"] or "").split())
            calls = "".join(f" [{call['function']['name']}]" for call in message.get("tool_calls", ()))
            print(f"  {'*' if weight > 0.0 else ' '} {message['role']:<10} {said[:90]}{calls}")
        return


def _tell(ledger: FormatLedger, out: Path | None, as_json: bool) -> None:
    for problem in ledger.problems[:5]:
        print(f"skipped  {problem}", file=sys.stderr)
    if len(ledger.problems) > 5:
        print(f"skipped  ... and {len(ledger.problems) - 5} more, in the ledger", file=sys.stderr)
    if as_json:
        print(json.dumps(ledger.to_json()))
        return
    print(ledger)
    if out is not None:
        from tutelage.formats.base import ledger_path

        print(f"-> {out}   ledger {ledger_path(out)}")
