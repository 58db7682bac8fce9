"""Calls that tests make of a daemon again and again, each with the parameters that most tests want."""

from __future__ import annotations

from typing import Any

from sessiond.testing.wire import Wire
from tests.kit.sessions import SESSION, entry


async def call(wire: Wire, method: str, **params: Any) -> Any:
    """Call a method on the test's only session."""
    return await wire.call(method, session_id=SESSION, **params)


async def create(wire: Wire, session_id: str = SESSION, **more: Any) -> Any:
    """Create a session in /p, with more parameters of `session/create`. Return the answer."""
    return await wire.call("session/create", **({"cwd": "/p", "session_id": session_id} | more))


async def create_with(wire: Wire, *entry_ids: str, session_id: str = SESSION, **more: Any) -> Any:
    """Create a session and append a user message for each of these ids.

    Return the answer to the creation.
    """
    created = await create(wire, session_id, **more)
    for entry_id in entry_ids:
        await append(wire, entry_id, session_id=session_id)
    return created


async def create_to_compact(
    wire: Wire,
    *entry_ids: str,
    session_id: str = SESSION,
    persist: str = "on_assistant",
    **settings: Any,
) -> Any:
    """Create a session with user messages, of which a compaction keeps the last alone.

    `settings` are added to the settings of its compaction, or replace them.
    """
    compaction = {"keep_recent_tokens": 1, **settings}
    return await create_with(
        wire, *entry_ids, session_id=session_id, persist=persist, compaction=compaction
    )


async def append(
    wire: Wire,
    entry_id: str,
    content: Any = None,
    *,
    role: str = "user",
    session_id: str = SESSION,
    **more: Any,
) -> Any:
    """Append a message under this entry id; its text is the id unless `content` says otherwise."""
    said = entry(entry_id, content, role)
    return await wire.call("append", session_id=session_id, entry=said, **more)


async def append_message(
    wire: Wire, entry_id: str, message: dict[str, Any], session_id: str = SESSION, **more: Any
) -> Any:
    """Append a message of any shape under this entry id."""
    said = {"type": "message", "id": entry_id, "message": message}
    return await wire.call("append", session_id=session_id, entry=said, **more)


async def append_all(
    wire: Wire, *entries: dict[str, Any], session_id: str = SESSION, **more: Any
) -> Any:
    """Append entries in one call."""
    return await wire.call("append", session_id=session_id, entries=list(entries), **more)


async def say(
    wire: Wire, content: Any = "hi", *, role: str = "user", session_id: str = SESSION, **more: Any
) -> Any:
    """Append a message without an id."""
    message = {"role": role, "content": content}
    return await wire.call("append", session_id=session_id, message=message, **more)


async def session_info(wire: Wire, session_id: str = SESSION) -> Any:
    """Return the `session` member of `session/get`."""
    return (await wire.call("session/get", session_id=session_id))["session"]
