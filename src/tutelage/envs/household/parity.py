"""Comparing our engine with transcripts of the original, text by text.

In: transcripts (.jsonl or .jsonl.gz, one episode a line) and the folder of the games they were played on. Out: a
`ParityReport`. One line holds game (path of the game folder below `games`), episode, task, intro, admissible0 and
steps, each step being [command, feedback, sorted admissible commands after it, won].
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tutelage.envs.household.engine import Engine
from tutelage.envs.household.game import Game
from tutelage.envs.household.reader import read_game
from tutelage.errors import FormatError

INTRO_STEP: Final = -1
"""Step index of a difference before the first command."""
MAX_SHOWN: Final = 10
KEYS: Final = ("game", "episode", "task", "intro", "admissible0", "steps")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParityDifference:
    """One field that differs."""

    game: str
    episode: str
    step: int
    """Index of the step, or -1 for the start of the episode."""
    command: str
    field: str
    """`intro`, `feedback`, `admissible` or `won`."""
    expected: object
    """What the original said."""
    got: object
    """What our engine said."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ParityReport:
    """How far our engine agrees with the original."""

    num_episodes: int
    num_games: int
    num_steps: int
    num_differences: int
    first_differences: tuple[ParityDifference, ...]
    """At most ten, in file order."""


def read_transcripts(path: Path) -> Iterator[dict[str, Any]]:
    """The episodes of one file, checked for their keys."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    record = json.loads(line)
                except json.JSONDecodeError as error:
                    raise FormatError(f"{path}, line {number}: broken JSON ({error.msg}). Copy it again.") from None
                missing = [key for key in KEYS if key not in record]
                if missing:
                    raise FormatError(
                        f"{path}, line {number}: no {', '.join(missing)}, expected a transcript with {', '.join(KEYS)}."
                    )
                yield record
    except (EOFError, gzip.BadGzipFile) as error:
        raise FormatError(f"{path}: broken gzip file ({error}). Copy it again.") from None
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file, expected transcripts as .jsonl or .jsonl.gz.") from None


def check_transcripts(transcripts: Path, games: Path) -> ParityReport:
    """Play every transcript on our engine and compare intro, admissible commands, feedback and won.

    Each game is built from its folder below `games` with the transcript's task sentence.
    """

    @lru_cache(maxsize=64)
    def game_of(name: str, task: str) -> Game:
        return read_game(games / name, task, game_id=name)

    names: set[str] = set()
    num_episodes = num_steps = num_differences = 0
    shown: list[ParityDifference] = []
    for record in read_transcripts(transcripts):
        names.add(record["game"])
        num_episodes += 1
        num_steps += len(record["steps"])
        for difference in differences_of(record, game_of(record["game"], record["task"])):
            num_differences += 1
            if len(shown) < MAX_SHOWN:
                shown.append(difference)
    return ParityReport(
        num_episodes=num_episodes,
        num_games=len(names),
        num_steps=num_steps,
        num_differences=num_differences,
        first_differences=tuple(shown),
    )


def differences_of(record: Mapping[str, Any], game: Game) -> Iterator[ParityDifference]:
    """Play one transcript on our engine; everything that the original said otherwise, in order."""
    engine = Engine(game)

    def compare(step: int, command: str, field: str, expected: object, got: object) -> Iterator[ParityDifference]:
        if expected != got:
            yield ParityDifference(
                game=record["game"], episode=str(record["episode"]), step=step, command=command,
                field=field, expected=expected, got=got,
            )  # fmt: skip

    yield from compare(INTRO_STEP, "", "intro", record["intro"], engine.reset())
    yield from compare(INTRO_STEP, "", "admissible", record["admissible0"], list(engine.admissible()))
    for index, (command, feedback, admissible, won) in enumerate(record["steps"]):
        yield from compare(index, command, "feedback", feedback, engine.step(command))
        yield from compare(index, command, "admissible", admissible, list(engine.admissible()))
        yield from compare(index, command, "won", won, engine.won)
