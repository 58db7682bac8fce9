"""Bytes to lines: which parts of a file are whole lines.

Law: only b"\\n" ends a line. The bytes behind the last newline are the tail; the
caller decides whether the tail is whole or torn. Pure: this module touches no file.
`str.splitlines` and text mode are wrong for this: U+2028 is legal inside JSON.

    {"type":"session_header",...}\\n      line 0
    {"type":"message",...}\\r\\n          line 1; the CR of a Windows editor is no part of the line
    {"type":"mess                        the tail: left by a crash, or a write that goes on

A line over LINE_BYTES_MAX is never kept as a whole: a `LongLine` stands in for its bytes. A reader that
needs no whole lines gets a `ShortLine` for each line that is longer than it takes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from io import SEEK_END, BytesIO
from itertools import accumulate
from typing import Final, Protocol

from sessiond.limits import LINE_BYTES_MAX

Visit = Callable[[int, bytes], None]
"""Gets the ordinal of a line, and the line."""
VisitLines = Callable[[int, list[bytes]], None]
"""Gets the ordinal of the first of several lines, and the lines. A line may have its newline."""

# A LongLine holds this many bytes of the beginning of the line.
LINE_HEAD_BYTES: Final = 4096


class ShortLine(bytes):
    """A stand-in for a line: the part that a reader takes. `size` counts the stored bytes of the line."""

    size: int


class LongLine(ShortLine):
    """A stand-in for a line that is longer than LINE_BYTES_MAX.

    The content is the beginning of the line and its size. The content is never a JSON value,
    so no dialect takes a LongLine for an entry.
    """


class Half(Protocol):
    """The part that a reader takes of a line that comes in pieces.

    The one implementation is `model.short_texts`: no module here knows JSON.
    """

    def add(self, piece: bytes) -> None:
        """Take the next bytes of the line."""
        ...

    def value(self) -> bytes | None:
        """Return what is taken; None for a line that the reader does not take."""
        ...


def long_line(head: bytes, last: bytes, size: int) -> LongLine:
    """Return the stand-in for a line of `size` bytes that begins with `head` and ends with `last`.

    A blank at the end of the line stays: the blank marks a half line that sessiond closed.
    """
    blank = b" " if last == b" " else b""
    # A JSON value cannot end like this, inside a string or outside of one.
    line = LongLine(b"%b... (%d bytes)%b" % (head[:LINE_HEAD_BYTES], size, blank))
    line.size = size
    return line


def stored_size(line: bytes) -> int:
    """Return the size in the file of a line or of its stand-in, without a newline."""
    return line.size if isinstance(line, ShortLine) else len(line)


class Splitter:
    """A cutter of chunks into lines, in time linear in the bytes however long a line is.

    For each line `ends` gets the offset behind its newline. With `shorten`, which makes the `Half` of a
    line, a line that is longer than `bytes_max` and came in several chunks is a ShortLine.
    """

    __slots__ = (
        "_at",
        "_bytes_max",
        "_ends",
        "_half",
        "_held",
        "_is_long",
        "_last",
        "_shorten",
        "held",
    )

    def __init__(
        self,
        ends: array[int],
        shorten: Callable[[], Half] | None = None,
        bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        self._at = 0
        self._ends = ends
        # The half line. It grows in place and becomes the line without a copy, as a list of pieces cannot.
        self._held = BytesIO()
        self._shorten = shorten
        self._bytes_max = bytes_max
        self._half: Half | None = None
        self._is_long = False
        self._last = b""
        self.held = 0
        """Number of bytes behind the last newline."""

    @property
    def has_no_header(self) -> bool:
        """True if the first line is longer than a line may be."""
        return self._is_long and len(self._ends) == 1

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, each with its newline.

        A LongLine has no newline.
        """
        lines = stored_lines(chunk)
        rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        self._ends.extend(stored_ends(lines, self._at))
        if lines and self.held:
            # Only the first line of a chunk may have begun in an earlier chunk.
            lines[0] = self._complete(lines[0][:-1])
        if rest:
            self._hold(rest)
        self._at += len(chunk)
        return lines

    def rest(self) -> bytes:
        """Return the bytes behind the last newline; a LongLine if they are too many."""
        if self._half is not None and (taken := self._half.value()) is not None:
            line = ShortLine(taken)
            line.size = self.held
            return line
        held = self._held.getvalue()
        if self._is_long or self._half is not None:
            return long_line(held, self._last, self.held)
        return held

    def _complete(self, piece: bytes) -> bytes:
        """Return the line that ends with `piece` and a newline, and drop the held bytes."""
        self._hold(piece)
        if not self._is_long and self._half is None:
            self._held.write(b"\n")
        line = self.rest()
        self._held = BytesIO()
        self._half = None
        self._is_long = False
        self.held = 0
        return line

    def _hold(self, piece: bytes) -> None:
        """Hold a piece of a line; of a line that is too long, hold only the beginning."""
        self.held += len(piece)
        self._last = piece[-1:] or self._last
        if self._is_long:
            return
        if self._half is not None:
            self._half.add(piece)
        else:
            self._held.write(piece)
        if self.held > LINE_BYTES_MAX:
            self._is_long = True
            self._half = None
            self._keep_head()
        elif self._half is None and self._shorten is not None and self.held > self._bytes_max:
            self._half = self._shorten()
            self._half.add(self._held.getvalue())
            self._keep_head()

    def _keep_head(self) -> None:
        """Keep only the beginning of the half line."""
        self._held.truncate(LINE_HEAD_BYTES)
        self._held = BytesIO(self._held.getvalue())
        self._held.seek(0, SEEK_END)


LinesOf = Callable[["array[int]"], Splitter]
"""Makes the splitter of a file's lines, which notes their ends."""


def is_blank(line: bytes) -> bool:
    """Return whether a line has nothing but white space."""
    return not line or line.isspace()


def without_cr(line: bytes) -> bytes:
    """Return the line without the one CR that a CRLF file leaves."""
    if isinstance(line, ShortLine):
        return line
    return line[:-1] if line.endswith(b"\r") else line


def without_end(line: bytes) -> bytes:
    """Return the line without its newline, if there is one, and the one CR that a CRLF file leaves."""
    if line.endswith(b"\n"):
        return line[:-2] if line.endswith(b"\r\n") else line[:-1]
    return without_cr(line)


def split_whole(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the whole lines of `data`, with a trailing CR if there is one, and the rest."""
    lines = data.split(b"\n")
    rest = lines.pop()
    return lines, rest


def whole_lines(data: bytes) -> list[bytes]:
    """Return the lines of bytes that end with a newline, each as `split_whole` does."""
    return split_whole(data)[0]


def stored_lines(data: bytes) -> list[bytes]:
    """Return the lines of `data`, each with its newline; the last one may lack a newline."""
    # `readlines` finds newlines by memchr; `bytes.split` compares byte by byte.
    return BytesIO(data).readlines()


def stored_ends(lines: Iterable[bytes], start: int) -> Iterator[int]:
    """Yield the end of each line that has its newline, if the first line begins at `start`."""
    ends = accumulate(map(len, lines), initial=start)
    next(ends)
    return ends


def joined(lines: Iterable[bytes]) -> bytes:
    """Return lines as a file has them: each with a newline behind it."""
    return b"\n".join([*lines, b""])


def ends_of(lines: Iterable[bytes], start: int) -> list[int]:
    """Return the end of each line, newline included, if the first line begins at `start`."""
    ends = accumulate((len(line) + 1 for line in lines), initial=start)
    next(ends)
    return list(ends)
