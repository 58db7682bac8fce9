"""Stored lines that are not what was indexed: another program has written the file anew in place.

Every line that the index has as an entry was decoded once. If the line cannot be decoded later,
the file has changed, and the reader is told so; the next look at the file gives the session a new
epoch.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from sessiond.dialects.base import BadLine
from sessiond.errors import SessiondError, StorageError
from sessiond.journal.disk.failures import storage_error
from sessiond.journal.store import SessionLog
from sessiond.service.log.open_session import Opened

__all__ = ["NOT_AS_INDEXED", "as_stored", "changed", "is_rewritten"]

T = TypeVar("T")

# What decoding a stored line raises that was no such line when it was indexed.
NOT_AS_INDEXED: Final = (BadLine, msgspec.DecodeError)


def changed(path: Path | None) -> StorageError:
    """Return the error that tells a reader that the file was changed."""
    error = OSError(errno.ESTALE, "it was changed by another program")
    return storage_error(error, "read", path or Path("memory"))


def is_rewritten(journal: SessionLog) -> bool:
    """Return whether the stored lines are others now. Waits for the disk."""
    try:
        return journal.is_rewritten()
    except OSError:
        return False


def as_stored(opened: Opened, pieces: Iterable[T]) -> Iterator[T]:
    """Yield what is made of the stored lines. Raises StorageError if the lines are others now.

    The file is read once more only where another program has changed the file meanwhile.
    """
    journal = opened.journal
    try:
        yield from pieces
    except SessiondError:
        raise
    except Exception as bug:
        if not is_rewritten(journal):
            raise
        raise changed(opened.path) from bug
    if journal.has_grown() and is_rewritten(journal):
        raise changed(opened.path)
