"""Samples of files of other programs: the bytes that a list reads of them, and the lines in these.

A small file is read in one look, which opens it once. Of a larger one come AGENT_LIST_BYTES_MAX at most, from both
ends: from the beginning lines until the caller has enough, and for the rest of the bytes the last lines as far as an
answer. Of the lines before these last lines come only short ones that state a title or a tag. The first line and one
at the end are read to their ends, up to the limit of a line. Of a very long line comes what `short_texts` keeps, so
that memory never has all of such a line. Of a file in which so many bytes do not tell enough, up to
AGENT_LIST_PREAMBLE_BYTES of the beginning are read.

Of a file of pi's family come all lines of both ends, for a line costs little there. A `HeldPart` has them as a file.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from stat import S_ISLNK
from typing import Final, Self, cast

from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.disk.regular import open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.journal.splitter import (
    LINE_HEAD_BYTES,
    LongLine,
    ShortLine,
    Splitter,
    VisitLines,
    is_blank,
    split_whole,
    without_cr,
    without_end,
)
from sessiond.limits import (
    AGENT_LIST_BYTES_MAX,
    AGENT_LIST_DOCUMENT_BYTES,
    AGENT_LIST_LINES,
    AGENT_LIST_PREAMBLE_BYTES,
    AGENT_LIST_STEP_BYTES,
    LINE_BYTES_MAX,
    LIST_LINE_BYTES,
    SEARCH_END_BYTES,
    SEARCH_TEXT_BYTES,
)
from sessiond.model.formats import AgentFormatName
from sessiond.model.short_texts import ShortTexts

# A word in lines of an answer. Where no line near the end has such a word, more lines are read.
_ANSWERS: Final = (b'"assistant"', b'"gemini"', b'"agent_message"')
# A line that is whole has an end before and one behind.
_LINE_ENDS: Final = 2
# Words in lines that state a title or a tag.
_FACTS: Final[Mapping[AgentFormatName, tuple[bytes, ...]]] = {
    "claude-code": (b'"custom-title"', b'"ai-title"', b'"summary"', b'"tag"'),
    "codex": (),
    "gemini-cli": (b'"$set"',),
}


class HeldFile:
    """A file that a list reads: opened once, when it is first asked for, and only a large one stays open.

    The content of a small file is in memory behind one look, which takes one thread at the file's place.
    `disk` has this file alone, for what reads files of its own.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self.path = path
        self.disk = cast("Files", self)
        self._files = files
        self._fd: int | None = None
        self._found: FileStat | None = None
        self._first = b""
        self._is_link = False
        self._lines: list[bytes] | None = None
        self._half = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            # A file that was only read loses nothing by a failed close, which closes too.
            with suppress(OSError):
                self._files.close(self._fd)

    @property
    def found(self) -> FileStat:
        """State of the file at its opening. Raises OSError."""
        if self._found is None:
            self._begin()
            assert self._found is not None, "the file was opened"
        return self._found

    @property
    def is_link(self) -> bool:
        """True if the name is a symbolic link. Raises OSError."""
        return self.found is self._found and self._is_link

    @property
    def is_whole(self) -> bool:
        """True if the file is small. Raises OSError."""
        return self.found.st_size <= AGENT_LIST_BYTES_MAX

    @property
    def first(self) -> bytes:
        """The first bytes: all those of a small file. Raises OSError."""
        return self._first if self.found.st_size else b""

    def lines(self) -> tuple[list[bytes], int]:
        """Return the lines of a small file, and the size of the half line behind them. Raises OSError."""
        if self._lines is None:
            lines, rest = split_whole(self.first)
            self._lines = list(map(without_cr, lines)) if b"\r" in self.first else lines
            self._half = len(rest)
        return self._lines.copy(), self._half

    # -- the disk with this file -------------------------------------------------------------

    def stat(self, path: Path) -> FileStat:  # noqa: ARG002
        """Return the state of the file at its opening. Raises OSError."""
        return self.found

    def open_read(self, path: Path) -> int:  # noqa: ARG002
        """Return a number that stands for the descriptor."""
        return 0

    def fstat(self, fd: int) -> FileStat:  # noqa: ARG002
        """Return the state of the file at its opening. Raises OSError."""
        return self.found

    def pread(self, fd: int, count: int, offset: int) -> bytes:  # noqa: ARG002
        """Return up to `count` bytes at an offset; those in memory come alone. Raises OSError."""
        end = offset + count
        if self.is_whole or offset < len(self._first):
            return self._first[offset:end]
        assert self._fd is not None, "a large file stays open"
        data = self._files.pread(self._fd, count, offset)
        if offset == len(self._first) and end <= AGENT_LIST_BYTES_MAX:
            # The beginning is read twice: by what recognises the file, and for its row.
            self._first += data
        return data

    def now(self) -> float:
        """Return the time of the disk."""
        return self._files.now()

    def close(self, fd: int) -> None:
        """Do nothing: who holds the file closes it."""

    def _begin(self) -> None:
        """Open the file, and read its first bytes. Raises OSError."""
        small = self._files.together(self.path, self._small)
        if small is not None:
            self._found, self._first = small
            return
        self._fd = open_regular(self._files, self.path)
        found = self._files.fstat(self._fd)
        # It may have become a small one.
        is_large = found.st_size > AGENT_LIST_BYTES_MAX
        size = AGENT_LIST_STEP_BYTES if is_large else found.st_size
        self._found, self._first = found, self._files.pread(self._fd, size, 0)

    def _small(self, disk: Files) -> tuple[FileStat, bytes] | None:
        """Return the state of a small file with its content; None for a large file. Raises OSError."""
        found = disk.lstat(self.path)
        if S_ISLNK(found.st_mode):
            self._is_link, found = True, disk.stat(self.path)
        if found.st_size > AGENT_LIST_BYTES_MAX:
            return None
        fd = open_regular(disk, self.path, found)
        try:
            found = disk.fstat(fd)
            is_small = found.st_size <= AGENT_LIST_BYTES_MAX
            return (found, disk.pread(fd, found.st_size, 0)) if is_small else None
        finally:
            with suppress(OSError):
                disk.close(fd)


