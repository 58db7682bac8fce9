"""Descriptors of regular files only.

Law: a device, a pipe or a folder is refused before the open, because opening a device or a pipe may
already have an effect. A reader stops at the size of the file: the kernel presents some endless
sources as regular files of size 0.
"""

from __future__ import annotations

import errno
import stat
from pathlib import Path

from sessiond.journal.disk.files import Files, FileStat


def open_regular(
    files: Files, path: Path, found: FileStat | None = None, *, update: bool = False
) -> int:
    """Open a regular file for reading, or also for writing. Raises OSError for anything else.

    `found` is what a look at the path has just found.
    """
    try:
        _check(files.stat(path) if found is None else found)
    except OSError as error:
        # Commands print the name of the file.
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
    """Return the size of an open regular file. Raises OSError for a folder, a pipe or a device."""
    found = files.fstat(fd)
    _check(found)
    return found.st_size


def _check(found: FileStat) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
