"""Operating-system errors as the errors that a client gets."""

from __future__ import annotations

import errno
from pathlib import Path

from sessiond.errors import SessiondError, StorageError
from sessiond.journal.disk.files import Files
from sessiond.visible import printable


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


class telling:  # noqa: N801 - a block asks for it as for a function
    """A block in which an OSError becomes a StorageError; `doing` as in `storage_error`.

    A class, since a list enters a dozen such blocks for each file, and a generator costs four times as much.
    """

    __slots__ = ("_doing", "_path")

    def __init__(self, doing: str, path: Path) -> None:
        self._doing = doing
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            raise storage_error(error, self._doing, self._path) from error
