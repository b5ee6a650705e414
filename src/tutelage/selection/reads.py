"""Which actions only read, per environment. A long run of them is an agent that looks and never acts.

To add an environment: a function Action -> bool, named in the environment's `EnvSpec`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from tutelage.envs.registry import environment_of, load_place
from tutelage.types import Action

_READERS = {"cat", "head", "tail", "less", "more", "nl", "ls", "find", "grep", "rg", "tree", "wc"}
_FIND_ACTS = {"-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls"}
_JOINS = {"&&", "||", ";", "\n"}
_EDITOR_VIEW = re.compile(r"\s*str_replace_editor\s+view\s")
_SHOP = re.compile(r"^(?:click)?\s*\[?\s*(?:description|features|reviews|next\s*>?|<?\s*prev)\s*\]?$", re.IGNORECASE)


def is_read(env: str, action: Action) -> bool:
    """Whether an action of this environment only reads. Environments whose `EnvSpec` names no rule have no reads."""
    spec = environment_of(env)
    if spec is None or spec.reads is None or action.command is None:
        return False
    rule: Callable[[Action], bool] = load_place(spec.reads)
    return rule(action)


def reads_household(action: Action) -> bool:
    """``look``, ``inventory``, ``examine ...``"""
    words = (action.command or "").split()
    return bool(words) and words[0] in ("look", "examine", "inventory")


def reads_shop(action: Action) -> bool:
    """``click[description]``, features, reviews, next, prev."""
    return _SHOP.match((action.command or "").strip()) is not None


def reads_repo(action: Action) -> bool:
    """The editor's ``view``, or a shell command that only reads."""
    if action.call is None:
        typed = action.command or ""
        return _EDITOR_VIEW.match(typed) is not None or reads_shell(typed)
    command = action.call.arguments.get("command")
    if "edit" in action.call.name.lower():
        return command == "view"
    return isinstance(command, str) and reads_shell(command)


def reads_shell(command: str) -> bool:
    """Every pipeline stage is a reader and none redirects to a file. Parts that only ``cd`` are neutral.

    Example: ``cd /a && grep -n x *.py | head`` reads; ``cat a > b`` and ``cd /a`` alone do not.
    """
    if "`" in command or "$(" in command or "<(" in command:
        return False
    lexer = shlex.shlex(command.strip().replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    try:
        tokens = list(lexer)
    except ValueError:
        return False  # Quotes that do not close: nobody knows what it does.
    parts: list[list[list[str]]] = [[[]]]
    for token in tokens:
        if token in _JOINS:
            parts.append([[]])
        elif token in ("|", "|&"):
            parts[-1].append([])
        else:
            parts[-1][-1].append(token)
    verdicts = [_reads_pipeline(stages) for stages in parts if stages != [[]]]
    counted = [verdict for verdict in verdicts if verdict is not None]
    return bool(counted) and all(counted)


def _reads_pipeline(stages: list[list[str]]) -> bool | None:
    """None: neutral."""
    if len(stages) == 1 and stages[0][:1] == ["cd"]:
        return None
    return all(_reads_stage(words) for words in stages)


def _reads_stage(words: list[str]) -> bool:
    if not words or "&" in words or any(word.startswith(("(", ")")) for word in words):
        return False
    for index, word in enumerate(words):
        target = words[index + 1] if index + 1 < len(words) else ""
        if ">" in word and set(word) <= set("<>&|") and word != ">&" and target != "/dev/null":
            return False
        if word == ">&" and not target.isdigit():
            return False
    if words[0] == "sed":
        return "-n" in words and not any(word.startswith(("-i", "--in-place")) for word in words)
    return words[0] in _READERS and not (words[0] == "find" and _FIND_ACTS & set(words))
