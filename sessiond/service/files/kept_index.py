"""Kept indexes: the index of a large session, stored beside the catalog when the session is closed.

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
from contextlib import suppress
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Struct

from sessiond import __version__
from sessiond.dialects.base import BadLine
from sessiond.errors import SessiondError, StorageError
from sessiond.journal.checksums import Checksums, SavedSums
from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.disk.settled import is_settled
from sessiond.journal.journal import Journal
from sessiond.journal.profile.layout import Layout
from sessiond.journal.profile.making import remove_own, write_unfinished
from sessiond.journal.reader import LineReader
from sessiond.journal.scanning import chunks_of
from sessiond.journal.splitter import LINE_HEAD_BYTES
from sessiond.limits import (
    INDEX_SAMPLE_LINES,
    KEPT_INDEX_BYTES_MAX,
    KEPT_INDEX_ENTRIES,
    SAME_TIME_SECONDS,
)
from sessiond.model.ids import is_session_id
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.open_session import OpenSession
from sessiond.session.columns import Columns, columns_of, restore

__all__ = ["KeptIndexes"]

# One more whenever a reader gives a line another meaning, or the columns change.
_READER: Final = 4
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


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Kept)


class KeptIndexes:
    """The kept indexes of one profile."""

    def __init__(self, layout: Layout, files: Files) -> None:
        self._layout = layout
        self._files = files
        # The state of each session's file for which there is a kept index.
        self._current: dict[str, _Identity] = {}

    def keep(self, opened: OpenSession) -> None:
        """Keep the index of a session that is about to be closed, if the session is large."""
        journal = opened.journal
        if opened.session.seq < KEPT_INDEX_ENTRIES or not isinstance(journal, Journal):
            return
        if opened.unwritable is not None:
            # The index has the lines of another version than the file.
            return
        with suppress(OSError, StorageError, MemoryError):
            identity = self._settled(journal)
            if identity == self._current.get(opened.session_id):
                return
            if opened.intake.is_at_rest and journal.is_at_rest:
                self._put(opened.session_id, _kept(identity, opened, journal))
                self._current[opened.session_id] = identity

    def _settled(self, journal: Journal) -> _Identity:
        """Return the state of the file once a later change would show in it."""
        identity = _identity(journal.stat())
        if not identity.is_settled(self._files.now()):
            self._files.pause(2 * SAME_TIME_SECONDS)
            if not _identity(journal.stat()).is_settled(self._files.now()):
                raise OSError(errno.EAGAIN, "it has just been changed")
        return _identity(journal.stat())

    def _put(self, session_id: str, kept: _Kept) -> None:
        """Replace the kept index. Raises OSError."""
        data = _encoder.encode(kept)
        self._files.make_folder(self._layout.indexes)
        pieces = [_MAGIC, crc32(data).to_bytes(_SUM_BYTES), data]
        fd, unfinished = write_unfinished(self._files, self._layout.indexes, pieces)
        try:
            self._files.rename(unfinished, self._layout.index_path(session_id))
        except OSError:
            remove_own(self._files, unfinished, fd)
            raise
        finally:
            close_quietly(self._files, fd)

    def recall(self, session_id: str, indexer: Indexer, reader: LineReader) -> bool:
        """Tell indexer and reader all lines of a file from its kept index; False if that is in doubt."""
        try:
            kept = self._get(session_id)
            if kept is None:
                return False
            identity = _identity(self._files.fstat(reader.fd))
            _tell(kept, identity, indexer, reader)
        except (OSError, SessiondError, BadLine, ValueError, msgspec.DecodeError, MemoryError):
            reader.forget()
            indexer.begin_again()
            self.forget(session_id)
            return False
        self._current[session_id] = identity
        return True

    def _get(self, session_id: str) -> _Kept | None:
        """Return the kept index as it was stored; None without one.

        Raises OSError, ValueError, DecodeError.
        """
        try:
            fd = open_regular(self._files, self._layout.index_path(session_id))
        except FileNotFoundError:
            return None
        try:
            if check_regular(self._files, fd) > KEPT_INDEX_BYTES_MAX:
                raise ValueError("no index is that large")
            data = b"".join(chunks_of(self._files, fd))
        finally:
            close_quietly(self._files, fd)
        at = len(_MAGIC) + _SUM_BYTES
        content = memoryview(data)[at:]
        if data[:at] != _MAGIC + crc32(content).to_bytes(_SUM_BYTES):
            raise ValueError("the index is damaged")
        return _decoder.decode(content)

    def forget(self, session_id: str) -> None:
        """Remove the kept index of a session, if there is one."""
        self._current.pop(session_id, None)
        if is_session_id(session_id):
            with suppress(OSError):
                self._files.unlink(self._layout.index_path(session_id))


def _identity(found: FileStat) -> _Identity:
    return _Identity(
        found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    )


def _kept(identity: _Identity, opened: OpenSession, journal: Journal) -> _Kept:
    """Return the index of an open session. Raises StorageError."""
    ends, checksums = journal.known_lines()
    return _Kept(
        _MADE_BY,
        identity,
        _beginning(journal.read(opened.session.seq, opened.session.seq)),
        ends.tobytes(),
        checksums.saved(),
        opened.dialect.name,
        columns_of(opened.session),
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
