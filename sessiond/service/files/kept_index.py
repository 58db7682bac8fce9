"""Kept indexes: the index of a large session, stored in the profile when the session is closed.

Law: a kept index is believed only where the file is provably the one that was indexed: its size,
times, inode and last line are those of the closing, a sample of its lines has the indexed ids, and
the kept bytes fit their checksum. An index in doubt is thrown away, and the file is read. No
failure of a kept index is an error of the session.

Blocking, for worker threads.
"""

from __future__ import annotations

import errno
import sys
from array import array
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol
from zlib import crc32

import msgspec
from msgspec import Struct

from sessiond import __version__, typed
from sessiond.dialects.base import BadLine
from sessiond.errors import SessiondError, StorageError
from sessiond.journal.checksums import Checksums, SavedSums
from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.files import Files, FileStat, storable
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.disk.settled import is_settled
from sessiond.journal.kept_copies import KeptCopies
from sessiond.journal.profile.making import remove_own, write_unfinished
from sessiond.journal.reader import LineReader
from sessiond.journal.scanning import chunks_of
from sessiond.journal.splitter import LINE_HEAD_BYTES
from sessiond.limits import (
    INDEX_SAMPLE_LINES,
    KEPT_INDEX_BYTES_MAX,
    KEPT_INDEX_ENTRIES,
    KEPT_INDEX_FILE_BYTES,
    SAME_TIME_SECONDS,
)
from sessiond.model.ids import is_session_id
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.open_session import OpenSession
from sessiond.session.columns import Columns, columns_of, restore

# One more whenever a reader gives a line another meaning, or the columns or the state of a reading change.
_READER: Final = 6
_MADE_BY: Final = f"{__version__}/{_READER}/{sys.byteorder}/{array('i').itemsize}"
_MAGIC: Final = b"sessiond index\n"
_SUM_BYTES: Final = 4