class HeldPart(HeldFile):
    """A part of a large file in the place of the file: whole lines of the beginning, then what stands at the end.

    `gap` counts the lines before those that are left out.
    """

    def __init__(self, held: HeldFile, data: bytes, gap: int) -> None:
        super().__init__(held.disk, held.path)
        self._found, self._first = held.found, data
        self.gap = gap

    def pread(self, fd: int, count: int, offset: int) -> bytes:  # noqa: ARG002
        """Return up to `count` bytes at an offset in the part."""
        return self._first[offset : offset + count]


def part_of(held: HeldFile, visit: VisitLines, has_enough: Callable[[], bool]) -> HeldPart | None:
    """Return the part of a large file that is read; None for a file that has to be read whole.

    Such a file has a first line that is too long for a part, or no line behind the beginning.

    `visit` gets the lines of the beginning, until `has_enough` says that there are enough. A line of which a list
    takes nothing is in no part: the beginning ends before such a line, and the end begins behind it.
    """
    ends, first, read = array("q", [0]), list[bytes](), 0

    def pieces() -> Iterator[list[bytes]]:
        nonlocal read
        read = yield from beginning(held, has_enough, ends, taken=list)

    for lines in pieces():
        taken = list(takewhile(_is_taken, lines))
        if not first and taken and isinstance(taken[0], ShortLine):
            break
        if taken:
            visit(len(first), taken)
        first += taken
        if len(taken) < len(lines):
            break
    else:
        if ends[-1] == held.found.st_size:
            return None
    if not first:
        return None
    lines, half = _last(held, ends[-1], read)
    last = [*takewhile(_is_taken, reversed([*lines, half]))][::-1]
    data = b"".join(map(_stored, first)) + b"".join(map(_stored, last[:-1])) + b"".join(last[-1:])
    return HeldPart(held, data, len(first))


def _is_taken(line: bytes) -> bool:
    """Return whether a list takes something of a line, or no reader does."""
    return not isinstance(line, LongLine) or line.size > LINE_BYTES_MAX


def _stored(line: bytes) -> bytes:
    """Return a line with its newline, which a stand-in lacks."""
    return line + b"\n" if isinstance(line, ShortLine) else line


def never() -> bool:
    """Return False: no number of lines is enough."""
    return False


def both_ends(
    held: HeldFile, agent: AgentFormatName | None, has_enough: Callable[[], bool]
) -> Iterator[list[bytes]]:
    """Yield the lines of the sample of a large file, some at a time.

    `has_enough` says whether the lines so far are all that is needed of the beginning. The first line
    and the last one are in every sample, up to the limit of a line.
    """
    ends = array("q", [0])
    usual = AGENT_LIST_BYTES_MAX - AGENT_LIST_STEP_BYTES
    most = usual if has_enough is never else AGENT_LIST_PREAMBLE_BYTES
    read = yield from beginning(held, has_enough, ends, most)
    if len(ends) > 1:
        lines, _ = _last(held, ends[-1], read)
        yield few(_wanted(list(map(without_end, lines)), agent))


