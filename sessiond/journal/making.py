"""A new file that is there as a whole or not at all.

It is written under a name that nobody looks for, synced, locked, and only then
given its own name: neither a crash nor a full disk leaves half a session.

    <name>.new     being made; a crash may leave it, and the next start removes it
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sessiond.journal.descriptor import write_all
from sessiond.journal.failures import explained
from sessiond.journal.files import Files
from sessiond.journal.lock import FileLock

__all__ = ["make_file", "write_pieces"]


def make_file(
    files: Files, path: Path, pieces: Iterable[bytes], locks: Path
) -> tuple[int, FileLock]:
    """The descriptor and the lock of a durable new file. Raises OSError, and nothing remains."""
    if files.exists(path):
        raise OSError(errno.EEXIST, "the name is taken")
    young = path.with_name(path.name + ".new")
    try:
        fd = write_pieces(files, young, pieces)
    except FileNotFoundError as error:
        raise explained(files, error, path) from error
    lock: FileLock | None = None
    named = young
    try:
        lock = FileLock.take(files, fd, locks)
        files.rename(young, path)
        named = path
        files.fsync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            files.unlink(named)
        if lock is not None:
            lock.release()
        files.close(fd)
        raise
    return fd, lock


def write_pieces(files: Files, path: Path, pieces: Iterable[bytes]) -> int:
    """A file of these bytes, synced, in place of one that a crash left under this name.

    Gives the descriptor.
    """
    try:
        fd = files.create(path)
    except FileExistsError:
        files.unlink(path)
        fd = files.create(path)
    try:
        for piece in pieces:
            write_all(files, fd, piece)
        files.fsync(fd)
    except BaseException:
        with suppress(OSError):
            files.unlink(path)
        files.close(fd)
        raise
    return fd
