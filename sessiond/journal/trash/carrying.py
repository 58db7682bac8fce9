"""Moving and copying of a file to a folder that may be on another device.

Law: the copy is whole and durable before the original is removed. A copy never replaces a file.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.making import give_name, remove_own, write_unfinished
from sessiond.journal.scanning import chunks_of


def carry(files: Files, path: Path, place: Path) -> None:
    """Move a file to another device. Raises OSError."""
    copy(files, path, place)
    try:
        files.fsync_folder(place.parent)
        _require_same_size(files, path, place)
        files.unlink(path)
    except OSError:
        with suppress(OSError):
            files.unlink(place)
        raise


def _require_same_size(files: Files, path: Path, place: Path) -> None:
    if files.stat(path).st_size != files.stat(place).st_size:
        raise OSError(errno.EBUSY, "another program wrote to it meanwhile")


def copy(files: Files, path: Path, place: Path) -> None:
    """Copy a file to a name that is free. Raises OSError."""
    source = files.open_read(path)
    try:
        # The copy reaches to the end of the file, even if a foreign writer appends meanwhile.
        fd, unfinished = write_unfinished(files, place.parent, chunks_of(files, source))
    finally:
        close_quietly(files, source)
    try:
        give_name(files, unfinished, place)
    except OSError:
        for name in (unfinished, place):
            remove_own(files, name, fd)
        raise
    finally:
        close_quietly(files, fd)
