"""A tree of files in memory: read from a folder, a tar file or a commit, written to a folder, compared, hashed.

Paths are relative, with slashes; bytes of a name that are not UTF-8 are kept as `os.fsdecode` keeps them. File contents
are bytes: nothing here changes a line end or adds a newline.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tutelage.errors import FormatError

FILE: Final = 0o100644
EXECUTABLE: Final = 0o100755
LINK: Final = 0o120000

MAX_BYTES: Final = 512 << 20
"""Largest tree that is read."""

SKIPPED_FOLDERS: Final = (".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".tox", ".venv")
"""Not read from a folder: histories and caches are no part of a tree."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file."""

    data: bytes
    """Contents; of a symbolic link, what it points to."""
    mode: int = FILE
    """`FILE`, `EXECUTABLE` or `LINK`, as git has them."""


class Tree(Mapping[str, Entry]):
    """Files by path, in the byte order of their names. Never changes; folders are in it only through their files."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        """Raises FormatError for a path that leads out of the tree, or through a file."""
        self._entries = {path: entries[path] for path in sorted(entries, key=os.fsencode)}
        for path in self._entries:
            parts = path.split("/")
            if not all(part not in ("", ".", "..") for part in parts) or "\0" in path:
                raise FormatError(f"tree: path {path!r} is not a plain relative path.")
            for index in range(1, len(parts)):
                if "/".join(parts[:index]) in self._entries:
                    raise FormatError(f"tree: {path!r} lies below {'/'.join(parts[:index])!r}, which is a file.")

    def __getitem__(self, path: str) -> Entry:
        return self._entries[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Tree({len(self)} files, {sum(len(entry.data) for entry in self.values())} bytes)"

    def digest(self) -> str:
        """SHA-256 over paths, modes and contents, 64 hex digits."""
        found = hashlib.sha256()
        for path, entry in self.items():
            name = os.fsencode(path)
            found.update(b"%d %o %d\n" % (len(name), entry.mode, len(entry.data)))
            found.update(name)
            found.update(entry.data)
        return found.hexdigest()

    def changed(self, changes: Mapping[str, Entry | None]) -> Tree:
        """With some files replaced, added, or (None) removed."""
        merged: dict[str, Entry | None] = {**self, **changes}
        return Tree({path: entry for path, entry in merged.items() if entry is not None})

    def changes_to(self, other: Mapping[str, Entry]) -> dict[str, Entry | None]:
        """What turns this tree into the other: path -> new file, or None where it is gone."""
        paths = sorted(self.keys() | other.keys(), key=os.fsencode)
        return {path: other.get(path) for path in paths if self.get(path) != other.get(path)}

    def only(self, wanted: Callable[[str], bool]) -> Tree:
        """The files whose path is wanted."""
        return Tree({path: entry for path, entry in self.items() if wanted(path)})

    def write(self, folder: Path, seconds: int | None = None) -> None:
        """Write all files below an empty folder. seconds: modification time of files and folders, since 1970."""
        made: set[str] = set()
        for path, entry in self.items():
            parent = path.rpartition("/")[0]
            if parent not in made:
                (folder / parent).mkdir(parents=True, exist_ok=True)
                made.add(parent)
            write_entry(folder / path, entry)
        if seconds is not None:
            for name in sorted((*self, *_folders(self)), key=len, reverse=True):
                os.utime(folder / name, (seconds, seconds), follow_symlinks=False)
            os.utime(folder, (seconds, seconds))


def write_entry(path: Path, entry: Entry) -> None:
    """Write one file that does not exist yet, in a folder that does."""
    if entry.mode == LINK:
        os.symlink(entry.data, os.fsencode(path))
        return
    fd = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o755 if entry.mode == EXECUTABLE else 0o644
    )
    with open(fd, "wb") as file:
        file.write(entry.data)


def _folders(paths: Iterable[str]) -> set[str]:
    return {"/".join(parts[:index]) for path in paths for parts in [path.split("/")] for index in range(1, len(parts))}


def read_folder(folder: Path, skip: tuple[str, ...] = SKIPPED_FOLDERS, max_bytes: int = MAX_BYTES) -> Tree:
    """The files below a folder. Links are not followed; sockets, pipes and devices are left out.

    skip: names of folders that are left out, wherever they are.
    Raises FormatError if there are more than `max_bytes`, or if the folder is none.
    """
    if not folder.is_dir():
        raise FormatError(f"{folder}: no such folder, expected a tree of files.")
    entries: dict[str, Entry] = {}
    total = 0
    stack = [""]
    while stack:
        parent = stack.pop()
        with os.scandir(folder / parent) as found:
            for item in found:
                path = f"{parent}/{item.name}" if parent else item.name
                if item.is_dir(follow_symlinks=False):
                    if item.name not in skip:
                        stack.append(path)
                    continue
                entry = read_entry(folder / path, max_bytes - total)
                if entry is not None:
                    entries[path] = entry
                    total += len(entry.data)
                if total > max_bytes:
                    raise FormatError(f"{folder}: more than {max_bytes >> 20} MiB of files.")
    return Tree(entries)


def read_entry(path: Path, max_bytes: int = MAX_BYTES) -> Entry | None:
    """One file, links not followed. None: it is neither a file nor a link. Reads at most max_bytes + 1 bytes."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return Entry(os.readlink(os.fsencode(path)), LINK)
    if not stat.S_ISREG(status.st_mode):
        return None
    # Without O_NONBLOCK a pipe put there meanwhile would wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return Entry(file.read(max_bytes + 1), EXECUTABLE if status.st_mode & 0o100 else FILE)


