"""JSON with the ends of its long texts left out, made of pieces as they come.

A list needs the ids, the times and the first words of a line of many megabytes, and no image or output.
So memory holds what is kept, never the line.

Law: JSON stays JSON, with the same members. Of what is no JSON some bytes are kept.
"""

from __future__ import annotations

import re
from typing import Final

from sessiond.limits import LIST_TEXT_BYTES

__all__ = ["ShortTexts", "shortened"]

# Everything up to a text that is long, has many escapes, or goes on in the next piece.
_OTHERS: Final = rb'(?:[^"]++|"(?:[^"\\]{1,64}+|\\.){0,64}+")*+'
_BEGINNING: Final = rb'"(?:[^"\\]|\\u[0-9a-fA-F]{4}|\\[^u]){0,%d}+'
_END: Final = rb"(?:[^\"\\]++|\\.)*+"
_ESCAPE_BYTES: Final = 6
_PIECE_BYTES: Final = 64 * 1024


class ShortTexts:
    """The part that is kept of one JSON value, at most `bytes_max`, and of each text `text_bytes_max`."""

    def __init__(self, bytes_max: int, text_bytes_max: int = LIST_TEXT_BYTES) -> None:
        self._bytes_max = bytes_max
        self._beginning = re.compile(_BEGINNING % text_bytes_max, re.DOTALL)
        self._others = re.compile(_OTHERS, re.DOTALL)
        self._end = re.compile(_END, re.DOTALL)
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
                at = _end(self._end, data, at)
                if data[at : at + 1] != b'"':
                    break
                self._is_inside = False
                self._kept += b'"'
                at += 1
            begin, at = at, _end(self._others, data, at)
            self._kept += memoryview(data)[begin:at]
            text = self._beginning.match(data, at)
            if text is None or text.end() + _ESCAPE_BYTES > len(data):
                # The text goes on in the next piece, or there is none.
                break
            # A character that is cut goes.
            self._kept += text[0].decode(errors="ignore").encode()
            at = text.end()
            self._is_inside = True
        self._behind = data[at:]

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
    found = pattern.match(data, at)
    return at if found is None else found.end()
