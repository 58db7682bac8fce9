"""Descriptors of regular files, and of nothing else.

Law: what is no regular file is refused before it is opened, since to open a device or a pipe may
already do something. A reader reads no further than the size that the file has: the kernel
presents some endless sources as regular files of no size.
"""

from __future__ import annotations

import errno
import stat
from pathlib import Path

from sessiond.journal.disk.files import Files, FileStat

__all__ = ["check_regular", "open_regular"]


def open_regular(files: Files, path: Path, *, update: bool = False) -> int:
    """Open a regular file for reading, or also for writing. Raises OSError for anything else."""
    try:
        _check(files.stat(path))
    except OSError as error:
        # A command prints which file it was.
        error.filename = error.filename or str(path)
        raise
    fd = files.open_update(path) if update else files.open_read(path)
    try:
        check_regular(files, fd)
    except BaseException:
        files.close(fd)
        raise
    return fd


def check_regular(files: Files, fd: int) -> int:
    """Return the size of an open file. Raises OSError for a folder, a pipe or a device."""
    found = files.fstat(fd)
    _check(found)
    return found.st_size


def _check(found: FileStat) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
