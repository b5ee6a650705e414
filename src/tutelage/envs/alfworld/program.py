"""The program that plays the original engine: one request a line in, one reply a line out, JSON.

It runs in a process of its own (`process.OriginalEngine`), under any Python that has alfworld and textworld, so it
imports nothing of tutelage.

  {"load": {"problem": "(define ...", "task": "put a mug in desk"}}    a game from its start
  {"reset": true}                                                      the same game again
  {"step": "go to desk 1"}                                             one command

Reply: {"feedback": text, "admissible": sorted commands, "won": bool}, to `load` also "rules": the hash of the rules and
the grammar; or {"error": text}, or {"missing": text} where the packages are not installed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

UNKNOWN_GOAL = "UNKNOWN GOAL"
"""What stands in the grammar of the package where the task sentence goes."""


def rules_and_grammar() -> tuple[str, str]:
    """The two texts that the installed alfworld plays by."""
    from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH

    return Path(ALFRED_PDDL_PATH).read_text(encoding="utf-8"), Path(ALFRED_TWL2_PATH).read_text(encoding="utf-8")


def rules_hash() -> str:
    """SHA-256 of both texts, 64 hex digits."""
    return hashlib.sha256("\n".join(rules_and_grammar()).encode()).hexdigest()


def start_game(problem: str, task: str, scratch: Path) -> Any:
    """A textworld environment on a game made anew from its problem and a task sentence (without full stop).

    The grammar is that of the installed package, so that `move X to Y` is spoken even where the file that the game was
    released in has the older `put X in/on Y`. scratch: an existing folder for the file of the game.
    """
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler

    rules, grammar = rules_and_grammar()
    game = {
        "pddl_domain": rules,
        "grammar": grammar.replace(UNKNOWN_GOAL, task),
        "pddl_problem": problem,
        "solvable": True,
    }
    path = scratch / "game.tw-pddl"
    path.write_text(json.dumps(game), encoding="utf-8")
    infos = textworld.EnvInfos(won=True, admissible_commands=True)
    return textworld.start(str(path), infos, [AlfredDemangler(shuffle=False)])


def reply_of(state: Any) -> dict[str, Any]:
    """What is told of a state of the game."""
    return {
        "feedback": str(state.feedback),
        "admissible": sorted(set(state.admissible_commands)),
        "won": bool(state.won),
    }


class Server:
    """Answers requests on one game at a time."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.env: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "load" in request:
            if self.env is not None:
                self.env.close()
            self.env = start_game(request["load"]["problem"], request["load"]["task"], self.scratch)
            return {"rules": rules_hash(), **reply_of(self.env.reset())}
        if "reset" in request:
            return reply_of(self.env.reset())
        state, _score, _done = self.env.step(request["step"])
        return reply_of(state)


def serve(requests: BinaryIO, replies: BinaryIO, scratch: Path) -> None:
    """Answer until the requests end. An error is a reply, and the last one."""
    server = Server(scratch)
    for line in requests:
        try:
            reply = server.answer(json.loads(line))
        except ImportError as error:
            reply = {"missing": str(error)}
        except Exception as error:  # Whatever the engine raises is told to the one who asked.
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply).encode() + b"\n")
        replies.flush()
        if "feedback" not in reply:
            return


def main() -> None:
    # Python puts the folder of the program first, where modules of ours could stand in front of installed ones.
    del sys.path[0]
    # What the packages print must not come between the replies.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # The other side is gone if this is broken.
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, replies, Path(sys.argv[1]))
    # Without the destructors of the engine, which take long and may crash.
    os._exit(0)


if __name__ == "__main__":
    main()