def _few_without_ends(lines: list[bytes]) -> list[bytes]:
    return few(list(map(without_end, lines)))


def beginning(
    held: HeldFile,
    has_enough: Callable[[], bool],
    ends: array[int] | None = None,
    most: int = AGENT_LIST_PREAMBLE_BYTES,
    taken: Callable[[list[bytes]], list[bytes]] = _few_without_ends,
) -> Generator[list[bytes], None, int]:
    """Yield the lines at the beginning of a large file, the first one at least, until there are enough.

    A file may begin with thousands of lines of bookkeeping, so `most` bytes are read for enough.
    `ends` gets the offset behind each line; `taken` makes what is yielded of the lines as they are stored. Returns
    the number of bytes that were read.
    """
    ends = array("q", [0]) if ends is None else ends
    splitter = short_lines(ends)
    at, size = 0, held.found.st_size
    while at < size and not splitter.has_no_header:
        if len(ends) > 1 and (at >= most or has_enough()):
            break
        chunk = held.pread(0, AGENT_LIST_STEP_BYTES, at)
        if not chunk:
            break
        at += len(chunk)
        yield taken(splitter.feed(chunk))
    return at


def _last(held: HeldFile, start: int, read: int) -> tuple[list[bytes], bytes]:
    """Return whole lines of the last bytes, behind an offset, one at least if there is one, and the half line at the end.

    `read` counts the bytes of the beginning that were read.
    """
    size = held.found.st_size
    at = max(start, size - max(AGENT_LIST_BYTES_MAX - read, AGENT_LIST_STEP_BYTES))
    # A list that reads on has a part of the last bytes in memory already, and a read returns that part alone.
    last = b"".join(chunks_of(held, 0, at, size))
    chunks, ends = iter((last,)), last.count(b"\n")
    if at > start and ends < _LINE_ENDS:
        # The last line is long: its beginning is looked for, and the line is read in pieces.
        while at > start and ends < _LINE_ENDS and size - at <= LINE_BYTES_MAX:
            step = min(AGENT_LIST_BYTES_MAX, at - start)
            at -= step
            ends += held.pread(0, step, at).count(b"\n")
        chunks = chunks_of(held, 0, at, size)
    splitter = short_lines(array("q", [0]))
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    # The first piece is the end of a line that begins before.
    return lines[1:] if at > start else lines, splitter.rest()


def short_lines(ends: array[int]) -> Splitter:
    """Return a splitter for lines of which a list takes what it needs."""
    return Splitter(ends, lambda: ShortTexts(LIST_LINE_BYTES), LIST_LINE_BYTES)


def searched_lines(ends: array[int]) -> Splitter:
    """Return a splitter for lines of which a search takes the words that it indexes."""

    def short() -> ShortTexts:
        return ShortTexts(LINE_BYTES_MAX, SEARCH_TEXT_BYTES, SEARCH_END_BYTES)

    return Splitter(ends, short, LIST_LINE_BYTES)


def short_document(held: HeldFile) -> bytes | None:
    """Return a document without the ends of its long texts; None for one that is too long even so."""
    document = ShortTexts(AGENT_LIST_DOCUMENT_BYTES)
    for chunk in chunks_of(held, 0, 0, held.found.st_size):
        document.add(chunk)
    return document.value()


def few(lines: list[bytes]) -> list[bytes]:
    """Return the lines of a piece that are not blank; of very many, those at both ends."""
    found = [line for line in lines if not is_blank(line)]
    del found[AGENT_LIST_LINES : max(AGENT_LIST_LINES, len(found) - AGENT_LIST_LINES)]
    return found


def _wanted(lines: list[bytes], agent: AgentFormatName | None) -> list[bytes]:
    """Return the last lines as far as an answer, and of the lines before those that state facts."""
    left, at = AGENT_LIST_STEP_BYTES, len(lines)
    has_answer = False
    while at and (left > 0 or not has_answer):
        at -= 1
        left -= len(lines[at])
        has_answer = has_answer or any(word in lines[at] for word in _ANSWERS)
    words = () if agent is None else _FACTS[agent]
    facts = [line for line in lines[:at] if _states_fact(line, words)]
    return facts + lines[at:]


def _states_fact(line: bytes, words: tuple[bytes, ...]) -> bool:
    return len(line) <= LINE_HEAD_BYTES and any(word in line for word in words)
