"""JSON with the ends of its long texts left out, or what is before the ends, made of pieces as they come.

A list needs the ids, the times and the first words of a line of many megabytes, and no image or output.
So memory holds what is kept, never the line.

Law: JSON stays JSON, with the same members. Of what is no JSON some bytes are kept.
"""

from __future__ import annotations

import re
from typing import Final

from sessiond.limits import LIST_TEXT_BYTES

# Some of what is no text that is long, has many escapes, or goes on in the next piece; some of a text; what a text
# has before an escape. No group is possessive: Python 3.11.2 matches such groups wrong. A group that repeats without
# end keeps memory for each time.
_OTHERS: Final = rb'(?:[^"]+|"[^"\\]{0,4096}(?:\\.[^"\\]{0,64}){0,64}"){0,500}'
_INSIDE: Final = rb'[^"\\]*(?:\\.[^"\\]*){0,500}'
_RUN: Final = rb'[^"\\]*'
_ESCAPE_BYTES: Final = 6
_PIECE_BYTES: Final = 64 * 1024


class ShortTexts:
    """The part that is kept of one JSON value, at most `bytes_max`, and of each text `text_bytes_max`.

    Of a longer text the last `end_bytes` are kept too, from a blank on, behind a line break.
    """

    def __init__(
        self, bytes_max: int, text_bytes_max: int = LIST_TEXT_BYTES, end_bytes: int = 0
    ) -> None:
        self._bytes_max = bytes_max
        self._text_bytes_max = text_bytes_max
        self._end_bytes = end_bytes
        self._end = b""
        self._others, self._inside, self._run = (
            re.compile(pattern, re.DOTALL) for pattern in (_OTHERS, _INSIDE, _RUN)
        )
        self._kept = bytearray()
        self._behind = b""
        self._is_inside = False

    def add(self, piece: bytes) -> None:
        """Take the next bytes of the value."""
        if len(self._kept) > self._bytes_max:
            return
        data, at = self._behind + piece, 0
        while True:
            if self._is_inside:
                begin, at = at, _end(self._inside, data, at)
                if self._end_bytes:
                    self._end = (self._end + data[max(begin, at - self._end_bytes) : at])[
                        -self._end_bytes :
                    ]
                if data[at : at + 1] != b'"':
                    break
                self._is_inside = False
                # No escape has a blank inside, so a text may be cut there.
                if (blank := self._end.find(b" ")) >= 0:
                    self._kept += rb"\n" + self._end[blank + 1 :]
                self._end = b""
                self._kept += b'"'
                at += 1
            begin, at = at, _end(self._others, data, at)
            self._kept += memoryview(data)[begin:at]
            end = self._cut(data, at)
            if end is None:
                # The text goes on in the next piece, or there is none.
                break
            # A character that is cut goes.
            self._kept += data[at:end].decode(errors="ignore").encode()
            at = end
            self._is_inside = True
        self._behind = data[at:]

    def _cut(self, data: bytes, at: int) -> int | None:
        """Return the end of what is kept of the text that begins at a place; None if later bytes may belong to it."""
        if data[at : at + 1] != b'"':
            return None
        end, left = at + 1, self._text_bytes_max
        while left > 0:
            run = self._run.match(data, end, end + left)
            assert run is not None, "a run may be empty"
            left -= run.end() - end
            end = run.end()
            if left <= 0 or data[end : end + 1] in {b"", b'"'}:
                break
            # An escape is one character.
            end += _ESCAPE_BYTES if data[end + 1 : end + 2] == b"u" else 2
            left -= 1
        return end if end + _ESCAPE_BYTES <= len(data) else None

    def value(self) -> bytes | None:
        """Return what is kept; None for a value that is too long without the ends of its texts, too."""
        if len(self._kept) + len(self._behind) > self._bytes_max:
            return None
        return bytes(self._kept + self._behind)


def shortened(value: bytes, bytes_max: int) -> bytes:
    """Return a value without the ends of its long texts if it has more than `bytes_max`."""
    if len(value) <= bytes_max:
        return value
    short = ShortTexts(bytes_max)
    for at in range(0, len(value), _PIECE_BYTES):
        short.add(value[at : at + _PIECE_BYTES])
    kept = short.value()
    return value if kept is None else kept


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    """Return where the matches of a pattern end, which begin at a place one behind the other."""
    while (found := pattern.match(data, at)) is not None and found.end() > at:
        at = found.end()
    return at
