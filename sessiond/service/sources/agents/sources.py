"""Lines of other agents' files that are more than one growing file.

A rollout that Codex has compressed, a document of an older Gemini CLI and the sample of a large file
are read once. A fork of Codex begins in other rollouts, up to an offset in each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from msgspec import Struct

from sessiond.dialects.agents.gemini_cli import document_lines
from sessiond.errors import SessionCorrupt, SessiondError, TooLarge
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.source import FileSource, LineSource
from sessiond.journal.splitter import LinesOf, Splitter, stored_size, without_end
from sessiond.journal.store import Replaced
from sessiond.limits import (
    AGENT_LIST_BYTES_MAX,
    IMPORT_BYTES_MAX,
)
from sessiond.model.formats import AgentFormatName
from sessiond.service.sources.agents.compressed import COMPRESSED, unpacked
from sessiond.service.sources.agents.sampling import (
    beginning,
    both_ends,
    few,
    never,
    short_document,
    short_lines,
)

__all__ = [
    "Span",
    "first_line",
    "lines_of",
    "open_beginning",
    "open_fork",
    "open_sample",
    "open_source",
]


_Read = Callable[[Files, int, int], Iterator[list[bytes]]]
"""Yields the lines of an open file of a size, some at a time."""


class Span(Struct, frozen=True):
    """The beginning of a rollout, up to an offset: a part of a fork. The first line is not."""

    path: Path
    end: int


def open_source(files: Files, path: Path, lines_of: LinesOf = Splitter) -> LineSource:
    """Return the lines of a file. Raises OSError."""
    whole = _reading_of(files, path)
    if whole is None:
        return FileSource(files, path, lines_of)

    def packed(files: Files, fd: int, size: int) -> Iterator[list[bytes]]:
        return _packed(files, fd, size, lines_of)

    return _ReadOnce(files, path, packed if whole is _packed else whole)


def open_sample(
    files: Files,
    path: Path,
    agent: AgentFormatName | None = None,
    has_enough: Callable[[], bool] = never,
) -> tuple[LineSource, bool]:
    """Return the lines that a list reads of a file, and whether these are only a part of the file.

    The first and the last line are in a part, up to the limit of a line; `sampling.both_ends` describes
    the part. Raises OSError.
    """
    is_small = files.stat(path).st_size <= AGENT_LIST_BYTES_MAX
    whole = _reading_of(files, path)
    if whole is _packed:
        is_part = not is_small or _unpacks_to_much(files, path)
        return _ReadOnce(files, path, _beginning if is_part else _packed), is_part
    if whole is _document:
        return _ReadOnce(files, path, _document if is_small else _short_document), not is_small
    if is_small:
        return FileSource(files, path), False

    def read(files: Files, fd: int, size: int) -> Iterator[list[bytes]]:
        return both_ends(files, fd, size, agent, has_enough)

    return _ReadOnce(files, path, read, may_grow=True), True


def open_beginning(files: Files, path: Path, has_enough: Callable[[], bool]) -> LineSource:
    """Return the lines that tell whose a file is: the first ones, until there are enough.

    Raises OSError.
    """
    whole = _reading_of(files, path)

    def read(files: Files, fd: int, size: int) -> Iterator[list[bytes]]:
        return beginning(files, fd, size, has_enough)

    if whole is _packed:
        return _ReadOnce(files, path, _beginning)
    return _ReadOnce(files, path, read if whole is None else _short_document, may_grow=True)


def first_line(files: Files, path: Path) -> bytes:
    """Return the first line of a file; no bytes if there is none to read."""
    try:
        source = open_source(files, path)
    except (OSError, SessiondError):
        return b""
    try:
        return next(iter(source.more()), b"")
    except (OSError, SessiondError, Replaced):
        return b""
    finally:
        source.close()


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


def _reading_of(files: Files, path: Path) -> _Read | None:
    """Return how a file that does not grow is read; None for a file that grows. Raises OSError."""
    if path.suffix == ".json":
        return _document
    fd = open_regular(files, path)
    try:
        return _packed if files.pread(fd, len(COMPRESSED), 0) == COMPRESSED else None
    finally:
        _close(files, fd)


class _ReadOnce:
    """A `LineSource` of a file that is read once: a changed file is another one, unless it may grow."""

    behind_bytes = 0
    held_bytes = 0

    def __init__(self, files: Files, path: Path, read: _Read, *, may_grow: bool = False) -> None:
        self.path = path
        self._may_grow = may_grow
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
        """Return no lines: what is read once is short, or a sample."""
        return ()

    def more(self) -> list[bytes]:
        """Return the next lines; none at the end. Raises OSError, Replaced."""
        if not self._may_grow and _state(self._files.stat(self.path)) != _state(self._found):
            raise Replaced("epoch")
        return next(filter(None, self._lines), list[bytes]())

    def close(self) -> None:
        """Close the file."""
        _close(self._files, self._fd)


def _packed(
    files: Files, fd: int, size: int, lines_of: LinesOf = Splitter
) -> Iterator[list[bytes]]:
    splitter = lines_of(array("q", [0]))
    for piece in unpacked(files, fd, size, "the rollout"):
        yield [without_end(line) for line in splitter.feed(piece)]


def _unpacks_to_much(files: Files, path: Path) -> bool:
    """Return whether a packed file has more bytes than a list reads whole. Raises OSError."""
    fd = open_regular(files, path)
    try:
        size = check_regular(files, fd)
        for _ in unpacked(files, fd, size, "the rollout", AGENT_LIST_BYTES_MAX):
            pass
    except TooLarge:
        return True
    except SessionCorrupt:
        # The reading says what is wrong.
        return False
    finally:
        _close(files, fd)
    return False


def _beginning(files: Files, fd: int, size: int) -> Iterator[list[bytes]]:
    yield few(next(filter(None, _packed(files, fd, size, short_lines)), list[bytes]()))


def _document(files: Files, fd: int, size: int) -> Iterator[list[bytes]]:
    if size <= IMPORT_BYTES_MAX:
        yield from ([line] for line in document_lines(files.pread(fd, size, 0)) or ())


def _short_document(files: Files, fd: int, size: int) -> Iterator[list[bytes]]:
    content = short_document(files, fd, size)
    if content is None:
        yield from _document(files, fd, size)
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
    if has_enough is None:
        source = open_source(files, span.path)
    else:
        source = open_beginning(files, span.path, has_enough)
    try:
        at, is_first = 0, True
        while at < span.end and (lines := source.more()):
            within: list[bytes] = []
            for line in lines:
                at += stored_size(line) + 1
                if at <= span.end and not is_first:
                    within.append(line)
                is_first = False
            yield within
    finally:
        source.close()


def _state(found: FileStat) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _close(files: Files, fd: int) -> None:
    # A file that was only read loses nothing by a failed close, which closes too.
    with suppress(OSError):
        files.close(fd)
