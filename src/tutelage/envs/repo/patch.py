"""Patches between trees, made and applied by git on its own objects: no work tree, no attributes, no settings.

CRLF, a missing newline at the end, modes, links and odd file names come through byte for byte.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tutelage.envs.repo.tree import Tree, read_commit, run_git
from tutelage.errors import FormatError


def make_patch(before: Tree, after: Tree) -> bytes:
    """The change from one tree to another, in git's format; empty if there is none."""
    if before.changes_to(after) == {}:
        return b""
    with _objects() as folder:
        _store(folder, {"before": before, "after": after})
        return run_git(
            ["diff", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-renames", "before", "after"],
            folder,
        )


def apply_patch(tree: Tree, patch: bytes | str, *, reverse: bool = False) -> Tree:
    """The tree after a patch in git's format, or before it with `reverse`. Empty patches change nothing.

    Raises FormatError with git's words where it does not apply; it is never applied in part.
    """
    data = patch if isinstance(patch, bytes) else patch.encode("utf-8", "surrogateescape")
    if not data.strip():
        return tree
    with _objects() as folder:
        _store(folder, {"before": tree})
        run_git(["read-tree", "before"], folder)
        try:
            run_git(
                ["apply", "--cached", "--whitespace=nowarn", *(["--reverse"] if reverse else []), "-"], folder, data
            )
        except FormatError as error:
            raise FormatError(f"patch does not apply{' in reverse' if reverse else ''}: {error}") from None
        return read_commit(folder, run_git(["write-tree"], folder).decode().strip())


def paths_of_patch(patch: bytes | str) -> tuple[str, ...]:
    """Paths that a patch touches, sorted; of a renamed file both names."""
    data = patch if isinstance(patch, bytes) else patch.encode("utf-8", "surrogateescape")
    if not data.strip():
        return ()
    with _objects() as folder:
        paths = set()
        # A rename lists only its new name one way, and only its old name the other way.
        for direction in ([], ["--reverse"]):
            listed = run_git(["apply", "--numstat", "-z", *direction, "-"], folder, data)
            paths |= {os.fsdecode(line.split(b"\t", 2)[2]) for line in listed.split(b"\0")[:-1]}
    return tuple(sorted(paths))


@contextmanager
def _objects() -> Iterator[Path]:
    """An empty bare repository that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="tutelage-git-") as name:
        folder = Path(name)
        run_git(["init", "--quiet", "--bare", "--template=", "."], folder)
        yield folder


def _store(folder: Path, trees: dict[str, Tree]) -> None:
    """Store trees as branches, through fast-import: it takes bytes as they are."""
    stream = bytearray()
    for name, tree in trees.items():
        stream += b"commit refs/heads/%s\ncommitter t <t@localhost> 978307200 +0000\ndata 0\n" % name.encode()
        for path, entry in tree.items():
            stream += b"M %o inline %s\ndata %d\n%s\n" % (entry.mode, _quoted(path), len(entry.data), entry.data)
    run_git(["fast-import", "--quiet"], folder, bytes(stream))


def _quoted(path: str) -> bytes:
    """A path as fast-import reads it: in quotes, special bytes as octal numbers."""
    plain = set(range(32, 127)) - {ord('"'), ord("\\")}
    return b'"' + b"".join(bytes([byte]) if byte in plain else b"\\%03o" % byte for byte in os.fsencode(path)) + b'"'