def read_tar(path: Path) -> Tree:
    """The files of a tar file, compressed or not; a single top folder that holds all is left out.

    Raises FormatError for a file that is no tar file or holds a hard link to something that is not in it.
    """
    entries: dict[str, Entry] = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = os.path.normpath(member.name).lstrip("/")
                if member.issym():
                    entries[name] = Entry(os.fsencode(member.linkname), LINK)
                elif member.islnk():
                    entries[name] = entries[os.path.normpath(member.linkname).lstrip("/")]
                elif member.isfile():
                    file = archive.extractfile(member)
                    assert file is not None
                    entries[name] = Entry(file.read(), EXECUTABLE if member.mode & 0o100 else FILE)
    except (tarfile.TarError, KeyError, EOFError, OSError) as error:
        raise FormatError(f"{path}: cannot be read as a tar file ({type(error).__name__}: {error}).") from None
    tops = {name.split("/")[0] for name in entries}
    if len(tops) == 1 and all("/" in name for name in entries):
        entries = {name.partition("/")[2]: entry for name, entry in entries.items()}
    return Tree({name: entry for name, entry in entries.items() if not set(name.split("/")) & set(SKIPPED_FOLDERS)})


def read_commit(repository: Path, commit: str) -> Tree:
    """The files of a commit, exactly as git stores them; submodules are left out. The history is not in it.

    Raises FormatError if there is no such repository or commit.
    """
    listing = run_git(["ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit], repository)
    modes: list[tuple[str, int, bytes]] = []
    for line in listing.split(b"\0")[:-1]:
        about, _, name = line.partition(b"\t")
        mode, kind, blob = about.split(b" ")
        if kind == b"blob":
            modes.append((os.fsdecode(name), int(mode, 8), blob))
    contents = io.BytesIO(
        run_git(["cat-file", "--batch"], repository, stdin=b"".join(blob + b"\n" for _, _, blob in modes))
    )
    entries = {}
    for path, bits, _ in modes:
        size = int(contents.readline().split(b" ")[2])
        entries[path] = Entry(contents.read(size), LINK if bits == LINK else EXECUTABLE if bits & 0o100 else FILE)
        contents.read(1)
    return Tree(entries)


GIT_ENV: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_AUTHOR_NAME": "tutelage",
    "GIT_AUTHOR_EMAIL": "tutelage@localhost",
    "GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "tutelage",
    "GIT_COMMITTER_EMAIL": "tutelage@localhost",
    "GIT_COMMITTER_DATE": "2001-01-01T00:00:00Z",
}
"""git without anybody's settings, so that line ends, attributes and names come out the same everywhere."""


def run_git(
    arguments: list[str],
    folder: Path,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    ok: tuple[int, ...] = (0,),
) -> bytes:
    """What a git command writes. Raises FormatError with git's own words where it fails."""
    try:
        done = subprocess.run(
            # A repository of another user's is read as it is: nothing of it is executed.
            ["git", "-c", "safe.directory=*", "-c", "core.quotePath=true", *arguments],
            cwd=folder,
            input=stdin,
            capture_output=True,
            env={"PATH": os.environ.get("PATH", os.defpath), **GIT_ENV, **(env or {})},
            check=False,
        )
    except FileNotFoundError:
        there = "git is not installed" if folder.is_dir() else "no such folder"
        raise FormatError(f"{folder}: git {arguments[0]}: {there}.") from None
    if done.returncode not in ok:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise FormatError(f"{folder}: git {arguments[0]} failed with exit status {done.returncode}: {said}")
    return done.stdout
