"""What the operating system said, as the error that a client is given."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sessiond.errors import StorageError
from sessiond.journal.disk.files import Files

__all__ = ["explained", "printable", "storage_error", "telling"]


def storage_error(error: OSError, doing: str, path: Path) -> StorageError:
    """`doing` completes "could not ...". The errno travels by name: numbers differ by system."""
    name = errno.errorcode.get(error.errno or errno.EIO, "EIO")
    reason = error.strerror or "input/output error"
    text = f"could not {doing} {printable(path.name)}: {reason}"
    return StorageError(
        text, errno=name, path=printable(path), retryable=name not in StorageError.for_good
    )


def explained(files: Files, error: FileNotFoundError, path: Path) -> OSError:
    """The same, with the folder that is gone if that is why nothing is found."""
    gone = None
    for folder in path.parents:
        if files.exists(folder):
            break
        gone = folder
    if gone is None:
        return error
    return FileNotFoundError(error.errno, f"the folder {printable(gone)} is not there")


def printable(path: Path | str) -> str:
    """The path as a text that can be told: what is not UTF-8 in a name is U+FFFD."""
    return str(path).encode(errors="surrogateescape").decode(errors="replace")


@contextmanager
def telling(doing: str, path: Path) -> Generator[None]:
    """Turn an OSError inside into a StorageError."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, doing, path) from error
