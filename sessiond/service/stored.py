"""Stored lines that are not what was indexed: another program has written the file anew in place.

Every line that the index has as an entry was decoded once. If the line cannot be decoded later,
the file has changed, and the reader is told so; the next look at the file gives the session a new
epoch.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

import msgspec

from sessiond.dialects.base import BadLine
from sessiond.errors import StorageError
from sessiond.journal.failures import storage_error

__all__ = ["NOT_AS_INDEXED", "changed"]

# What decoding a stored line raises that was no such line when it was indexed.
NOT_AS_INDEXED: Final = (BadLine, msgspec.DecodeError)


def changed(path: Path | None) -> StorageError:
    """Return the error that tells a reader that the file was changed."""
    error = OSError(errno.ESTALE, "it was changed by another program")
    return storage_error(error, "read", path or Path("memory"))
