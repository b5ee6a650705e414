"""mini-swe-agent ``.traj.json``: ``info``, ``messages`` with an ``extra`` bag each, ``trajectory_format``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tutelage.envs.action_formats import command_of
from tutelage.formats.base import (
    ReadOptions,
    ReadProblem,
    Refused,
    clean_json,
    clean_text,
    item,
    json_from_bytes,
    shown,
    with_replaced,
)
from tutelage.formats.outcomes import Outcomes
from tutelage.formats.read_messages import actions_of, actors_by_index, assembled, cut, text_of
from tutelage.formats.stop_reasons import mini_stop
from tutelage.types import Action, ParsedCall, ParseOutcome, Trajectory

NAME = "mini_swe_agent"

KNOWN_VERSION: Final = (1, 1)
"""Major and minor version of ``trajectory_format`` that this reader was written for."""

_VERSION: Final = re.compile(r"mini-swe-agent-(\d+)(?:\.(\d+))?")
_BLOCK: Final = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\n(.*?)\n?```", re.DOTALL)


def read_mini_swe_agent(path: Path, options: ReadOptions = ReadOptions()) -> Iterator[Trajectory | ReadProblem]:
    """The one trajectory of a file. The message of role ``exit`` is no observation; it is kept in ``info``.

    An unknown major version is refused, an unknown minor one noted in ``info["notes"]``. A run that was killed has no exit
    status: `INTERRUPTED`, reward None.
    """
    yield item(partial(_trajectory, path, options), path)


def _trajectory(path: Path, options: ReadOptions) -> Trajectory:
    data = path.read_bytes()
    value, replaced = clean_json(json_from_bytes(data))
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise Refused("no_messages", "expected an object with a list 'messages'", byte=0)
    notes = check_version(value.get("trajectory_format"))
    told = _object(value.get("info"))
    exits = [one for one in value["messages"] if isinstance(one, dict) and one.get("role") == "exit"]
    exit_info = _object(exits[-1].get("extra")) if exits else {}
    status = _text(told.get("exit_status")) or _text(exit_info.get("exit_status"))
    conversation = cut([one for one in value["messages"] if one not in exits])
    actions = [_action(one) for one in actions_of(conversation)]
    task_id = _text(value.get("instance_id")) or clean_text(path.name.split(".traj")[0])[0]
    actors = actors_by_index([value, told], [task_id], len(actions), options, str(path))
    outcomes = Outcomes.beside(path, options)
    info: dict[str, Any] = {"source": {"format": NAME, "file": shown(path)}, "exit_status": status or None}
    submission = _text(told.get("submission")) or _text(exit_info.get("submission")) or outcomes.patch(task_id)
    model = _object(_object(told.get("config")).get("model"))
    optional = {
        "submission": submission,
        "exit_message": text_of(exits[-1].get("content"), "exit message") if exits else None,
        "model": _text(model.get("model_name")) or outcomes.model(task_id),
        "cost": _object(told.get("model_stats")).get("instance_cost"),
        "told": {key: one for key, one in told.items() if key not in ("exit_status", "submission")},
        "trajectory_format": value.get("trajectory_format"),
        "notes": [*notes, *outcomes.notes],
    }
    info |= {key: one for key, one in optional.items() if one}
    stop = mini_stop(status)
    reward = outcomes.reward(task_id, value.get("resolved"), told.get("resolved"))
    if reward is not None:
        info["resolved"] = reward >= 1.0
    return assembled(
        conversation,
        actions,
        actors,
        trajectory_id=task_id,
        task_id=task_id,
        env=options.env or "repo",
        told_by=options.switch_field,
        stop_reason=stop,
        reward=reward,
        info=with_replaced(info, replaced),
    )


def check_version(version: Any) -> list[str]:
    """Notes on the version of a file. Raises `Refused` for a major version that is not ours.

    Example: ``mini-swe-agent-1.1`` -> none; ``-1.7`` -> one note; ``-2`` -> refused
    """
    if version is None:
        return ["no trajectory_format in the file"]
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if found is None or int(found[1]) != KNOWN_VERSION[0]:
        raise Refused("version", f"trajectory_format {version!r}, expected mini-swe-agent-{KNOWN_VERSION[0]}.x", byte=0)
    if int(found[2] or 0) > KNOWN_VERSION[1]:
        return [f"trajectory_format {version} is newer than mini-swe-agent-{KNOWN_VERSION[0]}.{KNOWN_VERSION[1]}"]
    return []


def _action(action: Action) -> Action:
    """An action of a text model: its command is the one fenced block, or what the scaffold noted as executed."""
    if action.call is not None or (action.raw or {}).get("tool_calls"):
        return action
    noted = (action.raw or {}).get("extra")
    executed = noted.get("actions") if isinstance(noted, dict) else None
    commands = [_command(one) for one in executed] if isinstance(executed, list) else None
    if commands is None:
        commands = [block.strip() for block in _BLOCK.findall(action.text)]
        commands = commands if len(commands) == 1 else []
    if not commands or not commands[0]:
        return replace(action, command=None, call=None, parse=ParseOutcome.MALFORMED)
    call = ParsedCall(name="bash", arguments={"command": commands[0]})
    return replace(action, command=command_of(call), call=call, parse=ParseOutcome.CLEAN)


def _command(executed: Any) -> str:
    command = executed.get("command", executed.get("action")) if isinstance(executed, Mapping) else executed
    return command if isinstance(command, str) else ""


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
