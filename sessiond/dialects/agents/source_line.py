"""One line of another agent's file as an object, and its members as values.

Law: a member of another type than the reader wants counts as missing; no value is an error.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from sessiond import typed
from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import fields, lenient, require_text, text
from sessiond.model.nesting import SHALLOW_BYTES, nests_too_deeply
from sessiond.model.times import rfc3339

T = TypeVar("T", bound=Struct)

_string: Final = typed.decoder(str)
_TRUE: Final = Raw(b"true")
# Above the real figures of any session, and exact in every program.
_COUNT_MAX: Final = 10**12
# A native entry holds the values of an agent's line some levels deeper than the line.
_LEVELS: Final = 8


class SourceLine(Struct):
    """A line that is an object: its number, from 1, its members, and its bytes."""

    number: int
    members: dict[str, Raw]
    raw: bytes = b""
    told: Any = None
    """The Struct that `tell` has returned last."""

    def tell(self, kind: type[T]) -> T:
        """Return the members that a Struct names, read at once: texts, None without one, and flags.

        The Struct is made once. Its fields of texts have the default None, those of flags False.
        """
        found = self.told
        if type(found) is not kind:
            try:
                found = typed.decode(self.raw, kind)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                # A member of another type takes no other member along.
                members = self.members
                found = kind(
                    **{
                        one.name: text(members.get(one.encode_name))
                        if one.default is None
                        else truth(members, one.encode_name)
                        for one in structs.fields(kind)
                    }
                )
            self.told = found
        return found

    def word(self, name: str) -> str | None:
        """Return a member that is a text; None for any other value."""
        raw = self.members.get(name)
        if raw is None:
            return None
        try:
            return _string.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # No text, or one with half of a surrogate pair.
            return text(raw)

    def time(self, name: str = "timestamp") -> str:
        """Return a member as RFC 3339 UTC; "" if the member is no time."""
        return rfc3339(self.word(name))


def source_line(number: int, line: bytes) -> SourceLine:
    """Return the line of this number as an object.

    Raises BadLine for a line that is no object, or nests too deeply for a native entry around it.
    """
    if len(line) + 2 * _LEVELS > SHALLOW_BYTES and nests_too_deeply(line, _LEVELS):
        raise BadLine("is nested too deeply")
    require_text(line)
    return SourceLine(number, fields(line), line)


def member(members: dict[str, Raw], *path: str) -> dict[str, Raw]:
    """Return the object at a path of members; no members where there is no object."""
    for name in path:
        found = members.get(name)
        if found is None:
            return {}
        members = lenient(found)
    return members


def truth(members: dict[str, Raw], name: str) -> bool:
    """Return whether a member is the value true."""
    return members.get(name) == _TRUE


def decoded(raw: Raw | None, kind: type[Any], default: Any) -> Any:
    """Return a member of this type; `default` for any other value."""
    if raw is None:
        return default
    try:
        return typed.decode(raw, kind)
    except (msgspec.DecodeError, RecursionError):
        return default


def count_in(members: dict[str, Raw], name: str) -> int:
    """Return a member that is a count; 0 for any other value."""
    found: int = decoded(members.get(name), int, 0)
    return found if 0 <= found <= _COUNT_MAX else 0
