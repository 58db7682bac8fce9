"""Sessions as tests make them: ids, messages, entries and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

SESSION: Final = "session-a"
"""The id of a test's only session, where no other is asked for."""

TIME: Final = "2026-01-15T10:30:00.000Z"
"""First time that the clock of a test's daemon gives."""

HI: Final[dict[str, Any]] = {"role": "user", "content": "hi"}
"""A message, where any message will do."""

OWN: Final[dict[str, dict[str, Any]]] = {
    "native": {"role": "user", "content": "own"},
    "pi": {"role": "user", "content": "own", "timestamp": 1768473000000},
    "operator": {
        "role": "user",
        "contents": [{"type": "text", "content": "own"}],
        "id": "m",
        "timestamp": 1768473000.0,
    },
    "piglet": {"role": "user", "content": "own"},
    "sharur": {"role": "user", "content": "own", "timestamp": TIME},
}
"""A message that a file of each dialect takes."""


def entry(entry_id: str, content: Any = None, role: str = "user") -> dict[str, Any]:
    """Return a message entry to append; its text is the id unless `content` says otherwise."""
    message = {"role": role, "content": entry_id if content is None else content}
    return {"type": "message", "id": entry_id, "message": message}


def text(said: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": said}


def tool_use(call_id: str, name: str = "Read", **given: Any) -> dict[str, Any]:
    """Return a block that calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def tool_result(call_id: str, said: str) -> dict[str, Any]:
    """Return a block with the result of a call."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": said}


def calling(*call_ids: str, **more: Any) -> dict[str, Any]:
    """Return a message that calls tools, as pi spells it."""
    calls = [{"type": "toolCall", "id": one, "name": "ls", "arguments": {}} for one in call_ids]
    return {"role": "assistant", "content": calls, **more}


def resolving(call_id: str, **more: Any) -> dict[str, Any]:
    """Return the message with the result of a call, as pi spells it."""
    return {"role": "toolResult", "toolCallId": call_id, "content": [text("out")], **more}


def stored_entry(
    entry_type: str, entry_id: str, parent_id: str | None, **fields: Any
) -> dict[str, Any]:
    """Return an entry of any type as a native file holds it."""
    place = {"type": entry_type, "id": entry_id, "parent_id": parent_id, "timestamp": TIME}
    return place | fields


def stored_message(
    entry_id: str, parent_id: str | None, role: str = "user", content: Any = None, **fields: Any
) -> dict[str, Any]:
    """Return a message entry as a native file holds it, with more fields of the entry."""
    text = f"text of {entry_id}" if content is None else content
    message = {"role": role, "content": text}
    return stored_entry("message", entry_id, parent_id, message=message, **fields)


def chain(entry_ids: Sequence[str], content: Any = None) -> list[dict[str, Any]]:
    """Return message entries as a native file holds them, each below the one before."""
    pairs = zip(entry_ids, [None, *entry_ids], strict=False)
    return [stored_message(one, above, content=content) for one, above in pairs]


def native_header(session_id: str = SESSION, cwd: str = "/p") -> dict[str, Any]:
    """Return the first line of a native file."""
    return {
        "type": "session_header",
        "version": 1,
        "id": session_id,
        "timestamp": TIME,
        "cwd": cwd,
    }


def native_file(lines: list[Any], session_id: str = SESSION) -> bytes:
    """Return the bytes of a native file: a header, then the entries."""
    return b"".join(
        msgspec.json.encode(line) + b"\n" for line in [native_header(session_id), *lines]
    )
