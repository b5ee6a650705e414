"""Random players: what somebody would say who knows how actions are written, and nothing else.

They play the warm-up of new students and give its vocabulary. None looks at what the task asks for; a text of the task is
a text like any other, to take words from.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Final

from tutelage.envs.base import Env
from tutelage.envs.registry import environment_of, load_place
from tutelage.envs.repo.settings import action_format_named
from tutelage.errors import ConfigError
from tutelage.policies.base import PartialTrajectory
from tutelage.types import ParsedCall

RandomPlayer = Callable[[PartialTrajectory, Sequence[str] | None, random.Random], str]
"""From the trajectory so far, the admissible commands (None: the list is open) and a generator to the text of an action."""

_NAME: Final = re.compile(r"[A-Z][a-z]+(?: [A-Z][a-z]+)+")
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_PATH: Final = re.compile(r"\b[\w/]+\.py\b")
_WORD: Final = re.compile(r"\b[a-z_]{4,}\b")


def random_player_of(env_name: str, env: Env) -> RandomPlayer:
    """The random player of an environment. Raises ConfigError where it has none and `env` lists no commands."""
    spec = environment_of(env_name)
    if spec is not None and spec.random_player is not None:
        player: RandomPlayer = load_place(spec.random_player)
        return player
    if env.admissible() is None:
        raise ConfigError(
            f"environment '{env_name}': its commands are not listed and it names no random player, so there is no random "
            "play of it. Name one in its EnvSpec."
        )
    return any_admissible


def any_admissible(so_far: PartialTrajectory, admissible: Sequence[str] | None, rng: random.Random) -> str:
    """Draws a first word among those of the admissible commands, then a command that begins with it."""
    by_verb: dict[str, list[str]] = {}
    for command in admissible or ():
        by_verb.setdefault(command.partition(" ")[0], []).append(command)
    return rng.choice(by_verb[rng.choice(sorted(by_verb))]) if by_verb else ""


def shop_random(so_far: PartialTrajectory, admissible: Sequence[str] | None, rng: random.Random) -> str:
    """Searches for a stretch of the instruction's words; elsewhere clicks, on products and options above all."""
    clicks = [command for command in admissible or () if command.startswith("click[")]
    if not clicks or any(command.startswith("search[") for command in admissible or ()):
        asked = re.split(r" with |, ", so_far.task.goal.lower())[0]
        words = re.findall(r"[a-z]+", asked) or ["thing"]
        start = rng.randrange(max(1, len(words) - 1))
        return f"search[{' '.join(words[start : start + rng.randint(2, 6)])}]"
    leaving = ("click[back to search]", "click[< prev]", "click[next >]", "click[buy now]")
    tabs = ("click[description]", "click[features]", "click[reviews]", "click[attributes]")
    weights = [0.3 if one in tabs else 0.7 if one in leaving else 3.0 for one in clicks]
    return rng.choices(clicks, weights)[0]


def search_random(so_far: PartialTrajectory, admissible: Sequence[str] | None, rng: random.Random) -> str:
    """Searches for a name of the question or of a passage, or answers with a name or a number."""
    texts = [so_far.observation.text, *(step.observation.text for step in so_far.steps)]
    names = _NAME.findall(rng.choice(texts)) or _NAME.findall(texts[0]) or ["Nobody"]
    if rng.random() < 0.8 or not so_far.steps:
        return f"<search>{rng.choice(names)}</search>"
    return f"<answer>{rng.choice([*names, *_NUMBER.findall(so_far.observation.text)])}</answer>"


def python_random(so_far: PartialTrajectory, admissible: Sequence[str] | None, rng: random.Random) -> str:
    """Computes something with numbers of the texts, or answers with one."""
    numbers = [one for one in _NUMBER.findall(so_far.observation.text) if len(one) <= 5] or ["1"]
    if rng.random() < 0.7 or not so_far.steps:
        terms = [rng.choice(numbers)]
        for _ in range(rng.randint(1, 3)):
            terms += [rng.choice(["+", "-", "*", "//", "%"]), rng.choice(numbers)]
        return f"<python>print({' '.join(terms)})</python>"
    return f"<answer>{rng.choice(numbers)}</answer>"


def repo_random(so_far: PartialTrajectory, admissible: Sequence[str] | None, rng: random.Random) -> str:
    """Looks at files that the texts name, searches for a word of them, runs the tests, or submits."""
    action_format = action_format_named(str(so_far.task.settings.get("action_format", "functions")))
    texts = "\n".join([so_far.observation.text, *(step.observation.text for step in so_far.steps)])
    path = rng.choice(sorted(set(_PATH.findall(texts))) or ["README.md"])
    word = rng.choice(sorted(set(_WORD.findall(texts))) or ["def"])
    commands = ("ls", "ls -R", f"cat {path}", f"grep -rn {word} .", "python -m pytest -q 2>&1 | tail -n 20")
    calls = [ParsedCall(name="bash", arguments={"command": command}) for command in commands]
    calls += [ParsedCall(name="edit", arguments={"command": "view", "path": path}), ParsedCall(name="submit")]
    return action_format.write(rng.choice(calls))