class _Identity(Struct, frozen=True):
    """The state of a file, which differs after a change of the file."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    def is_settled(self, now: float) -> bool:
        """Return whether a later change of the file would show in its times."""
        return is_settled(self.mtime_ns, now) and is_settled(self.ctime_ns, now)


class IndexedLog(Protocol):
    """A session log whose lines are those of one file."""

    @property
    def is_at_rest(self) -> bool:
        """True if the file is durable, ends with its last line, and holds only what was indexed."""
        ...

    def stat(self) -> FileStat:
        """Return the state of the file. Raises OSError."""
        ...

    def known_lines(self) -> tuple[array[int], Checksums]:
        """Return the ends of all lines and the checksums of the file up to them."""
        ...

    def read(self, first: int, last: int) -> list[bytes]:
        """Return the lines `first` to `last`, both included. Raises StorageError."""
        ...


class _Kept(Struct):
    """The content of a kept index."""

    made_by: str
    identity: _Identity
    last_line: bytes
    """The last line, or its beginning if it is long."""
    ends: bytes
    sums: SavedSums
    dialect: str
    columns: Columns
    position: bytes = b""
    """The position of the log, as its store told `keep`."""
    state: bytes = b""
    """The state in which the next log at this position goes on."""


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = typed.unpacker(_Kept)


class KeptIndexes:
    """The kept indexes of one store of a profile, by keys such as the ids of sessions."""

    def __init__(
        self, files: Files, path_of: Callable[[str], Path], copies: KeptCopies | None = None
    ) -> None:
        """Take the function that gives the path of a kept index for a key."""
        self._files = files
        self._path_of = path_of
        self.copies = copies
        """Copies of lines that go with the index of their session; None where the store removes its copies."""
        # The state of each session's file for which there is a kept index, and the position there.
        self._current: dict[str, tuple[_Identity, bytes]] = {}

    def keep(
        self,
        key: str,
        opened: OpenSession,
        log: IndexedLog,
        position: bytes = b"",
        state: Callable[[], bytes] = bytes,
    ) -> bool:
        """Keep the index of a session that is about to be closed, if the session is large.

        `state` makes the state in which the next log at this position goes on. Returns whether there is a kept
        index of the session as it is now.
        """
        lines, size = opened.session.seq, opened.journal.span_bytes(0, opened.session.seq)
        if lines < KEPT_INDEX_ENTRIES and size < KEPT_INDEX_FILE_BYTES:
            return False
        if opened.unwritable not in {None, "other_agent"}:
            # The index has the lines of another version than the file.
            return False
        with suppress(OSError, StorageError, MemoryError):
            current = self._settled(log), position
            if current == self._current.get(key):
                return True
            if opened.intake.is_at_rest and log.is_at_rest:
                self._put(key, _kept(current[0], opened, log, position, state()))
                self._current[key] = current
                return True
        return False

    def _settled(self, log: IndexedLog) -> _Identity:
        """Return the state of the file once a later change would show in it."""
        identity = _identity(log.stat())
        if not identity.is_settled(self._files.now()):
            self._files.pause(2 * SAME_TIME_SECONDS)
            if not _identity(log.stat()).is_settled(self._files.now()):
                raise OSError(errno.EAGAIN, "it has just been changed")
        return _identity(log.stat())

    def _put(self, key: str, kept: _Kept) -> None:
        """Replace the kept index. Raises OSError."""
        data = _encoder.encode(kept)
        path = self._path_of(key)
        self._files.make_folder(path.parent)
        pieces = [_MAGIC, crc32(data).to_bytes(_SUM_BYTES), data]
        fd, unfinished = write_unfinished(self._files, path.parent, pieces)
        try:
            self._files.rename(unfinished, path)
        except OSError:
            remove_own(self._files, unfinished, fd)
            raise
        finally:
            close_quietly(self._files, fd)

    def recall(
        self,
        key: str,
        indexer: Indexer,
        reader: LineReader,
        believe: Callable[[bytes, bytes], None] | None = None,
    ) -> bool:
        """Tell indexer and reader all lines of a file from its kept index; False if that is in doubt.

        An indexer that has begun needs no header line. `believe` is told, last of all, the position and the
        state that `keep` was told, and raises ValueError if it does not believe them.
        """
        try:
            kept = self._get(key)
            if kept is None:
                return False
            identity = _identity(self._files.fstat(reader.fd))
            _tell(kept, identity, indexer, reader)
            if believe is not None:
                believe(kept.position, kept.state)
        except (OSError, SessiondError, BadLine, ValueError, msgspec.DecodeError, MemoryError):
            reader.forget()
            indexer.begin_again()
            self._drop(key)
            return False
        self._current[key] = identity, kept.position
        return True

    def _get(self, key: str) -> _Kept | None:
        """Return the kept index as it was stored; None without one.

        Raises OSError, ValueError, DecodeError.
        """
        try:
            fd = open_regular(self._files, self._path_of(key))
        except FileNotFoundError:
            return None
        try:
            if check_regular(self._files, fd) > KEPT_INDEX_BYTES_MAX:
                raise ValueError("no index is that large")
            data = bytearray()
            for chunk in chunks_of(self._files, fd):
                data += chunk
        finally:
            close_quietly(self._files, fd)
        at = len(_MAGIC) + _SUM_BYTES
        content = memoryview(data)[at:]
        if bytes(data[:at]) != _MAGIC + crc32(content).to_bytes(_SUM_BYTES):
            raise ValueError("the index is damaged")
        return _decoder.decode(content)

    def forget(self, key: str) -> None:
        """Remove the kept index of a session, and the copy that goes with the index, if there are any."""
        self._drop(key)
        if self.copies is not None and is_session_id(key):
            self.copies.forget(key)

    def _drop(self, key: str) -> None:
        self._current.pop(key, None)
        if is_session_id(key):
            with suppress(OSError):
                self._files.unlink(self._path_of(key))


def _identity(found: FileStat) -> _Identity:
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return _Identity(*map(storable, (found.st_dev, found.st_ino, found.st_size, *times)))


def _kept(
    identity: _Identity, opened: OpenSession, log: IndexedLog, position: bytes, state: bytes
) -> _Kept:
    """Return the index of an open session. Raises StorageError."""
    ends, checksums = log.known_lines()
    return _Kept(
        _MADE_BY,
        identity,
        _beginning(log.read(opened.session.seq, opened.session.seq)),
        ends.tobytes(),
        checksums.saved(),
        opened.dialect.name,
        columns_of(opened.session),
        position,
        state,
    )


def _beginning(lines: list[bytes]) -> bytes:
    return lines[0][:LINE_HEAD_BYTES]


def _tell(kept: _Kept, identity: _Identity, indexer: Indexer, reader: LineReader) -> None:
    """Restore reader and index, and hold a sample of the lines against them.

    Raises ValueError where they disagree, StorageError, SessionCorrupt, BadLine.
    """
    if (kept.made_by, kept.identity) != (_MADE_BY, identity):
        raise ValueError("the file or its reader has changed")
    ends = array("q")
    ends.frombytes(kept.ends)
    lines = len(ends) - 1
    if (lines, ends[-1]) != (len(kept.columns.names), kept.identity.size):
        raise ValueError("the index is of another file")
    reader.know(ends, Checksums.restored(kept.sums))
    if not indexer.has_begun:
        indexer.visit(0, *reader.read(0, 0))
    dialect, session = indexer.dialect, indexer.session
    if dialect.name != kept.dialect:
        raise ValueError("the file has another dialect")
    restore(session, kept.columns)
    if _beginning(reader.read(lines - 1, lines - 1)) != kept.last_line:
        raise ValueError("the file has another last line")
    for seq in range(1, lines, max(1, lines // INDEX_SAMPLE_LINES)):
        (line,) = reader.read(seq, seq)
        if session.is_entry(seq) and dialect.row(line).id != session.names[seq]:
            raise ValueError("the file has other lines")
