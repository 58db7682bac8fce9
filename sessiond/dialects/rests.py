"""Rests of lines: the end of a JSON object whose beginning stands elsewhere, or was cut.

Law: a line is a rest only if some beginning makes it a JSON object. A whole object, half an object and
bytes that are no JSON are no rests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

import msgspec

from sessiond.limits import NESTING_MAX

__all__ = ["is_rest"]

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRING_END: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[][{}]")
_CLOSES: Final = {b"}": b"{", b"]": b"["}
_OPENED: Final = {b"{": b'{"":', b"[": b"["}
# Bytes that continue a character of UTF-8, of which a cut leaves three at most.
_CONTINUES: Final = bytes(range(0x80, 0xC0))
_CHARACTER_BYTES_MAX: Final = 4
# What may stand before a cut outside of strings: nothing, a number, a part of a word; in an object a key, too.
_WORDS: Final = (b"true", b"false", b"null")
_VALUES: Final = (b"", b"1", *(word[:end] for word in _WORDS for end in range(1, len(word))))
_OUTSIDE: Final = {
    b"[": _VALUES,
    b"{": (*(b'"":' + one for one in _VALUES), b"", b'""', b'"":1,'),
}
_INSIDE: Final = {b"[": (b'"',), b"{": (b'"', b'"":"')}
# Beginnings of escapes; \\ud8 is that of the first half of a pair.
_ESCAPES: Final = (b"\\u", b"\\u0", b"\\u00", b"\\u000", b"\\ud", b"\\ud8", b"\\ud80")


def is_rest(line: bytes) -> bool:
    """Return whether a line is the end of a JSON object whose beginning is missing."""
    if not line.rstrip().endswith(b"}") or b"\0" in line:
        return False
    return any(_is_object(one) for one in _completed(line))


def _completed(line: bytes) -> Iterator[bytes]:
    """Yield the line with each beginning that may make it an object."""
    yield from _with([line], line, _OUTSIDE)
    continued = len(line) - len(line.lstrip(_CONTINUES))
    whole = line[min(_CHARACTER_BYTES_MAX - 1, continued) :]
    # A backslash alone takes a quote that follows out of the structure.
    for inside in ([whole, *(escape + line for escape in _ESCAPES)], [b"\\" + line]):
        ended = _STRING_END.match(inside[0])
        if ended is not None:
            yield from _with(inside, inside[0][ended.end() :], _INSIDE)


def _with(
    texts: Sequence[bytes], outside: bytes, places: dict[bytes, tuple[bytes, ...]]
) -> Iterator[bytes]:
    """Yield each text behind the brackets that it only closes; `outside` begins outside of a string."""
    missing = _missing(outside)
    if missing:
        *outer, inner = reversed(missing)
        before = b"".join(_OPENED[one] for one in outer) + inner
        for place, text in product(places[inner], texts):
            yield before + place + text


def _missing(line: bytes) -> list[bytes]:
    """Return the brackets that a line closes and does not open, the innermost first; none if too many."""
    missing, opened = list[bytes](), 0
    for found in _BRACKETS.finditer(_STRING.sub(b"", line)):
        opener = _CLOSES.get(found[0])
        if opener is None:
            opened += 1
        elif opened:
            opened -= 1
        else:
            missing.append(opener)
            if len(missing) > NESTING_MAX:
                return []
    return missing


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
