"""Stored lines that differ from the index: another program has rewritten the file in place.

Every line that the index has as an entry was decoded once. If the line cannot be decoded later,
the file has changed, and the reader gets an error; the next look at the file gives the session a
new epoch.
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
from sessiond.service.log.open_session import OpenSession

T = TypeVar("T")

# Errors of decoding a stored line that differs from the indexed one.
NOT_AS_INDEXED: Final = (BadLine, msgspec.DecodeError)


def changed(path: Path | None) -> StorageError:
    """Return the error that tells a reader that the file was changed."""
    error = OSError(errno.ESTALE, "another program has changed it")
    return storage_error(error, "read", path or Path("memory"))


def is_rewritten(journal: SessionLog) -> bool:
    """Return whether the stored lines differ from the indexed ones. Waits for the disk."""
    try:
        return journal.is_rewritten()
    except OSError:
        return False


def as_stored(opened: OpenSession, pieces: Iterable[T]) -> Iterator[T]:
    """Yield what is made of the stored lines. Raise StorageError if the lines differ now.

    The file is read once more only if another program has changed the file meanwhile.
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
