"""Checks of a name that do not follow links."""

from __future__ import annotations

import stat
from pathlib import Path

from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files, FileStat


def is_taken(files: Files, path: Path) -> bool:
    """Return whether the name is taken, even by a dangling link. Raises OSError."""
    return _found(files, path) is not None


def is_regular(files: Files, path: Path, *, or_link: bool = False) -> bool:
    """Return whether a regular file, or with `or_link` a link, has the name.

    Raises StorageError.
    """
    with telling("look at", path):
        found = _found(files, path)
    if found is None:
        return False
    return stat.S_ISREG(found.st_mode) or (or_link and stat.S_ISLNK(found.st_mode))


def has_file(files: Files, path: Path, identity: FileStat) -> bool:
    """Return whether the name is that of the file with this device and inode. Raises OSError."""
    found = _found(files, path)
    return found is not None and (found.st_dev, found.st_ino) == (
        identity.st_dev,
        identity.st_ino,
    )


def is_same(one: FileStat, other: FileStat) -> bool:
    """Return whether two looks of one moment were at the same file.

    FUSE may give a file another inode at each look. Then size and times tell: no program sets the ctime.
    """
    return one.st_dev == other.st_dev and (
        one.st_ino == other.st_ino or _state(one) == _state(other)
    )


def _state(found: FileStat) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _found(files: Files, path: Path) -> FileStat | None:
    try:
        return files.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
