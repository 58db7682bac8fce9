"""Lenient parsing of a JSON object into raw fields, also where a strict decoder refuses.

Law: values come out as the bytes that went in. Values stay `Raw`; a caller decodes the
few strings that it needs with `text`. msgspec refuses an escape that is half of a
surrogate pair (`\\ud83d` alone), but JSON's grammar allows such escapes and real files
have them. They are replaced by stand-ins while the structure is read, and put back into
every slice.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.dialects.base import BadLine
from sessiond.limits import NESTING_MAX
from sessiond.model.escapes import ESCAPES, whole_characters
from sessiond.model.nesting import SHALLOW_BYTES, nests_too_deeply

_fields: Final = typed.decoder(dict[str, Raw])
_items: Final = typed.decoder(list[Raw])
_string: Final = typed.decoder(str)

_NULL: Final = Raw(b"null")
_QUOTE: Final = ord('"')
_NO_TEXT: Final = (msgspec.DecodeError, UnicodeDecodeError)
_TOO_DEEP: Final = f"is nested more than {NESTING_MAX} levels deep"
_DECODED_BYTES: Final = 1024 * 1024
_PRIVATE_USE: Final = range(0xE000, 0xF900)


class _Masked(Struct, frozen=True):
    """A line with stand-ins for lone surrogates: a marker, then the number of the spelling."""

    line: bytes
    marker: bytes
    spellings: tuple[bytes, ...]

    def restore(self, piece: bytes) -> bytes:
        """Return a piece of the line with its original escapes."""
        return re.sub(re.escape(self.marker) + rb"(...)", self._spelling, piece, flags=re.DOTALL)

    def _spelling(self, found: re.Match[bytes]) -> bytes:
        return self.spellings[ord(found[1].decode()) - _PRIVATE_USE.start]


def fields(line: bytes | Raw) -> dict[str, Raw]:
    """Return the members of an object, byte for byte. Raises BadLine."""
    try:
        return _fields.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        masked = _mask(bytes(line))
        if masked is None:
            raise BadLine(_reason(error)) from None
    try:
        found = _fields.decode(masked.line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadLine(_reason(error)) from None
    return {name: Raw(masked.restore(bytes(value))) for name, value in found.items()}


def lenient(line: bytes | Raw) -> dict[str, Raw]:
    """Return the members of an object; no members for any other value."""
    # A text is no error, and mostly what a member is instead of an object.
    if not len(line) or memoryview(line)[0] == _QUOTE:
        return {}
    try:
        return fields(line)
    except BadLine:
        return {}


def join(members: Mapping[str, Raw]) -> bytes:
    """Return an object with these members, in their order."""
    # The values are long at times, and go to their places without a copy before.
    parts: list[bytes | Raw] = []
    for name, value in members.items():
        parts += (b"," if parts else b"{", msgspec.json.encode(name), b":", value)
    return b"".join((*parts, b"}" if parts else b"{}"))


def array(parts: Iterable[Raw]) -> Raw:
    """Return an array of these values, in their order."""
    return Raw(b"[%b]" % b",".join(parts))


def with_field(line: bytes, name: str, value: bytes) -> bytes:
    """Return the object with one member set and all other members unchanged. Raises BadLine."""
    return join(fields(line) | {name: Raw(value)})


def require_readable(line: bytes) -> None:
    """Raise BadLine for a line that cannot be sent to clients: not UTF-8, or nested too deeply."""
    if len(line) > SHALLOW_BYTES and nests_too_deeply(line):
        raise BadLine(_TOO_DEEP)
    require_text(line)


def require_text(line: bytes) -> None:
    """Raise BadLine for a line that is not UTF-8."""
    if line.isascii():
        return
    # A text takes up to four bytes a character, so a long line is decoded in pieces.
    at, rest = 0, memoryview(line)
    try:
        while at < len(line):
            is_last = at + _DECODED_BYTES >= len(line)
            at += utf_8_decode(rest[at : at + _DECODED_BYTES], "strict", is_last)[1]
    except UnicodeDecodeError:
        raise BadLine("is not UTF-8") from None


def items(raw: bytes | Raw) -> list[Raw] | None:
    """Return the items of an array, byte for byte; None for any other value."""
    if not len(raw):
        return None
    try:
        return _items.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        masked = _mask(bytes(raw))
        if masked is None:
            return None
    try:
        found = _items.decode(masked.line)
    except (msgspec.DecodeError, RecursionError):
        return None
    return [Raw(masked.restore(bytes(value))) for value in found]


def text(raw: bytes | Raw | None) -> str | None:
    """Return the string in `raw`; None for any other value. A lone surrogate becomes U+FFFD."""
    if raw is None:
        return None
    try:
        return _string.decode(raw)
    except _NO_TEXT:
        encoded = bytes(raw)
    if encoded[:1] != b'"':
        return None
    try:
        return _string.decode(whole_characters(encoded))
    except _NO_TEXT:
        return None


def reference(raw: Raw | None) -> str | None:
    """Return the id that a field refers to. A value that is no string matches no existing id."""
    if is_null(raw):
        return None
    found = text(raw)
    return found if found is not None else bytes(raw or b"").decode(errors="replace")


def is_null(raw: Raw | None) -> bool:
    """Return whether a field is absent or null."""
    return raw is None or raw == _NULL


def one_line(encoded: bytes) -> bytes:
    """Return the value without the newlines that its sender put between tokens."""
    if b"\n" in encoded:
        return msgspec.json.format(encoded, indent=-1)
    return encoded


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    return str(error)


def _mask(line: bytes) -> _Masked | None:
    """Return the line with stand-ins; None if the line has no lone surrogates."""
    if b"\\u" not in line:
        # The usual value here is no object or no array, rather than one with odd escapes.
        return None
    spellings: dict[bytes, bytes] = {}
    marker = next(
        (found for code in _PRIVATE_USE if (found := chr(code).encode()) not in line), None
    )

    def stand_in(found: re.Match[bytes]) -> bytes:
        if found[1] is None or marker is None:
            return found[0]
        if found[0] not in spellings and len(spellings) < len(_PRIVATE_USE):
            number = _PRIVATE_USE.start + len(spellings)
            spellings[found[0]] = marker + chr(number).encode()
        return spellings.get(found[0], found[0])

    masked = ESCAPES.sub(stand_in, line)
    if not spellings or marker is None:
        return None
    return _Masked(masked, marker, tuple(spellings))
