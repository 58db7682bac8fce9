"""Lines of other agents' files that are more than one growing file.

A rollout that Codex has compressed, a document of an older Gemini CLI and the sample of a large file
are read once. A fork of Codex begins in other rollouts, up to an offset in each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from msgspec import Struct

from sessiond.dialects.agents.gemini_cli import document_lines
from sessiond.errors import SessionCorrupt, SessiondError
from sessiond.journal.disk.files import Files, FileStat, Reads
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.journal.source import FileSource, LineSource
from sessiond.journal.splitter import (
    LinesOf,
    Splitter,
    ends_of,
    split_whole,
    stored_size,
    without_end,
)
from sessiond.journal.store import Replaced
from sessiond.limits import (
    AGENT_LIST_BYTES_MAX,
    AGENT_LIST_UNPACKED_BYTES,
    IMPORT_BYTES_MAX,
)
from sessiond.model.formats import AgentFormatName
from sessiond.service.sources.agents.compressed import COMPRESSED, unpacked
from sessiond.service.sources.agents.sampling import (
    HeldFile,
    beginning,
    both_ends,
    few,
    never,
    short_document,
    short_lines,
)

_Kind = Literal["document", "packed"]


class Span(Struct, frozen=True):
    """The beginning of a rollout, up to an offset: a part of a fork. The first line is not."""

    path: Path
    end: int


def open_source(files: Files, path: Path, lines_of: LinesOf = Splitter) -> LineSource:
    """Return the lines of a file. Raises OSError."""
    kind = _kind_at(files, path)
    if kind is None:
        return FileSource(files, path, lines_of)
    read = _document if kind == "document" else partial(_packed, lines_of=lines_of)
    return _ReadOnce(files, path, read)


def open_sample(
    held: HeldFile,
    agent: AgentFormatName | None = None,
    has_enough: Callable[[], bool] = never,
) -> tuple[LineSource, bool]:
    """Return the lines that a list reads of a file, and whether these are only a part of the file.

    The first and the last line are in a part, up to the limit of a line; `sampling` describes the part.
    Raises OSError.
    """
    kind = _kind_of(held.path, held.first)
    if kind == "packed":
        lines, is_part = _unpacked_beginning(held)
        return _Sample(held, iter((lines,))), is_part
    if kind == "document":
        return _Sample(held, _short_document(held)), not held.is_whole
    if held.is_whole:
        return Held(held), False
    return _Sample(held, both_ends(held, agent, has_enough)), True


def open_held(held: HeldFile) -> Held | None:
    """Return the lines of a small file that grows, all of which are in memory; None for any other file. Raises OSError."""
    return Held(held) if held.is_whole and _kind_of(held.path, held.first) is None else None


def first_lines(held: HeldFile, has_enough: Callable[[], bool]) -> Iterator[list[bytes]]:
    """Yield the lines at the beginning of a file, until there are enough; all those of a small one. Raises OSError."""
    kind = _kind_of(held.path, held.first)
    if kind == "packed":
        yield _unpacked_beginning(held)[0]
    elif kind == "document":
        yield from _short_document(held)
    elif held.is_whole:
        yield held.lines()[0]
    else:
        yield from beginning(held, has_enough)


def first_line(files: Files, path: Path) -> bytes:
    """Return the first line of a file; no bytes if there is none to read."""
    with suppress(OSError, SessiondError), HeldFile(files, path) as held:
        return next((line for lines in first_lines(held, lambda: True) for line in lines), b"")
    return b""


def open_fork(
    files: Files,
    own: LineSource,
    before: Sequence[Span],
    has_enough: Callable[[], bool] | None = None,
) -> LineSource:
    """Return the lines of a fork whose own lines are `own` and follow the spans, the oldest first.

    With `has_enough`, only the beginning of each span is read, until there are enough lines.
    """
    return _Fork(files, own, before, has_enough) if before else own


def _kind_at(files: Files, path: Path) -> _Kind | None:
    if path.suffix == ".json":
        return "document"
    fd = open_regular(files, path)
    try:
        return _kind_of(path, files.pread(fd, len(COMPRESSED), 0))
    finally:
        _close(files, fd)


def _kind_of(path: Path, first: bytes) -> _Kind | None:
    """Return the kind of a file that does not grow, by its name and its first bytes; None for a file that grows."""
    if str(path).endswith(".json"):
        return "document"
    return "packed" if first.startswith(COMPRESSED) else None


class _ReadOnce:
    """A `LineSource` of a file that is read once: a changed file is another one."""

    behind_bytes = 0
    held_bytes = 0

    def __init__(
        self, files: Files, path: Path, read: Callable[[Files, int, int], Iterator[list[bytes]]]
    ) -> None:
        """`read` yields the lines of an open file of a size, some at a time."""
        self.path = path
        self._files = files
        self._fd = open_regular(files, path)
        try:
            self._found = files.fstat(self._fd)
            self._lines = read(files, self._fd, check_regular(files, self._fd))
        except BaseException:
            self.close()
            raise

    @property
    def inode(self) -> int:
        """Inode of the file, which a rename keeps."""
        return self._found.st_ino

    @property
    def read_bytes(self) -> int:
        """Size of the file."""
        return self._found.st_size

    def has_changed(self) -> bool:
        """Return whether the file has changed. Waits for no disk."""
        try:
            return _state(self._files.fstat(self._fd)) != _state(self._found)
        except OSError:
            return True

    def is_rewritten(self) -> bool:
        """Return whether the file has changed."""
        return self.has_changed()

    def follow(self, path: Path) -> bool:
        """Look at another path from now on if that path has this file by now. Raises OSError."""
        if _state(self._files.stat(path)) != _state(self._found):
            return False
        self.path = path
        return True

    def behind(self) -> Iterable[bytes]:
        """Return no lines: what is read once is short."""
        return ()

    def more(self) -> list[bytes]:
        """Return the next lines; none at the end. Raises OSError, Replaced."""
        if _state(self._files.stat(self.path)) != _state(self._found):
            raise Replaced("epoch")
        return next(filter(None, self._lines), list[bytes]())

    def close(self) -> None:
        """Close the file."""
        _close(self._files, self._fd)


class _Sample:
    """A `LineSource` of the lines that a list takes of a file. It is read once, and nothing of it is kept."""

    behind_bytes = 0

    def __init__(self, held: HeldFile, lines: Iterator[list[bytes]], held_bytes: int = 0) -> None:
        """`held_bytes` are those of half a line at the end of a whole file."""
        self.path = held.path
        self.inode, self.read_bytes = held.found.st_ino, held.found.st_size
        self.held_bytes = held_bytes
        self._lines = lines

    def has_changed(self) -> bool:
        """Return False: the next scan tells what changes."""
        return False

    def is_rewritten(self) -> bool:
        """Return False: the next scan tells what changes."""
        return False

    def follow(self, path: Path) -> bool:  # noqa: ARG002
        """Return False: a list reads no further."""
        return False

    def behind(self) -> Iterable[bytes]:
        """Return no lines: all those of a small file come at once."""
        return ()

    def more(self) -> list[bytes]:
        """Return the next lines; none at the end. Raises OSError."""
        return next(filter(None, self._lines), list[bytes]())

    def close(self) -> None:
        """Do nothing: who holds the file closes it."""


class Held(_Sample):
    """A `LineSource` of the lines of a small file that grows."""

    def __init__(self, held: HeldFile) -> None:
        lines, half = held.lines()
        super().__init__(held, iter((lines,)), half)
        self._held = held

    @property
    def line_ends(self) -> list[int]:
        """Offsets in the file behind all lines."""
        return ends_of(split_whole(self._held.first)[0], 0)


def _packed(
    files: Files, fd: int, size: int, lines_of: LinesOf = Splitter
) -> Iterator[list[bytes]]:
    splitter = lines_of(array("q", [0]))
    for piece in unpacked(files, fd, size, "the rollout"):
        yield [without_end(line) for line in splitter.feed(piece)]


def _unpacked_beginning(held: HeldFile) -> tuple[list[bytes], bool]:
    """Return the lines at the beginning of a packed file, and whether they are only a part.

    Of a large one the first bytes are unpacked, and more only where these have no line. Raises OSError, SessionCorrupt.
    """
    if not held.is_whole:
        with suppress(SessionCorrupt):
            lines, _ = _unpacked(held, AGENT_LIST_BYTES_MAX)
            if lines:
                return few(lines), True
    lines, is_part = _unpacked(held, held.found.st_size)
    return few(lines) if is_part else lines, is_part


def _unpacked(held: HeldFile, end: int) -> tuple[list[bytes], bool]:
    """Return the lines of the first bytes of a packed file, and whether a list takes no more of them."""
    lines: list[bytes] = []
    splitter = short_lines(array("q", [0]))
    size = 0
    for piece in unpacked(held, 0, end, "the rollout"):
        size += len(piece)
        lines += map(without_end, splitter.feed(piece))
        if splitter.has_no_header or (lines and size >= AGENT_LIST_UNPACKED_BYTES):
            return lines, True
    return lines, False


def _document(files: Reads, fd: int, size: int) -> Iterator[list[bytes]]:
    if size <= IMPORT_BYTES_MAX:
        content = b"".join(chunks_of(files, fd, 0, size))
        yield from ([line] for line in document_lines(content) or ())


def _short_document(held: HeldFile) -> Iterator[list[bytes]]:
    content = held.first if held.is_whole else short_document(held)
    if content is None:
        yield from _document(held, 0, held.found.st_size)
    else:
        yield list(document_lines(content) or ())


class _Fork:
    """A `LineSource` of a fork: the own first line, the lines of other rollouts, the other own lines."""

    def __init__(
        self,
        files: Files,
        own: LineSource,
        before: Sequence[Span],
        has_enough: Callable[[], bool] | None = None,
    ) -> None:
        self._files = files
        self._has_enough = has_enough
        self._own = own
        self._before = before
        self._next: Iterator[list[bytes]] | None = None
        self.inode = own.inode
        self.follow = own.follow
        self.has_changed = own.has_changed
        self.is_rewritten = own.is_rewritten
        self.close = own.close

    @property
    def path(self) -> Path:
        """Path of the own file."""
        return self._own.path

    @property
    def read_bytes(self) -> int:
        """Number of bytes of the own file that were read."""
        return self._own.read_bytes

    @property
    def held_bytes(self) -> int:
        """Number of bytes of the half line at the end of the own file."""
        return self._own.held_bytes

    @property
    def behind_bytes(self) -> int:
        """Number of bytes of the own file that the last read left to the next one."""
        return self._own.behind_bytes

    def behind(self) -> Iterable[bytes]:
        """Return no lines: a rollout is a list."""
        return ()

    def more(self) -> list[bytes]:
        """Return the next lines; none at the end. Raises OSError, Replaced."""
        if self._next is None:
            self._next = self._first(self._own.more())
        return next(filter(None, self._next), None) or self._own.more()

    def _first(self, own: list[bytes]) -> Iterator[list[bytes]]:
        spans = (lines_of(self._files, span, self._has_enough) for span in self._before)
        return chain([own[:1]], chain.from_iterable(spans), [own[1:]])


def lines_of(
    files: Files, span: Span, has_enough: Callable[[], bool] | None = None
) -> Iterator[list[bytes]]:
    """Yield the whole lines of a span but its first one; with `has_enough`, only its beginning.

    Raises OSError, Replaced.
    """
    if has_enough is not None:
        with HeldFile(files, span.path) as held:
            yield from _within(span, first_lines(held, has_enough))
        return
    source = open_source(files, span.path)
    try:
        yield from _within(span, iter(source.more, []))
    finally:
        source.close()


def _within(span: Span, found: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
    """Yield the lines of a span, without the first one."""
    at, is_first = 0, True
    while at < span.end and (lines := next(found, None)):
        within: list[bytes] = []
        for line in lines:
            at += stored_size(line) + 1
            if at <= span.end and not is_first:
                within.append(line)
            is_first = False
        yield within


def _state(found: FileStat) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _close(files: Files, fd: int) -> None:
    # A file that was only read loses nothing by a failed close, which closes too.
    with suppress(OSError):
        files.close(fd)
