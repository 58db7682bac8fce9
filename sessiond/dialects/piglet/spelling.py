"""Values of piglet's JSON, as Go writes and reads them.

Go writes the characters < > & and two line separators as escapes. Outside of texts JSON has none of
these characters, so a line is converted as bytes. A message's `data` is the message but for `role`,
which is the type of the line.

    {"type":"user","id":"a1b2c3d4","ts":"2026-04-24T10:00:02.104233817-04:00",
     "data":{"content":"auth \\u0026 cookies","timestamp":"2026-04-24T10:00:02.104233817-04:00"}}
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import fields, is_null, join, text
from sessiond.model.times import is_rfc3339

ZERO_TIME: Final = "0001-01-01T00:00:00Z"
"""Time that stands for no time in Go."""

ROLE_OF_TYPE: Final = {"user": "user", "assistant": "assistant", "tool_result": "toolResult"}
TYPE_OF_ROLE: Final = {role: word for word, role in ROLE_OF_TYPE.items()}

_ESCAPES: Final = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
# The order in which piglet writes the members of a message.
_MEMBERS: Final = {
    "user": ("content", "blocks"),
    "assistant": ("content", "model", "provider", "usage", "stopReason", "error"),
    "toolResult": ("toolCallId", "toolName", "content", "isError"),
}
_encode: Final = msgspec.json.Encoder().encode


def escaped(line: bytes) -> bytes:
    """Return the line with the escapes that Go writes."""
    for character, escape in _ESCAPES:
        if character in line:
            line = line.replace(character, escape)
    return line


def is_object(raw: Raw | None) -> bool:
    """Return whether a member's value is an object."""
    return raw is not None and bytes(memoryview(raw)[:1]) == b"{"


def message_of_data(role: str, data: Raw) -> bytes:
    """Return the message: the role, then the members of `data` as they are stored."""
    encoded = bytes(data)
    if b'"role"' in encoded:
        # A stray member would be a second role.
        encoded = join({name: one for name, one in fields(data).items() if name != "role"})
    rest = encoded[1:]
    comma = b"" if rest.lstrip()[:1] == b"}" else b","
    return b'{"role":"' + role.encode() + b'"' + comma + rest


def data_of_message(message: bytes | Raw) -> tuple[str, bytes]:
    """Return the type and the `data` of a message; the type is "" for a role that piglet lacks.

    Raises BadLine if the message is no object.
    """
    found = fields(message)
    role = text(found.pop("role", None)) or ""
    first = _MEMBERS.get(role, ())
    names = [name for name in first if name in found]
    names += [name for name in found if name not in first]
    # piglet ends each message with its time.
    names.sort(key="timestamp".__eq__)
    return TYPE_OF_ROLE.get(role, ""), join({name: found[name] for name in names})


def require_time(found: dict[str, Raw]) -> None:
    """Raise BadLine for a `ts` that Go does not read, as piglet skips such a line."""
    raw = found.get("ts")
    if raw is None or is_null(raw):
        return
    said = text(raw)
    if said is None or not is_rfc3339(said):
        raise BadLine("has a ts that is no time of RFC 3339")
