"""The tool `edit`: look at files and change them, byte for byte, inside the workspace only.

    view         path [, first_line, last_line]     lines with numbers; of a folder, what is in it, two levels deep
    create       path, file_text                    write a file, in place of one that is there
    str_replace  path, old_str, new_str             old_str must occur exactly once
    insert       path, insert_line, insert_text     after that line; 0 puts it first
    undo         path                               take back the last change of that file that `edit` made

Replies that begin with `Error:` mean that nothing was done. Links are refused: they may lead anywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from tutelage.envs.repo.workspace import OutsideWorkspace, Workspace, shown
from tutelage.envs.sandbox.limits import CUT_MARK

EDIT_PARAMETERS: Final = (
    "command",
    "path",
    "file_text",
    "old_str",
    "new_str",
    "insert_line",
    "insert_text",
    "first_line",
    "last_line",
)

ERROR: Final = "Error: "
NO_NEWLINE: Final = "[no newline at the end]"
CRLF: Final = "[lines end with CRLF]"
CONTEXT_LINES: Final = 4
"""Lines shown around a change."""
UNDO_DEPTH: Final = 20
"""Changes per file that can be taken back."""

_NUMBERED: Final = re.compile(r" *(\d+)\t(.*)")


class Refused(Exception):
    """An edit that cannot be made; the message is the reply."""


class Editor:
    """Edits one workspace. `root` is where it is inside the sandbox, `max_chars` bounds a view."""

    def __init__(self, workspace: Workspace, root: str, max_chars: int) -> None:
        self._workspace = workspace
        self._root = root
        self._max_chars = max_chars
        self._before: dict[PurePosixPath, list[bytes | None]] = {}

    def run(self, arguments: Mapping[str, Any], directory: str) -> str:
        """The reply to a call. directory: what relative paths start from, below the top."""
        commands: dict[str, Callable[[PurePosixPath, Mapping[str, Any]], str]] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
            "undo": self._undo,
        }
        command = arguments.get("command")
        try:
            if command not in commands:
                raise Refused(f"edit has the commands {', '.join(commands)}, not {command!r}.")
            path = self._path(_text(arguments, "path"), directory)
            try:
                return commands[command](path, arguments)
            except OutsideWorkspace:
                raise Refused(f"{shown(str(path))} is a symbolic link, or lies behind one. Use bash.") from None
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise Refused(f"{shown(str(path))}: {reason}.") from None
        except Refused as refused:
            return f"{ERROR}{refused}"

    # Commands

    def _view(self, path: PurePosixPath, arguments: Mapping[str, Any]) -> str:
        if self._workspace.is_folder(path):
            return self._list(path)
        data = self._workspace.read(path)
        lines = _lines(path, data)
        first = _number(arguments, "first_line", 1)
        last = min(_number(arguments, "last_line", len(lines)), len(lines))
        if lines and not 1 <= first <= last:
            raise Refused(f"{shown(str(path))} has {len(lines)} lines; lines {first} to {last} cannot be shown.")
        notes = []
        if b"\r\n" in data:
            notes.append(CRLF)
        if data and last == len(lines) and not data.endswith(b"\n"):
            notes.append(NO_NEWLINE)
        return _cut("\n".join([*_numbered(lines, first, last), *notes]) or "[empty file]", self._max_chars)

    def _list(self, path: PurePosixPath) -> str:
        names = []
        for folder, folders, files in os.walk(self._workspace.folder / path):
            below = PurePosixPath(os.path.relpath(folder, self._workspace.folder / path))
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
            names += [str(below / name) + "/" for name in folders]
            names += [str(below / name) for name in files if not name.startswith(".")]
            if len(below.parts) >= 1:
                folders.clear()
        return _cut("\n".join(map(shown, sorted(names))) or "[empty folder]", self._max_chars)

    def _create(self, path: PurePosixPath, arguments: Mapping[str, Any]) -> str:
        text = _text(arguments, "file_text", may_be_empty=True)
        before = self._read_or_none(path)
        self._write(path, text.encode("utf-8", "surrogateescape"), before)
        lines = text.count("\n") + (not text.endswith("\n") and text != "")
        return f"{'Created' if before is None else 'Wrote'} {shown(str(path))}, {_counted(lines, 'line')}."

    def _str_replace(self, path: PurePosixPath, arguments: Mapping[str, Any]) -> str:
        old = _text(arguments, "old_str").encode("utf-8", "surrogateescape")
        new = _text(arguments, "new_str", may_be_empty=True).encode("utf-8", "surrogateescape")
        data = self._workspace.read(path)
        count = data.count(old)
        if count != 1:
            raise Refused(_not_once(path, data, old, count))
        at = data.index(old)
        self._write(path, data[:at] + new + data[at + len(old) :], data)
        return self._shows(path, 1 + data[:at].count(b"\n"), new.count(b"\n"))

    def _insert(self, path: PurePosixPath, arguments: Mapping[str, Any]) -> str:
        text = _text(arguments, "insert_text")
        data = self._workspace.read(path)
        lines = _split(data)
        after = _number(arguments, "insert_line", -1)
        if not 0 <= after <= len(lines):
            raise Refused(
                f"{shown(str(path))} has {len(lines)} lines; insert_line is {after}, expected 0 to {len(lines)}."
            )
        head, tail = b"".join(lines[:after]), b"".join(lines[after:])
        if head and not head.endswith(b"\n"):
            head += b"\n"
        added = text.encode("utf-8", "surrogateescape")
        if tail and not added.endswith(b"\n"):
            added += b"\n"
        self._write(path, head + added + tail, data)
        return self._shows(path, after + 1, added.rstrip(b"\n").count(b"\n"))

    def _undo(self, path: PurePosixPath, arguments: Mapping[str, Any]) -> str:
        earlier = self._before.get(path)
        if not earlier:
            raise Refused(f"edit has made no change of {shown(str(path))} that could be taken back.")
        data = earlier[-1]
        self._workspace.write(path, data)
        earlier.pop()
        return f"Took back the last change of {shown(str(path))}{'' if data is not None else ': it is gone'}."

    # Parts

    def _path(self, text: str, directory: str) -> PurePosixPath:
        """Relative to the top. Raises Refused if it leads out."""
        top = PurePosixPath(self._root)
        path = PurePosixPath(os.path.normpath(top / directory / text))
        if not path.is_relative_to(top) or "\0" in text:
            raise Refused(f"{shown(text)} is outside of {self._root}.")
        return path.relative_to(top)

    def _read_or_none(self, path: PurePosixPath) -> bytes | None:
        try:
            return self._workspace.read(path)
        except FileNotFoundError:
            return None

    def _write(self, path: PurePosixPath, data: bytes, before: bytes | None) -> None:
        self._workspace.write(path, data)
        earlier = self._before.setdefault(path, [])
        earlier.append(before)
        del earlier[:-UNDO_DEPTH]

    def _shows(self, path: PurePosixPath, line: int, more_lines: int) -> str:
        lines = _lines(path, self._workspace.read(path))
        first, last = max(1, line - CONTEXT_LINES), min(len(lines), line + more_lines + CONTEXT_LINES)
        return _cut("\n".join([f"Edited {shown(str(path))}:", *_numbered(lines, first, last)]), self._max_chars)


def _not_once(path: PurePosixPath, data: bytes, old: bytes, count: int) -> str:
    where = shown(str(path))
    if count > 1:
        lines = [str(number) for number, line in enumerate(_split(data), start=1) if old.split(b"\n")[0] in line]
        near = f" (see lines {', '.join(lines[:10])})" if lines else ""
        return f"old_str occurs {count} times in {where}{near}; it must occur exactly once. Give more lines around it."
    if b"\r\n" in data and b"\r" not in old and b"\n" in old and data.replace(b"\r\n", b"\n").count(old):
        return f"old_str does not occur in {where}: its lines end with CRLF, those of old_str with LF."
    return f"old_str does not occur in {where}; it must match exactly, white space included."


def _text(arguments: Mapping[str, Any], name: str, may_be_empty: bool = False) -> str:
    value = arguments.get(name)
    if value is None or (value == "" and not may_be_empty):
        if may_be_empty and name == "new_str":
            return ""
        raise Refused(f"edit {arguments.get('command')} needs {name!r}.")
    return str(value)


def _number(arguments: Mapping[str, Any], name: str, default: int) -> int:
    value = arguments.get(name)
    if value is None or value == "":
        if default < 0:
            raise Refused(f"edit {arguments.get('command')} needs {name!r}.")
        return default
    try:
        return int(value)
    except (TypeError, ValueError):
        raise Refused(f"{name} is {value!r}, expected a whole number.") from None


def _lines(path: PurePosixPath, data: bytes) -> list[str]:
    """Lines without their ends. Raises Refused for what is no text."""
    if b"\0" in data:
        raise Refused(f"{shown(str(path))} is no text file ({len(data)} bytes). Use bash.")
    return [line.rstrip(b"\n").removesuffix(b"\r").decode("utf-8", "replace") for line in _split(data)]


def _split(data: bytes) -> list[bytes]:
    """Lines with their ends; only a newline ends a line."""
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _numbered(lines: list[str], first: int, last: int) -> list[str]:
    return [f"{number:6d}\t{lines[number - 1]}" for number in range(first, last + 1)]


def _cut(text: str, max_chars: int) -> str:
    """The text, or its beginning and its end."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return text[: max_chars - half] + CUT_MARK + text[-half:]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def viewed_text(reply: str) -> str | None:
    """The text of a file out of what `view` showed of it. None: it was not shown whole, or is no file."""
    lines = reply.split("\n")
    newline = True
    ends = "\n"
    while lines and lines[-1] in (NO_NEWLINE, CRLF):
        note = lines.pop()
        newline, ends = (False, ends) if note == NO_NEWLINE else (newline, "\r\n")
    if lines == ["[empty file]"]:
        return ""
    texts = []
    for number, line in enumerate(lines, start=1):
        match = _NUMBERED.fullmatch(line)
        if match is None or int(match[1]) != number:
            return None
        texts.append(match[2])
    return ends.join(texts) + (ends if newline else "")
