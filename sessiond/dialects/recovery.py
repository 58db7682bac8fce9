"""Whole objects on a damaged line.

A writer that is killed leaves a record cut off, and the next record is glued behind the cut. Two writers
that race leave two records on one line, or the end of a record before a whole one. A power loss leaves
zero bytes beside a record.

Law: a found object begins at the line's start, behind a found object, or behind damage. An object inside
a whole object is never found. An object that may be a value of a record that was cut off is marked. The
time is linear in the line's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from msgspec import Struct

# Objects that one line is searched for.
_TRIES_MAX: Final = 1024
_BEGINS: Final = rb'\{[ \t]*["}]'
_TOKEN: Final = (
    rb'[ \t\r]*(?:([{}\[\]:,])|("[^"\\\x00-\x1f]*(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*)*")'
    rb"|(?:-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)(?![-+.0-9A-Za-z_]))"
)
_GOES_ON: Final = rb"[ \t\r]*[,}\]]"
_ENDS: Final = rb"[ \t\r\n]*\Z"
_IS_VALUE: Final = rb"[:,\[][ \t\r]*\Z"
_NEAR_BYTES: Final = 16

# The tokens that may come next: a text is `"`, another scalar `0`.
_VALUE: Final = b'{["0'
_FIRST_ITEM: Final = b'{["0]'
_FIRST_KEY: Final = b'"}'
_KEY: Final = b'"'
_COLON: Final = b":"
_BEHIND_MEMBER: Final = b",}"
_BEHIND_ITEM: Final = b",]"
_BEHIND_BEGIN: Final = {b"{": _FIRST_KEY, b"[": _FIRST_ITEM}
_LIST: Final = -1


@cache
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    """Return a pattern, compiled at its first use: most daemons meet no damaged line."""
    return re.compile(pattern)


class Piece(Struct, frozen=True):
    """An object on a damaged line: its bytes, and whether it can be no part of another object.

    `is_at_edge` tells that nothing stands before the object on the line, or nothing behind it.
    """

    data: bytes
    is_apart: bool
    is_at_edge: bool


class _Read(Struct, frozen=True):
    """The whole object behind an offset; none with the end 0.

    `next` is the offset at which the search goes on, and `is_cut` tells that a text was cut off there.
    """

    start: int
    end: int
    next: int
    is_cut: bool = False


def pieces(line: bytes) -> Iterator[Piece]:
    """Yield the whole objects of a line in their order, after a bounded number of tries."""
    at, is_cut, behind, is_behind = 0, False, 0, True
    for _ in range(_TRIES_MAX):
        begins = _compiled(_BEGINS).search(line, at)
        if begins is None:
            return
        found = _read(line, begins.start())
        is_behind = is_behind and not line[behind : begins.start()].strip()
        behind = begins.start()
        if found.end:
            start, end = found.start, found.end
            before = line[max(0, start - _NEAR_BYTES) : start]
            is_value = (
                not (is_cut and start == at) and _compiled(_IS_VALUE).search(before) is not None
            )
            goes_on = _compiled(_GOES_ON).match(line, end) is not None
            # The end of another record may follow a whole one, and begin like a value's.
            if not goes_on or (is_behind and start == behind):
                is_at_edge = start == 0 or _compiled(_ENDS).match(line, end) is not None
                yield Piece(line[start:end], not is_value and not goes_on, is_at_edge)
                behind, is_behind = end, True
        at, is_cut = found.next, found.is_cut


class _Nesting:
    """Open objects and lists behind a token, and the tokens that may come next."""

    def __init__(self) -> None:
        self.wanted = _VALUE
        # Where the open objects begin; a list has no place.
        self.opened: list[int] = []
        self.inner: tuple[int, int] | None = None
        """Object inside an open one that ended with the last token."""

    def take(self, kind: bytes, start: int, end: int) -> None:
        """Take the next token, which is wanted."""
        self.inner = None
        if kind in _BEHIND_BEGIN:
            self.opened.append(start if kind == b"{" else _LIST)
            self.wanted = _BEHIND_BEGIN[kind]
        elif kind == b":":
            self.wanted = _VALUE
        elif kind == b",":
            self.wanted = _VALUE if self.opened[-1] == _LIST else _KEY
        elif kind == b'"' and self.wanted in {_FIRST_KEY, _KEY}:
            self.wanted = _COLON
        else:
            if kind in b"}]" and (begun := self.opened.pop()) != _LIST:
                self.inner = (begun, end)
            is_in_list = bool(self.opened) and self.opened[-1] == _LIST
            self.wanted = _BEHIND_ITEM if is_in_list else _BEHIND_MEMBER


def _read(line: bytes, start: int) -> _Read:
    """Read the object that begins at an offset, to its end or to the cut.

    Of an object that was cut off the value that ends at the cut is whole, if that is an object.
    """
    nesting, at, text_at, tokens = _Nesting(), start, start, _compiled(_TOKEN)
    while (token := tokens.match(line, at)) is not None:
        kind = token[1] or (b'"' if token[2] else b"0")
        if kind not in nesting.wanted:
            break
        at, text_at = token.end(), token.start(2) if token[2] else token.end()
        nesting.take(kind, token.start(1), at)
        if not nesting.opened:
            return _Read(start, at, at)
    if nesting.inner is not None:
        return _Read(*nesting.inner, at)
    # A text that was cut off takes in the next object as far as the quote of that object's first key.
    brace = line.rfind(b"{", text_at, at)
    if brace >= 0 and line[brace + 1 : at].strip(b" \t") == b'"':
        return _Read(start, 0, brace, is_cut=True)
    return _Read(start, 0, at)
