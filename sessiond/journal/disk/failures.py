"""Operating-system errors as the errors that a client gets."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from sessiond.errors import SessiondError, StorageError
from sessiond.journal.disk.files import Files
from sessiond.visible import printable

__all__ = ["explained", "is_silence", "storage_error", "telling"]


def storage_error(error: OSError, doing: str, path: Path) -> StorageError:
    """Return the StorageError for an OSError.

    `doing` completes "could not …". The errno is given by name: numbers differ between systems.
    """
    name = errno.errorcode.get(error.errno or errno.EIO, "EIO")
    reason = error.strerror or "input/output error"
    text = f"could not {doing} {printable(path.name)}: {reason}"
    return StorageError(
        text, errno=name, path=printable(path), retryable=name not in StorageError.for_good
    )


def explained(files: Files, error: FileNotFoundError, path: Path) -> OSError:
    """Return the error; if a folder of the path is missing, an error that names the folder."""
    gone = None
    for folder in path.parents:
        if files.exists(folder):
            break
        gone = folder
    if gone is None:
        return error
    return FileNotFoundError(error.errno, f"the folder {printable(gone)} is not there")


def is_silence(error: SessiondError | OSError) -> bool:
    """Return whether an error says that a place does not answer."""
    if isinstance(error, StorageError):
        return bool(error.data()["errno"] == "ETIMEDOUT")
    return isinstance(error, TimeoutError)


@contextmanager
def telling(doing: str, path: Path) -> Generator[None]:
    """Turn an OSError of the block into a StorageError; `doing` as in `storage_error`."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, doing, path) from error
