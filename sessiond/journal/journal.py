"""One open session file: its lock, its lines, its tail, its name.

Law: a journal is opened whole or not at all. Opening adds no bytes to the file. No line is
appended behind a tail. `writer` brings bytes to the disk, `reader` finds stored lines.
"""

from __future__ import annotations

import errno
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, Self

from sessiond.journal.checksums import Checksums
from sessiond.journal.disk.failures import explained, storage_error, telling
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.disk.regular import open_regular
from sessiond.journal.disk.sidecar import SidecarLock
from sessiond.journal.doubt import Doubt
from sessiond.journal.profile.lock import FileLock, own_session
from sessiond.journal.profile.making import make_file, move, remove_own
from sessiond.journal.reader import LineReader
from sessiond.journal.repair import copy_aside
from sessiond.journal.replacement import Following
from sessiond.journal.scanning import index_lines
from sessiond.journal.splitter import VisitLines, ends_of, stored_size
from sessiond.journal.store import Found, JournalStatistics
from sessiond.journal.undisturbed import Alone
from sessiond.journal.writer import JournalWriter
from sessiond.limits import HALF_LINE_SECONDS, HALF_LINE_WAIT_SECONDS

_NO_WRITING: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

Recall = Callable[[LineReader], bool]
"""Tells a reader all lines of its file, up to the end of the file; False if it cannot."""


