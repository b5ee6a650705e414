"""The command `tutelage`: one verb per stage, and how errors become exit codes.

0  done
1  a difference, a failed check, or a run that failed
2  something the user can mend: one paragraph on standard error, no traceback
3  more items were skipped than the command allows (--max-skipped)
130, 143  stopped by Ctrl-C or by a signal; what was done is stored
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, Any, cast

import typer

import tutelage
from tutelage.cli import audit, doctor, env, graph, import_verb, judge, play, show, stages, student
from tutelage.cli import export as export_verb
from tutelage.cli import run as run_verbs
from tutelage.errors import MENDABLE, TutelageError

UsageProblem = cast(type[typer.BadParameter], typer.BadParameter.__mro__[2])
"""click's ClickException: what is wrong with the command line. Newer versions of typer carry their own copy of click."""

app = typer.Typer(
    name="tutelage",
    help="Train multi-turn LM agents with an expert in the loop.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tutelage {tutelage.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command("run")(run_verbs.run)
app.command("quickstart")(run_verbs.quickstart)
app.command("recipes")(run_verbs.recipes)
app.command("rollout")(stages.rollout)
app.command("select")(stages.select)
app.command("build")(stages.build)
app.command("train")(stages.train)
app.command("evaluate")(stages.evaluate)
app.command("report")(stages.report)
app.command("show")(show.show)
app.command("graph")(graph.graph)
app.command("play")(play.play)
app.command("audit")(audit.audit)
app.command("doctor")(doctor.doctor)
app.command("judge")(judge.judge)
app.command("export")(export_verb.export)
app.command("import")(import_verb.import_)
app.add_typer(student.app, name="student")
app.add_typer(env.app, name="env")


STOPPED = 128 + signal.SIGINT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    terminated: list[int] = []
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)  # An environment of the user's own is found where the command is given.

    def on_terminate(number: int, frame: FrameType | None) -> None:
        terminated.append(number)
        raise KeyboardInterrupt  # Whatever stops in order for Ctrl-C stops for SIGTERM as well.

    previous = signal.signal(signal.SIGTERM, on_terminate)
    try:
        code = _call(arguments)
    finally:
        signal.signal(signal.SIGTERM, previous)
    if code == STOPPED:
        print("\nStopped. What was finished is stored; the same command goes on from there.", file=sys.stderr)
        return 128 + signal.SIGTERM if terminated else STOPPED
    return code


def _call(arguments: Sequence[str] | None) -> int:
    try:
        words = list(arguments) if arguments is not None else None
        result: Any = app(args=words, prog_name="tutelage", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except UsageProblem as error:
        error.show()
        return int(error.exit_code)
    except typer.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):  # Which of the two, or an exit code, depends on the version of typer.
        return STOPPED
    except BrokenPipeError:
        # The reader of a pipe has seen enough, e.g. `tutelage show ... | head`.
        sys.stderr.close()
        return 0
    except TutelageError as error:
        return _complain(error)
    except (OSError, ImportError) as error:
        from tutelage.pipeline.worker import explained

        if (better := explained(error)) is None:
            raise
        return _complain(better)


def _complain(error: TutelageError) -> int:
    print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return 2 if isinstance(error, MENDABLE) else 1


def run() -> None:
    """Entry point of the installed command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Records hold any text. What the terminal cannot show, a lone surrogate too, is shown by its number.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(main())
