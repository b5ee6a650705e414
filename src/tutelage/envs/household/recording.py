"""Recording transcripts with the original engine, and playing it next to ours.

In: game folders. Out: transcripts that `parity.check_transcripts` reads. Needs the extra `alfworld` (alfworld and
textworld), which run in a process of their own.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tutelage.envs.alfworld.process import OriginalEngine
from tutelage.envs.household.reader import TRAJECTORY_FILE, problem_of, read_game

INVALID_COMMANDS: Final = ("", "open", "go to", "eat apple", "Look", "examine room", "put x in/on y", "take a from b")
INVALID_SHARE: Final = 0.06

WEIGHTS: Final = {
    "clean": 8.0, "heat": 8.0, "cool": 8.0, "slice": 8.0, "use": 4.0, "take": 4.0, "move": 2.0, "open": 4.0,
    "close": 1.0, "examine": 2.0, "go": 4.0, "look": 1.0, "inventory": 0.5, "help": 0.1,
}  # fmt: skip
"""How readily a verb is drawn by `random_command`: state changes are favoured."""


@contextmanager
def original_engine(folder: Path, task: str) -> Iterator[OriginalEngine]:
    """The original engine on a game folder, made anew from its problem with this task sentence."""
    engine = OriginalEngine()
    try:
        engine.load(problem_of(folder), task)
        yield engine
    finally:
        engine.close()


def random_command(rng: random.Random, admissible: Sequence[str]) -> str:
    """A command for random play: an admissible one with state changes favoured, sometimes an impossible one."""
    if rng.random() < INVALID_SHARE:
        return rng.choice(INVALID_COMMANDS)
    groups: dict[str, list[str]] = {}
    for command in admissible:
        groups.setdefault(command.split(" ", 1)[0], []).append(command)
    verbs = sorted(groups)
    verb = rng.choices(verbs, [WEIGHTS[verb] for verb in verbs])[0]
    return rng.choice(groups[verb])


def record_episode(
    folder: Path,
    *,
    game: str,
    episode: str,
    choose: Callable[[OriginalEngine], str | None],
    max_steps: int = 200,
    task: str | None = None,
) -> dict[str, Any]:
    """One transcript of the original engine.

    game: the path of the folder below the folder of all games. choose: the next command, None ends the episode.
    task: None takes the sentence of the game folder.
    """
    if task is None:
        task = read_game(folder).task
    trajectory = json.loads((folder / TRAJECTORY_FILE).read_text(encoding="utf-8"))
    with original_engine(folder, task) as engine:
        record: dict[str, Any] = {
            "game": game,
            "episode": episode,
            "task_type": trajectory["task_type"],
            "pddl_params": trajectory["pddl_params"],
            "task": task,
            "intro": engine.reset(),
            "admissible0": list(engine.admissible),
        }
        steps: list[list[Any]] = []
        while len(steps) < max_steps:
            command = choose(engine)
            if command is None:
                break
            engine.step(command)
            steps.append([command, engine.feedback, list(engine.admissible), engine.won])
    record["steps"] = steps
    return record


def record_transcripts(
    folders: Sequence[Path], games: Path, output: Path, *, seed: int = 0, max_steps: int = 45
) -> int:
    """Play each folder once at random in the original engine and write the transcripts. Returns their number.

    games: the folder that `check_transcripts` will be given; every folder lies below it. output: .jsonl.gz.
    """
    records = []
    for index, folder in enumerate(folders):
        rng = random.Random(f"{seed}/{index}")
        records.append(
            record_episode(
                folder,
                game=folder.relative_to(games).as_posix(),
                episode=f"random-{seed}",
                choose=lambda engine, rng=rng: random_command(rng, engine.admissible),  # type: ignore[misc]
                max_steps=max_steps,
            )
        )
    write_transcripts(records, output)
    return len(records)


def write_transcripts(records: Sequence[dict[str, Any]], output: Path) -> None:
    """One JSON object a line, gzipped; the same records give the same bytes."""
    lines = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
    output.write_bytes(gzip.compress(lines.encode(), mtime=0))
