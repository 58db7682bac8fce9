"""Folder of documents: each namespace is one file, which is replaced as a whole.

Law: a replacement is written beside the file, synced, renamed over the file, and the folder is synced;
only then is the replacement durable. A failure before the rename leaves the file as it was. The daemon
is the only writer: a file that is not the one that was read or written last is never replaced but put
aside. A file that is no document is put aside at the start. Nothing is
removed but the file of a document that another store has by then.

The two failures that keep a namespace from being used are those of the disk, and a document of a
newer version, which stays where it is.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from sessiond.errors import StorageError
from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.failures import storage_error, telling
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.disk.lookup import is_taken
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.profile.making import move, remove_own, write_unfinished
from sessiond.journal.profile.names import (
    aside_name,
    document_name,
    namespace_aside,
    namespace_in,
)
from sessiond.limits import STATE_FILE_BYTES_MAX
from sessiond.state.codec import Damaged, NewerVersion
from sessiond.visible import printable

D = TypeVar("D", covariant=True)

_PIECE: Final = 1024 * 1024


class Decode(Protocol[D]):
    """Function that makes the document of a namespace of bytes."""

    def __call__(self, data: bytes, namespace: str) -> D:
        """Return the document. Raises Damaged, NewerVersion."""
        ...


class Aside(Struct, frozen=True):
    """File that had the name of a namespace and was put aside."""

    namespace: str
    path: str


class DocumentFolder(Generic[D]):
    """Files of one kind of document. For worker threads; one thread at a time per namespace."""

    def __init__(
        self,
        files: Files,
        folder: Path,
        decode: Decode[D],
        *,
        stamp: Callable[[], str],
        report: Callable[[str], None],
    ) -> None:
        self._files = files
        self._folder = folder
        self._decode = decode
        self._stamp = stamp
        self._report = report
        self._known: dict[str, tuple[int, int, int]] = {}
        self._parent_synced = False

    def namespaces(self) -> list[str]:
        """Return the namespaces that have a file. Raises StorageError."""
        named = (namespace_in(name) for name in self._names())
        return sorted(namespace for namespace in named if namespace is not None)

    def aside(self) -> list[Aside]:
        """Return the files that were put aside, as long as they are there. Raises StorageError."""
        return [
            Aside(namespace, printable(self._folder / name))
            for name in sorted(self._names())
            if (namespace := namespace_aside(name)) is not None
        ]

    def settle(self) -> None:
        """Make the names of the files durable: an earlier daemon may have ended before its sync.

        Raises StorageError.
        """
        with telling("sync", self._folder):
            self._files.fsync_folder(self._folder)

    def load(self, namespace: str) -> D | None:
        """Return the document of a namespace; None without one. Raises StorageError.

        A file that is no document is put aside and reported.
        """
        path = self._path(namespace)
        with telling("read", path):
            found = self._read(path)
        if found is None:
            self._known.pop(namespace, None)
            return None
        data, identity = found
        try:
            document = self._decode(data, namespace)
        except Damaged as damaged:
            self._put_aside(path, str(damaged))
            return None
        except NewerVersion:
            raise StorageError(
                f"{printable(path)} was written by a newer sessiond: use that version, or move the"
                " file away to begin without it",
                errno="EINVAL",
                path=printable(path),
                retryable=False,
            ) from None
        self._known[namespace] = identity
        return document

    def replace(self, namespace: str, data: bytes) -> bool:
        """Put a document in the place of the file, durably; return True. Raises StorageError.

        The file may hold the new document all the same after a failed sync of the folder.
        """
        path = self._path(namespace)
        with telling("write", path):
            self._make_folder()
            self._protect(namespace, path)
            fd, unfinished = write_unfinished(self._files, self._folder, [data])
            try:
                identity = _identity(self._files.fstat(fd))
                self._files.rename(unfinished, path)
            except BaseException:
                remove_own(self._files, unfinished, fd)
                raise
            finally:
                close_quietly(self._files, fd)
            self._known[namespace] = identity
            self._files.fsync_folder(self._folder)
        # No other daemon serves the profile.
        return True

    def remove(self, namespace: str) -> None:
        """Remove the file of a document that another store has, durably. Raises StorageError."""
        path = self._path(namespace)
        with telling("remove", path):
            self._files.unlink(path)
            self._files.fsync_folder(self._folder)
        self._known.pop(namespace, None)

    def keep_aside(self, namespace: str, data: bytes) -> Path:
        """Keep a document that is not to be used, durably, beside the file; return its path. Raises StorageError."""
        path = self._path(namespace)
        with telling("write", path):
            self._make_folder()
            fd, unfinished = write_unfinished(self._files, self._folder, [data])
            close_quietly(self._files, fd)
        return self._move_aside(unfinished, path)

    # -- reading -----------------------------------------------------------------------

    def _read(self, path: Path) -> tuple[bytes, tuple[int, int, int]] | None:
        if not is_taken(self._files, path):
            return None
        data, found = read_whole(self._files, path)
        return data, _identity(found)

    def _names(self) -> list[str]:
        try:
            return self._files.listdir(self._folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_error(error, "list", self._folder) from error

    # -- writing -----------------------------------------------------------------------

    def _make_folder(self) -> None:
        made = self._files.make_folder(self._folder)
        if made or not self._parent_synced:
            self._parent_synced = False
            self._files.fsync_folder(self._folder.parent)
            self._parent_synced = True

    def _protect(self, namespace: str, path: Path) -> None:
        """Put a file aside that another program has put in the place of ours. Raises OSError."""
        try:
            found = self._files.lstat(path)
        except FileNotFoundError:
            return
        if self._known.get(namespace) != _identity(found):
            self._put_aside(path, "another program has changed it while the daemon ran")

    def _put_aside(self, path: Path, why: str) -> None:
        """Give a file a name of its own. Raises StorageError."""
        aside = self._move_aside(path, path)
        self._report(f"{printable(path)} was put aside as {aside.name}: {why}")

    def _move_aside(self, file: Path, path: Path) -> Path:
        """Give a file a name of its own beside the path of a namespace. Raises StorageError."""
        stamp, number = self._stamp(), 0
        while True:
            number += 1
            aside = aside_name(path, stamp, number)
            with telling("put aside", path), suppress(FileExistsError):
                move(self._files, file, aside)
                self._files.fsync_folder(self._folder)
                return aside

    def _path(self, namespace: str) -> Path:
        return self._folder / document_name(namespace)


def read_whole(files: Files, path: Path) -> tuple[bytes, FileStat]:
    """Return the bytes of a regular file, and its state. Raises OSError."""
    fd = open_regular(files, path)
    try:
        size = check_regular(files, fd)
        if size > STATE_FILE_BYTES_MAX:
            raise OSError(errno.EFBIG, "it is larger than a file of the state store may be")
        return b"".join(_pieces(files, fd, size)), files.fstat(fd)
    finally:
        close_quietly(files, fd)


def _pieces(files: Files, fd: int, size: int) -> Iterator[bytes]:
    at = 0
    while at < size:
        piece = files.pread(fd, min(_PIECE, size - at), at)
        if not piece:
            return
        yield piece
        at += len(piece)


def _identity(found: FileStat) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns
