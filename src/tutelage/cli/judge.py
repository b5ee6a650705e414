"""Verb `judge`: why did stored episodes fail?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tutelage.cli.stored import RunArgument, trajectories_of
from tutelage.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tutelage.cli.display import Display
    from tutelage.evaluation.judge.base import Judge, JudgedFile
    from tutelage.evaluation.judge.taxonomy import Population
    from tutelage.types import FailureCategory

JUDGES = ("rules", "endpoint")


class Part(NamedTuple):
    """A file of trajectories, and what its judgements call it."""

    source: str
    path: Path


def judge(
    run: RunArgument,
    name: Annotated[
        str | None, typer.Argument(help="A rollout or an arm of a run directory. Default: all that there are.")
    ] = None,
    judge: Annotated[str, typer.Option("--judge", help="rules (no model is needed) or endpoint.")] = "rules",
    url: Annotated[str | None, typer.Option("--url", help="Of the endpoint, e.g. http://127.0.0.1:8000/v1.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="As the endpoint names it.")] = None,
    server: Annotated[str, typer.Option("--server", help="Dialect of the endpoint.")] = "openai",
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", help="Name of the environment variable that holds the key.")
    ] = None,
    answer: Annotated[str, typer.Option("--answer", help="Form of the answers: json or line.")] = "json",
    structured: Annotated[
        bool, typer.Option("--structured/--no-structured", help="Send the schema of the answer along.")
    ] = True,
    repair: Annotated[bool, typer.Option("--repair", help="Mend missing brackets of answers.")] = False,
    votes: Annotated[int, typer.Option("--votes", min=1, help="Odd; the category with most votes counts.")] = 1,
    temperature: Annotated[float, typer.Option("--temperature", min=0.0, help="Of the endpoint.")] = 0.0,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="Of one answer.")] = 512,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Requests side by side.")] = 8,
    labels: Annotated[
        Path | None, typer.Option("--labels", help="JSON lines with trajectory_id and category, to compare with.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Ask again for what was left unscored.")] = False,
    max_unscored: Annotated[
        int | None, typer.Option("--max-unscored", min=0, help="Exit with code 3 if more are left unscored.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Default: judgements.jsonl in the run, or beside the file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Say why failed episodes failed, one category each, by rules or by a model; compare with labels."""
    from tutelage.cli.display import Display
    from tutelage.evaluation.judge.agreement import read_labels
    from tutelage.evaluation.judge.connect import endpoint_judge
    from tutelage.evaluation.judge.rules import RulesJudge
    from tutelage.store import RecordStore

    if judge not in JUDGES:
        raise ConfigError.unknown("judge: --judge", judge, JUDGES)
    parts = list(_parts(run, name))
    path = out or (run if run.is_dir() else run.parent) / "judgements.jsonl"
    store = RecordStore(path, "judgement")
    labelled = None if labels is None else read_labels(labels)
    close: Callable[[], object] = _nothing_to_close
    chosen: Judge = RulesJudge()
    if judge == "endpoint":
        from tutelage.policies.endpoint.client import EndpointClient

        asked = endpoint_judge(
            url,
            model,
            api_key_env=api_key_env,
            server=server,
            form=answer,
            votes=votes,
            temperature=temperature,
            max_tokens=max_tokens,
            concurrency=concurrency,
            structured=structured,
            repair=repair,
            folder=path.parent / "endpoints",
        )
        assert isinstance(asked.chat, EndpointClient)
        chosen, close = asked, asked.chat.close
    try:
        with Display(quiet=as_json) as display:
            found = [_judge_part(part, chosen, store, again, display) for part in parts]
    finally:
        close()
    if store.note:
        print(f"note: {store.note}", file=sys.stderr)
    _tell(found, labelled, path, as_json)
    unscored = sum(one.category is None for each in found for one in each.file.judgements)
    if max_unscored is not None and unscored > max_unscored:
        print(f"{unscored} unscored, at most {max_unscored} were allowed", file=sys.stderr)
        raise typer.Exit(3)


class _Judged(NamedTuple):
    part: Part
    population: Population
    file: JudgedFile


def _parts(run: Path, name: str | None) -> Iterator[Part]:
    """What is to be judged: one file, one part of a run, or all parts that have been played."""
    from tutelage.run_dir import RunDir

    whole_run = run.is_dir() and (run / "recipe.yaml").is_file()
    if not whole_run or name is not None:
        path, directory = trajectories_of(run, name)
        yield Part("" if directory is None else str(path.parent.relative_to(directory.root)), path)
        return
    directory = RunDir(run)
    recipe = directory.recipe()
    paths = [directory.trajectories_path(one) for one in recipe.rollouts]
    paths += [directory.evaluation_trajectories_path(one) for one in recipe.evaluated]
    there = [path for path in paths if path.is_file()]
    if not there:
        raise ConfigError(f"{run}: nothing has been played yet. Run: tutelage run {directory.recipe_path} --out {run}")
    yield from (Part(str(path.parent.relative_to(run)), path) for path in there)


def _judge_part(part: Part, judge: Judge, store: Any, again: bool, display: Display) -> _Judged:
    from tutelage.evaluation.judge.base import judge_all
    from tutelage.evaluation.judge.taxonomy import population
    from tutelage.pipeline.run import Event
    from tutelage.store import RecordStore

    held: RecordStore = RecordStore(part.path, "trajectory")
    if not len(held):
        raise ConfigError(f"{part.path}: holds no trajectory. Run the rollout that writes it first.")
    found = population(held)
    stage = f"judge:{part.source or part.path.name}"
    display(Event(stage=stage, state="started"))
    judged = judge_all(
        found.unresolved,
        judge,
        store,
        source=part.source,
        again=again,
        on_progress=lambda done, total: display(
            Event(stage=stage, state="progress", done=done, total=total, text="failures")
        ),
    )
    return _Judged(part, found, judged)


def _tell(found: list[_Judged], labels: dict[str, FailureCategory] | None, path: Path, as_json: bool) -> None:
    from tutelage.evaluation.judge.agreement import agreement_of
    from tutelage.evaluation.judge.shares import plain_table, shares_of

    agreement = None
    if labels is not None:
        agreement = agreement_of((one for each in found for one in each.file.judgements), labels)
    tables = [shares_of(each.file.judgements, each.population.unresolved) for each in found]
    if as_json:
        told: dict[str, Any] = {
            "judgements": str(path),
            "parts": [
                {
                    **table.to_json(),
                    "source": each.part.source,
                    "failed": len(each.population.unresolved),
                    "succeeded": each.population.num_resolved,
                    "not_scored": each.population.num_not_scored,
                    "asked": each.file.num_asked,
                    "stored": each.file.num_stored,
                }
                for each, table in zip(found, tables, strict=True)
            ],
        }
        print(json.dumps(told | ({"agreement": agreement.to_json()} if agreement else {})))
        return
    for each, table in zip(found, tables, strict=True):
        print(f"{each.part.source or each.part.path}: {each.population}")
        if table.num_scored:
            print(plain_table(table.rows()))
        if table.note():
            print(table.note())
        print()
    if agreement is not None:
        head = ("category", "labelled", "judged", "both", "precision", "recall")
        print(f"{agreement}\n{plain_table([head, *agreement.class_rows()])}\n")
        print(f"{plain_table(agreement.confusion_rows())}\n")
    print(f"-> {path}")


def _nothing_to_close() -> None:
    return None
