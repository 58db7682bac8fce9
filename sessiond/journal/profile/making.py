"""New files that exist as a whole or not at all, and never replace another file.

The bytes are written to a hidden file with a random name in the target's folder, then synced and
locked. Only then the file gets its own name, and only if the name is still free. So neither a
crash nor a full disk leaves half a session. If several callers make one path at once, exactly
one succeeds.

Law: this module removes only files that it made. A crash may leave the hidden file behind; the
daemon removes hidden files from the folders of its profile when it starts.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sessiond.journal.disk.descriptor import close_quietly, write_all
from sessiond.journal.disk.failures import explained
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.lookup import has_file, is_taken
from sessiond.journal.profile.lock import FileLock
from sessiond.journal.profile.names import unfinished_name
from sessiond.limits import SYNC_STEP_BYTES
from sessiond.system.base import RENAME_UNSUPPORTED

# The errors of file systems that cannot give one file two names.
NO_LINKS: Final = frozenset({errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


def make_file(
    files: Files, path: Path, pieces: Iterable[bytes], locks: Path
) -> tuple[int, FileLock]:
    """Make a durable file; return its descriptor and lock.

    Raises OSError and then leaves no file.
    """
    if is_taken(files, path):
        raise _taken()
    try:
        fd, unfinished = write_unfinished(files, path.parent, pieces)
    except FileNotFoundError as error:
        raise explained(files, error, path) from error
    lock: FileLock | None = None
    try:
        lock = FileLock.take(files, fd, locks)
        # A leftover record may describe an earlier file with this inode. This file is synced.
        with suppress(OSError):
            lock.note_durable(files.fstat(fd).st_size)
        give_name(files, unfinished, path)
        files.fsync_folder(path.parent)
    except BaseException:
        for name in (unfinished, path):
            remove_own(files, name, fd)
        if lock is not None:
            lock.release()
        close_quietly(files, fd)
        raise
    return fd, lock


def write_unfinished(files: Files, folder: Path, pieces: Iterable[bytes]) -> tuple[int, Path]:
    """Write a synced file under a temporary name; return its descriptor and its path.

    Raises OSError and then leaves no file.
    """
    path = folder / unfinished_name(files.random_digits())
    fd = files.create(path)
    fill(files, fd, path, pieces)
    return fd, path


def fill(files: Files, fd: int, path: Path, pieces: Iterable[bytes]) -> None:
    """Write and sync a new file; close and remove the file if that fails. Raises OSError.

    The sync of another file may wait for all that this one has brought to its file system, as on ext4. So
    a large file is synced in steps: an append elsewhere waits for one step, not for a gigabyte.
    """
    unsynced = 0
    try:
        for piece in pieces:
            write_all(files, fd, piece)
            unsynced += len(piece)
            if unsynced >= SYNC_STEP_BYTES:
                files.fdatasync(fd)
                unsynced = 0
            # A long piece goes before the next one is made.
            del piece
        files.fsync(fd)
    except BaseException:
        remove_own(files, path, fd)
        close_quietly(files, fd)
        raise


def give_name(files: Files, unfinished: Path, path: Path) -> None:
    """Move a finished file to a name that no other file has. Raises OSError (EEXIST if taken).

    After a failure the file may have both names.
    """
    try:
        files.rename_new(unfinished, path)
    except FileExistsError as error:
        raise _taken() from error
    except OSError as error:
        if error.errno not in RENAME_UNSUPPORTED:
            raise
        _link(files, unfinished, path)


def move(files: Files, old: Path, new: Path) -> None:
    """Move a file between two names that sessiond makes. Raises OSError (EEXIST if taken).

    The file has one of the names at each moment. Where the system cannot rename without replacing,
    this function checks first that the new name is free.
    """
    try:
        files.rename_new(old, new)
    except FileExistsError as error:
        raise _taken() from error
    except OSError as error:
        if error.errno not in RENAME_UNSUPPORTED:
            raise
        if is_taken(files, new):
            raise _taken() from error
        files.rename(old, new)


def remove_own(files: Files, path: Path, fd: int) -> None:
    """Remove a name if it still is that of this open file, durably; ignore an OSError."""
    with suppress(OSError):
        if has_file(files, path, files.fstat(fd)):
            files.unlink(path)
            # A durable name would be back behind a power cut.
            files.fsync_folder(path.parent)


def _taken() -> OSError:
    return OSError(errno.EEXIST, "the name is taken, and what is there is not written over")


def _link(files: Files, unfinished: Path, path: Path) -> None:
    try:
        files.link(unfinished, path)
    except FileExistsError as error:
        raise _taken() from error
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _reserve(files, unfinished, path)
    else:
        files.unlink(unfinished)


def _reserve(files: Files, unfinished: Path, path: Path) -> None:
    """Take the name with an empty file, which only one of several callers can create."""
    fd = files.create(path)
    try:
        files.rename(unfinished, path)
    except BaseException:
        remove_own(files, path, fd)
        raise
    finally:
        close_quietly(files, fd)