class Journal(Alone):
    """A `SessionLog` in a file. One thread appends; any thread reads."""

    blocking: ClassVar[bool] = True

    def __init__(self, files: Files, reader: LineReader, *, truncates: bool) -> None:
        self.tail = b""
        self.left_at: int | None = None
        """The offset from which bytes may be those of an owner that ended abnormally;

        None for none.
        """
        self.half_age = 0.0
        """The seconds for which a half line had not grown when the file was opened."""
        self._waits_for_torn = False
        self._stamp: Callable[[], str] = str
        self._files = files
        self._reader = reader
        self._writer = JournalWriter(files, reader, truncates=truncates)
        self._following: Following | None = None
        self._take: Callable[[bytes], bytes] | None = None
        self._spelled: Callable[[bytes], bytes] | None = None
        self._taken: list[Found] = []
        self._unsynced_folders: set[Path] = set()
        # The reader's own methods save a call: some run once per line.
        self.read = reader.read
        self.read_many = reader.read_many
        self.line_bytes = reader.line_bytes
        self.span_bytes = reader.span_bytes
        self.chunks = reader.chunks
        self.checksum = reader.checksum
        self.is_rewritten = reader.is_rewritten

    # -- opening -----------------------------------------------------------------

    @classmethod
    def create(cls, files: Files, path: Path, header: bytes, *, locks: Path) -> Self:
        """Create a file that begins with `header`, one line or more; the file is whole or absent.

        Raises StorageError (EEXIST if the name is taken).
        """
        with telling("create", path):
            fd, lock = make_file(files, path, [header + b"\n"], locks)
            try:
                reader = LineReader(files, fd, path)
                reader.ends.extend(ends_of(header.split(b"\n"), 0))
                reader.checksums.add(header + b"\n")
                journal = cls(files, reader, truncates=True)
                journal._own(lock, locks)
                journal._writer.start()
            except BaseException:
                remove_own(files, path, fd)
                lock.release()
                files.close(fd)
                raise
        return journal

    @classmethod
    def open(
        cls,
        files: Files,
        path: Path,
        visit: VisitLines,
        *,
        locks: Path,
        recall: Recall | None = None,
    ) -> Self:
        """Lock a file, visit its whole lines in order and make them durable.

        `recall` may tell the reader all lines of a file that its last owner left in order; then no
        line is visited. The file gets no new bytes. The bytes behind the last newline are `tail`; the
        caller decides about them (`take_tail`, `leave_half`, `leave_torn`, `cut_tail`) before the
        first append.
        A file that this user may only read is opened for reading: see `is_writable`.
        Raises SessionLocked, StorageError and what `visit` raises.
        """
        with telling("open", path):
            try:
                fd, is_writable = open_regular(files, path, update=True), True
            except OSError as error:
                if error.errno not in _NO_WRITING:
                    raise
                fd, is_writable = open_regular(files, path), False
            reader = LineReader(files, fd, path)
            reader.is_writable = is_writable
            return cls._index(files, reader, visit, locks, recall)

    @classmethod
    def read_only(cls, files: Files, path: Path, visit: VisitLines) -> Self:
        """Visit and read a file without locking it; an append is refused. Raises StorageError."""
        with telling("open", path):
            reader = LineReader(files, open_regular(files, path), path)
            return cls._index(files, reader, visit, None)

    @classmethod
    def _index(
        cls,
        files: Files,
        reader: LineReader,
        visit: VisitLines,
        locks: Path | None,
        recall: Recall | None = None,
    ) -> Self:
        journal: Self | None = None
        try:
            journal = cls(files, reader, truncates=False)
            if locks is None:
                journal.tail = index_lines(files, reader, visit)
            else:
                lock = own_session(files, reader.fd, locks, durable=0)
                journal._own(lock, locks)
                journal._open_whole(visit, lock, recall)
        except BaseException:
            if journal is None:
                reader.close()
            else:
                journal.close()
            raise
        return journal

    def _own(self, lock: FileLock, locks: Path) -> None:
        self._following = Following(self._files, self._reader, self._writer, lock, locks)

    def _open_whole(self, visit: VisitLines, lock: FileLock, recall: Recall | None) -> None:
        writer = self._writer
        self.left_at = lock.doubt
        see = None
        if lock.doubt is not None:
            writer.doubt, writer.is_settled = Doubt(lock.doubt), False
            see = writer.doubt.see
        if lock.doubt is not None or recall is None or not recall(self._reader):
            self.tail = index_lines(self._files, self._reader, visit, see)
        writer.start()
        if self.is_writable or writer.doubt is None:
            writer.secure()
        if writer.is_settled:
            # If the record cannot be written, more bytes than necessary stay in doubt.
            with suppress(OSError):
                lock.note_durable(self.size_bytes)

    # -- what is there -------------------------------------------------------------

    @property
    def path(self) -> Path:
        """Current path of the file."""
        return self._reader.path

    @property
    def inode(self) -> int:
        """Inode of the file, which a rename keeps."""
        return self._writer.out.inode

    @property
    def is_writable(self) -> bool:
        """False if this user may only read the file; nothing may be appended then."""
        return self._reader.is_writable

    @property
    def truncates(self) -> bool:
        """True if only sessiond writes the file, so that sessiond may cut it."""
        return self._writer.truncates

    @truncates.setter
    def truncates(self, truncates: bool) -> None:
        self._writer.truncates = truncates

    def lock_beside(self) -> None:
        """Take the lock beside the file for each write, as other writers of the file do."""
        self._writer.sidecar = SidecarLock(self._files)

    @property
    def line_count(self) -> int:
        """Number of whole lines, the header included."""
        return self._reader.line_count

    @property
    def size_bytes(self) -> int:
        """Offset where the next line will begin."""
        return self._reader.ends[-1]

    @property
    def slack_bytes(self) -> int:
        """Number of bytes behind the last line; -1 where only its newline is missing."""
        return self._writer.known_bytes - self._reader.ends[-1]

    @property
    def durable_bytes(self) -> int:
        """Number of bytes that survive a power cut."""
        return self._writer.durable_bytes

    def translate(
        self,
        again: Callable[[int, bytes], bytes],
        take: Callable[[bytes], bytes],
        spelled: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Return every line from now on as these functions have it; the lines of the file stay as they are.

        `again` is for known lines, by their ordinals, and `take` for new ones, in order. `spelled` gives a line
        to append as the file has its lines. Sizes and checksums stay those of the file.
        """
        reader = self._reader
        self._take, self._spelled = take, spelled

        def read(first: int, last: int) -> list[bytes]:
            lines = enumerate(reader.read(first, last), first)
            return [again(seq, line) for seq, line in lines]

        def read_many(seqs: Sequence[int]) -> list[bytes]:
            lines = zip(seqs, reader.read_many(seqs), strict=True)
            return [again(seq, line) for seq, line in lines]

        def chunks(first: int, last: int) -> Iterator[bytes]:
            for seq in range(first, last + 1):
                yield again(seq, reader.read(seq, seq)[0]) + b"\n"

        self.read, self.read_many, self.chunks = read, read_many, chunks

    # -- appending -----------------------------------------------------------------

    def append(self, lines: Sequence[bytes], *, sync: bool, late: bool = False) -> None:
        """Store all lines, durably if `sync`, or none. Raises StorageError: append the lines again.

        Costs one write and, if `sync`, one fdatasync, between two looks at the file. Raises
        Overtaken if the look finds foreign lines, unless `late`. Raises Replaced if the path has
        another file.
        """
        assert not self.tail, "the tail is a line, half a one or torn"
        if self.torn_bytes:
            self._cut_torn()
        try:
            size = self._size()
            self._require_note()
        except OSError as error:
            raise storage_error(error, "append to", self.path) from error
        if self._take is None or self._spelled is None:
            self._writer.append(lines, size, sync=sync, late=late)
            return
        stored = list(map(self._spelled, lines))
        self._writer.append(stored, size, sync=sync, late=late)
        # Lines that were found on the way stand before these.
        self._taken = self.take_found()
        for line in stored:
            self._take(line)

    def sync(self) -> None:
        """Make lines durable that were appended without `sync`. Raises StorageError: call again."""
        self._writer.sync()

    # -- foreign writers ---------------------------------------------------------------

    @property
    def is_doubted(self) -> bool:
        """True if a read found lines unlike those stored; the next look checks the file."""
        return self._reader.is_doubted

    def follow(self, path: Path) -> bool:
        """Return False: the lock of a file belongs to its path, so the file is opened again there."""
        del path
        return False

    def has_grown(self) -> bool:
        """Return whether a foreign writer changed the file since the last look.

        Waits for no disk.
        """
        try:
            found = self._files.fstat(self._reader.fd)
        except OSError:
            return True
        writer = self._writer
        return found.st_size != writer.known_bytes or found.st_mtime_ns != writer.out.changed_at

    @property
    def was_changed(self) -> bool:
        """True if a foreign writer changed the file since it was opened, perhaps in place."""
        return self._writer.out.was_changed or self.has_grown()

    def look(self) -> None:
        """Index whole foreign lines, some per call. Raises StorageError, Replaced."""
        with telling("read", self.path):
            size = self._size()
        self._writer.look(size)

    def take_found(self) -> list[Found]:
        """Return newly found lines, foreign or left by a failed append; each line is returned once.

        The lines have their ordinals already.
        """
        found, self._writer.found = self._writer.found, []
        take = self._take
        if take is None:
            return found
        taken, self._taken = self._taken, []
        return [*taken, *(Found(take(one.line), one.external) for one in found)]

    @property
    def behind_bytes(self) -> int:
        """Number of foreign bytes that the last look left to the next look."""
        return self._writer.behind_bytes

    @property
    def torn_bytes(self) -> int:
        """Number of bytes that a crash left behind the last line; the first append cuts them."""
        return self._writer.torn_bytes

    @property
    def half_bytes(self) -> int:
        """Number of bytes of the half line behind the last line."""
        return self._writer.half_bytes

    def half(self) -> bytes:
        """Return the half line; a LongLine if it is too long. Raises StorageError."""
        with telling("read", self.path):
            return self._reader.piece_at(self.size_bytes, self.half_bytes)

    def close_half(self) -> None:
        """End the half line with a blank and a newline. Raises StorageError."""
        self._writer.close_half()

    def _require_note(self) -> None:
        if self._following is not None:
            self._following.require_note()

    def _size(self) -> int:
        if self._following is None:
            raise OSError(errno.EBADF, "it is not open for writing")
        try:
            return self._following.size()
        except FileNotFoundError as error:
            raise explained(self._files, error, self.path) from error

    # -- the tail --------------------------------------------------------------------

    def take_tail(self) -> None:
        """Count the tail as a line.

        The first append writes the missing newline before its own lines.
        """
        assert self.tail, "there is a tail to take"
        self._reader.ends.append(self._reader.ends[-1] + len(self.tail) + 1)
        self._reader.checksums.add(self.tail + b"\n")
        self._reader.lacks_newline = True
        self._settle_tail()

    def leave_half(self) -> None:
        """Keep the tail as a half line that its foreign writer may finish. Raises OSError."""
        self._writer.half_bytes = stored_size(self.tail)
        self.half_age = self._age()
        self._settle_tail()

    def leave_torn(self, stamp: Callable[[], str], from_seq: int, visit: VisitLines) -> None:
        """Leave all bytes from line `from_seq` on in the file until the first append cuts them.

        `stamp()` is part of the name of the copy made then. If whole lines go, the lines that stay
        are visited again. Raises OSError.
        """
        assert self.truncates, "a file with foreign writers is never shortened"
        reader, writer = self._reader, self._writer
        end, size = reader.ends[from_seq], reader.file_end + stored_size(self.tail)
        self._waits_for_torn = bool(self.tail)
        self._stamp = stamp
        if from_seq < self.line_count:
            del reader.ends[1:]
            reader.lacks_newline = False
            reader.checksums = Checksums()
            index_lines(self._files, reader, visit, size=end)
        writer.torn_bytes = size - end
        self._settle_tail()

    def _settle_tail(self) -> None:
        self.tail = b""
        self._writer.begin_behind_tail()

    def _age(self) -> float:
        """Return the seconds since the last write to the file. Raises OSError."""
        return self._files.now() - self._files.fstat(self._reader.fd).st_mtime_ns / 1e9

    def _cut_torn(self) -> None:
        """Cut what a crash left behind the last line, unless a foreign writer goes on there.

        Raises StorageError, Replaced.
        """
        writer = self._writer
        waits = int(HALF_LINE_WAIT_SECONDS / HALF_LINE_SECONDS)
        with telling("look at", self.path):
            while self._waits_for_torn and waits and 0 <= self._age() < HALF_LINE_SECONDS:
                waits -= 1
                self._files.pause(HALF_LINE_SECONDS)
            if self._size() != writer.known_bytes:
                return
            self._require_note()
        self.cut_tail(self._stamp())

    def cut_tail(self, stamp: str, from_seq: int | None = None) -> str:
        """Cut all bytes behind the last line, or all bytes from line `from_seq` on.

        Copies the bytes into another file first and returns its path. Raises StorageError.
        """
        assert self.truncates, "a file with foreign writers is never shortened"
        keep = self.line_count if from_seq is None else from_seq
        with telling("cut the torn end of", self.path):
            copy = copy_aside(self._files, self._reader, self._reader.ends[keep], stamp)
            if self._following is not None:
                # Bytes that are appended behind the cut are not durable yet.
                self._following.note_durable(self._reader.ends[keep])
        self._writer.cut(keep)
        self.tail = b""
        return str(copy)

    # -- the file as a whole ---------------------------------------------------------

    def expect_move(self, path: Path) -> None:
        """Do nothing: an append and a move are two steps."""

    def move(self, path: Path) -> None:
        """Move the file to another path, durably. Safe to repeat. Raises StorageError."""
        old = self.path
        with telling("move", old):
            if path != old:
                move(self._files, old, path)
                self._reader.path = path
                self._unsynced_folders = {path.parent, old.parent}
            # The new name first: a crash between the two syncs must not lose both names.
            for folder in sorted(self._unsynced_folders, key=lambda one: one != path.parent):
                self._files.fsync_folder(folder)
                self._unsynced_folders.discard(folder)

    @property
    def is_at_rest(self) -> bool:
        """True if the file is durable, ends with its last line, and holds only what was indexed."""
        writer, reader = self._writer, self._reader
        return (
            writer.is_settled
            # A kept index has the lines of the file.
            and self._take is None
            and not writer.found
            and writer.known_bytes == writer.durable_bytes == reader.ends[-1]
            and not (reader.is_doubted or self.has_grown())
        )

    def stat(self) -> FileStat:
        """Return the state of the open file. Raises OSError."""
        return self._files.fstat(self._reader.fd)

    def known_lines(self) -> tuple[array[int], Checksums]:
        """Return the ends of all lines and the checksums of the file up to them."""
        return self._reader.ends, self._reader.checksums

    def statistics(self) -> JournalStatistics:
        """Return sizes and costs so far."""
        out = self._writer.out
        return JournalStatistics(
            lines=self.line_count,
            size_bytes=self.size_bytes,
            durable_bytes=self.durable_bytes,
            writes=out.writes,
            written_bytes=out.written_bytes,
            syncs=out.syncs,
            sync_ms_max=out.sync_ms_max,
            failures=self._writer.failures,
        )

    def close(self, *, settled: bool = True) -> None:
        """Close the file and release its lock, once no read runs.

        Unless `settled`, the next owner's `left_at` is what this owner's was.
        """
        self._writer.close()
        if self._following is not None:
            # The record proves that the torn end is ours, so it stays as long as the torn end.
            shown = self.torn_bytes > 0 and self.left_at is not None
            settled = settled and self._writer.is_settled and not shown
            self._following.release(settled=settled)
            self._following = None
        # A failed close closes too, and the data was synced before.
        with suppress(OSError):
            self._reader.close()
