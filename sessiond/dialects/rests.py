"""Rests of lines: the end of a JSON object whose beginning stands elsewhere, or was cut.

Law: a line is a rest only if some beginning makes it a JSON object. A whole object, half an object and
bytes that are no JSON are no rests.

Time is linear: some hundred beginnings are tried with the first PROBE_BYTES of a line, and a few with all of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Raw

from sessiond import typed
from sessiond.limits import NESTING_MAX

# A string, or a pair of brackets without a string or a pair in it, with what follows it up to the next of these.
# A string without an end is taken to the end of the line, so that no quote in it is looked at as another beginning.
# Many of these are taken at once, but by Pythons before 3.11.5, which lose themselves in such a group.
_AT_ONCE: Final = b"++" if sys.version_info >= (3, 11, 5) else b""
_CLOSED: Final = re.compile(
    rb'(?:(?:"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{\[][^]["{}]*+[]}])[^]["{}]*+)' + _AT_ONCE,
    re.DOTALL,
)
_STRING_END: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[][{}]")
_CLOSES: Final = {b"}": b"{", b"]": b"["}
_OPENED: Final = {b"{": b'{"":', b"[": b"["}
# Bytes that continue a character of UTF-8, of which a cut leaves three at most.
_CONTINUES: Final = bytes(range(0x80, 0xC0))
_CHARACTER_BYTES_MAX: Final = 4
# What may stand before a cut outside of strings: nothing, a number, a part of a word; in an object a key, too. The
# beginnings of a group lead to one place behind the first token, where all that follows fits or fails alike.
_WORDS: Final = (b"true", b"false", b"null")
_VALUES: Final = (b"", b"1", *(word[:end] for word in _WORDS for end in range(1, len(word))))
_Groups = tuple[tuple[bytes, ...], ...]
_OUTSIDE: Final[dict[bytes, _Groups]] = {
    b"[": (_VALUES,),
    b"{": (tuple(b'"":' + one for one in _VALUES), (b"", b'"":1,'), (b'""',)),
}
_INSIDE: Final[dict[bytes, _Groups]] = {b"[": ((b'"',),), b"{": ((b'"',), (b'"":"',))}
# Beginnings of escapes; \\ud8 is that of the first half of a pair.
_ESCAPES: Final = (b"\\", b"\\u", b"\\u0", b"\\u00", b"\\u000", b"\\ud", b"\\ud8", b"\\ud80")
_BLANKS: Final = b" \t\r\n"
PROBE_BYTES: Final = 1024
# Where a number or an escape is cut, its error may be told some bytes before the end.
_CUT_BYTES: Final = 16
_PLACE: Final = re.compile(r"\(byte ([0-9]+)\)")
_decode: Final = typed.decoder(dict[str, Raw]).decode


def is_rest(line: bytes) -> bool:
    """Return whether a line is the end of a JSON object whose beginning is missing."""
    if not line.rstrip().endswith(b"}") or b"\0" in line:
        return False
    return any(_ends_object(heads, text) for heads, text in _completed(line))


def _completed(line: bytes) -> Iterator[tuple[Iterable[bytes], bytes]]:
    """Yield groups of beginnings that may make an object of the line, each with what follows them."""
    # Blanks between tokens are as good as one.
    text = b" " + line.lstrip(_BLANKS) if line[:1] in _BLANKS else line
    yield from _behind(text, text, _OUTSIDE, (b"",))
    continued = len(line) - len(line.lstrip(_CONTINUES))
    whole = line[min(_CHARACTER_BYTES_MAX - 1, continued) :]
    ended = _STRING_END.match(whole)
    if ended is not None:
        # No escape ends in half a character.
        escapes = (b"",) if continued else (b"", *_ESCAPES)
        yield from _behind(whole, whole[ended.end() :], _INSIDE, escapes)
    if line[:1] in (b'"', b"\\"):
        # A backslash alone takes this byte out of the structure.
        ended = _STRING_END.match(line, 1)
        if ended is not None:
            yield from _behind(line, line[ended.end() :], _INSIDE, (b"\\",))


def _behind(
    text: bytes, outside: bytes, places: dict[bytes, _Groups], escapes: tuple[bytes, ...]
) -> Iterator[tuple[Iterable[bytes], bytes]]:
    """Yield the beginnings that open what a text only closes; `outside` begins outside of a string."""
    missing = _missing(outside)
    if missing:
        *outer, inner = reversed(missing)
        before = b"".join(_OPENED[one] for one in outer) + inner
        for group in places[inner]:
            yield [before + place + escape for place in group for escape in escapes], text


def _ends_object(heads: Iterable[bytes], text: bytes) -> bool:
    """Return whether the text is an object behind one of the beginnings of a group.

    The first beginning that a long text goes on from tells for all.
    """
    is_long = len(text) > PROBE_BYTES
    for head in heads:
        if is_long and not _goes_on(head + text[:PROBE_BYTES]):
            continue
        if _is_object(head + text):
            return True
        if is_long:
            return False
    return False


def _missing(line: bytes) -> list[bytes]:
    """Return the brackets that a line closes and does not open, the innermost first; none if too many."""
    missing, opened = list[bytes](), 0
    for found in _BRACKETS.finditer(_CLOSED.sub(b"", line)):
        opener = _CLOSES.get(found[0])
        if opener is None:
            opened += 1
            if opened > NESTING_MAX:
                return []
        elif opened:
            opened -= 1
        else:
            missing.append(opener)
            if len(missing) > NESTING_MAX:
                return []
    return missing


def _goes_on(beginning: bytes) -> bool:
    """Return whether a text may be the beginning of an object."""
    try:
        _decode(beginning)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        place = _PLACE.search(str(error))
        is_late = place is not None and int(place[1]) + _CUT_BYTES >= len(beginning)
        return is_late or "truncated" in str(error)
    return True


def _is_object(text: bytes) -> bool:
    try:
        _decode(text)
        text.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
