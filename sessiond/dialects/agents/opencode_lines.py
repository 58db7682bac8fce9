"""The lines that stand for a session of opencode, whose store is a database or a tree of files.

Law: pure. A session is the line of its row, then a line for each message in the session's order, and
at the end the revert, if there is one. Values come out as the bytes that the store has.

    {"type":"session","id":"ses_…","directory":"/my/project","title":"…","time_created":1793880000000}
    {"type":"message","id":"msg_…","time_created":…,"data":{…},"parts":[{"id":"prt_…","type":"text",…}]}
    {"type":"step","id":"msg_…",…}          what an answer says behind the results of its calls
    {"type":"compaction","id":"msg_…",…}    a message that is a summary, as a compaction
    {"type":"row","kind":"user","id":"msg_…","seq":1,"time_created":…,"data":{…}}    of version 2
    {"type":"usage","id":"msg_…",…}         the tokens of a row that is a compaction
    {"type":"revert","message_id":"msg_…"}

A message without the parts from a reverted one on comes again behind the revert.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, structs

from sessiond.dialects.agents.source_line import member, truth
from sessiond.dialects.lenient_json import array, is_null, join, lenient, text

_RUNNING: Final = frozenset({"running", "streaming", "pending"})


class StoredPart(Struct, frozen=True):
    """A part of a message: its id, and the JSON text of the store."""

    id: str
    data: bytes


class StoredMessage(Struct, frozen=True):
    """A message: its id, its time in milliseconds, the JSON text of the store, and its parts in order.

    `kind` and `seq` are columns of version 2, whose messages have no parts; `kind` is None in version 1.
    """

    id: str
    time_created: int
    data: bytes
    parts: Sequence[StoredPart] = ()
    kind: str | None = None
    seq: int = 0


def session_line(columns: Mapping[str, Any]) -> bytes:
    """Return the line of a session's row; a column that holds an object as JSON text is that object."""
    found = {"type": _encoded("session")}
    for name, value in columns.items():
        inner = value.encode(errors="replace") if isinstance(value, str) else b""
        is_object = inner.startswith(b"{") and bool(lenient(inner))
        found[name] = _flat(inner) if is_object else _encoded(value)
    return join(found)


def session_lines(columns: Mapping[str, Any], messages: Iterable[StoredMessage]) -> Iterator[bytes]:
    """Yield the lines of a session, of either version."""
    revert, reverted = revert_in(columns), list[StoredMessage]()
    yield session_line(columns)
    for message in messages:
        yield from lines_of(message)
        if message.id == revert[0]:
            reverted.append(message)
    yield from revert_lines(revert, reverted)


def lines_of(message: StoredMessage) -> list[bytes]:
    """Return the lines of one message, of either version."""
    if message.kind is None:
        return list(_message_lines(message, message.parts))
    return list(_row_lines(message))


def revert_in(columns: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the ids of the message and of the part from which on a session was reverted."""
    said = columns.get("revert")
    found = lenient(said.encode(errors="replace")) if isinstance(said, str) else {}
    return text(found.get("messageID")), text(found.get("partID"))


def revert_lines(
    revert: tuple[str | None, str | None], messages: Sequence[StoredMessage]
) -> Iterator[bytes]:
    """Yield the lines of a revert; none if its message is none of these."""
    message_id, part_id = revert
    reverted = next((one for one in messages if one.id == message_id), None)
    if reverted is None:
        return
    yield join({"type": _encoded("revert"), "message_id": _encoded(message_id)})
    ids = [part.id for part in reverted.parts]
    if part_id in ids:
        yield from _message_lines(reverted, reverted.parts[: ids.index(part_id)])


# -- messages that may change ---------------------------------------------------------------------


def settled(message: StoredMessage) -> StoredMessage:
    """Return a message without what opencode notes there later, and no model sees.

    A prompt gets a list of the changed files once its answer is there.
    """
    if message.kind is not None or b'"summary"' not in message.data:
        return message
    data = lenient(message.data)
    if text(data.get("role")) != "user":
        return message
    data.pop("summary", None)
    return structs.replace(message, data=join(data))


def is_answer(message: StoredMessage) -> bool:
    """Return whether a message is an answer of the model."""
    if message.kind is None:
        return text(lenient(message.data).get("role")) == "assistant"
    return message.kind == "assistant"


def has_ended(message: StoredMessage) -> bool:
    """Return whether opencode has written all of a message.

    An answer grows in its place, and a prompt gets its parts one after the other.
    """
    data = lenient(message.data)
    if is_answer(message):
        is_told = not is_null(member(data, "time").get("completed"))
        return is_told or not is_null(data.get("error"))
    if message.kind is not None:
        return text(data.get("status")) not in _RUNNING
    return bool(message.parts) or not data


# -- one message ----------------------------------------------------------------------------------


def _row_lines(row: StoredMessage) -> Iterator[bytes]:
    """Yield the lines of one row of version 2; what is no JSON object is a line as it is."""
    data = lenient(row.data)
    if not data:
        yield bytes(_flat(row.data))
        return
    if row.kind == "compaction" and "tokens" in data:
        yield _line("usage", row, data, {})
    yield _line("row", row, data, {"kind": _encoded(row.kind), "seq": _encoded(row.seq)})


def _message_lines(message: StoredMessage, parts: Sequence[StoredPart]) -> Iterator[bytes]:
    """Yield the lines of one message; what is no JSON object is a line by itself, as it is."""
    data = lenient(message.data)
    if not data:
        yield bytes(_flat(message.data))
        return
    found = [(part.id, lenient(part.data)) for part in parts]
    *before, last = _steps([(one, members) for one, members in found if members])
    kind = "message"
    for step in before:
        # The tokens are those of the whole answer, and its end is that of the last step.
        rest = {name: value for name, value in data.items() if name not in {"tokens", "cost"}}
        yield _line(kind, message, rest | {"finish": _encoded("tool-calls")}, _parts(step))
        kind = "step"
    yield _line(kind, message, data, _parts(last))
    if truth(data, "summary"):
        yield _line("compaction", message, data, _parts(last))
    yield from (
        bytes(_flat(part.data)) for part, (_, one) in zip(parts, found, strict=True) if not one
    )


_Parts = list[tuple[str, dict[str, Raw]]]


def _steps(parts: _Parts) -> list[_Parts]:
    """Return the parts of each step: a step that follows calls is asked with the calls' results."""
    steps: list[_Parts] = [[]]
    for part in parts:
        kinds = [text(members.get("type")) for _, members in steps[-1]]
        if text(part[1].get("type")) == "step-start" and "tool" in kinds:
            steps.append([])
        steps[-1].append(part)
    return steps


def _line(kind: str, message: StoredMessage, data: dict[str, Raw], more: dict[str, Raw]) -> bytes:
    members = {
        "type": _encoded(kind),
        "id": _encoded(message.id),
        "time_created": _encoded(message.time_created),
    }
    return join(members | more | {"data": _flat(join(data))})


def _parts(parts: _Parts) -> dict[str, Raw]:
    # The name of a file or the key of a row is the id, whatever the content says.
    spelled = (_flat(join(members | {"id": _encoded(part_id)})) for part_id, members in parts)
    return {"parts": array(spelled)}


def _flat(encoded: bytes) -> Raw:
    """Return a value as one line; newlines can only stand between its tokens."""
    return Raw(encoded.replace(b"\r", b" ").replace(b"\n", b" "))


def _encoded(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))
