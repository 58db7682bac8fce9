"""Calls that tests make of a daemon again and again, each with the parameters that most tests want."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from sessiond.methods import METHODS
from sessiond.testing.daemon import Daemon
from sessiond.testing.wire import Refusal, Wire
from tests.kit.patience import eventually
from tests.kit.sessions import SESSION, entry

_ON_A_SESSION: Final = frozenset(
    name
    for method in METHODS
    for name in (method.name, *method.aliases)
    if any(
        field.name == "session_id" and field.required
        for field in msgspec.structs.fields(method.params)
    )
)
"""Names of the methods that cannot do without the id of a session."""


async def call(wire: Wire, method: str, part: str = "", /, **params: Any) -> Any:
    """Call a method; return its result, or the part of the result that a path names.

    A method that needs the id of a session is called on the test's only one, unless `params` say
    otherwise. `part_of` says how a path is spelled.
    """
    return part_of(await wire.call(method, **_on_session(method, params)), part)


async def refused(wire: Wire, method: str, part: str = "kind", /, **params: Any) -> Any:
    """Return the kind of the refusal of a call, or another part of its `data`; fail if it is not refused."""
    refusal = await wire.refusal(method, **_on_session(method, params))
    return part_of(refusal.data, part)


async def refused_answer(wire: Wire, number: int, part: str = "kind", /) -> Any:
    """Return the kind of the refusal that answers a request, or another part of its `data`.

    The request was sent before. Fail if it is not refused.
    """
    try:
        result = await wire.answer(number)
    except Refusal as refusal:
        return part_of(refusal.data, part)
    raise AssertionError(f"request {number} was not refused: {result}")


async def cancel(wire: Wire, number: int) -> None:
    """Cancel a request that was sent before."""
    await wire.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})


def part_of(found: Any, path: str) -> Any:
    """Return the part of a JSON value that a path names; an empty path names the whole value.

    A path has the names of members, with dots between. `[]` behind a name stands for each item of a
    list: `entries[].entry.id` are the ids of all entries of a page. Several names in braces give a tuple:
    `entries[].{seq,entry.id}`.
    """
    if not path:
        return found
    if path.startswith("{"):
        return tuple(part_of(found, one) for one in path[1:-1].split(","))
    head, _, rest = path.partition(".")
    if not head.endswith("[]"):
        return part_of(found[head], rest)
    rows = found[head[:-2]] if head != "[]" else found
    return [part_of(row, rest) for row in rows]


def _on_session(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a call, with the session of the test where the method needs one."""
    return {"session_id": SESSION, **params} if method in _ON_A_SESSION else params


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


async def append_soon(
    wire: Wire, entry_id: str, content: Any = None, *, session_id: str = SESSION, **more: Any
) -> int:
    """Request an append of a user message; return the number of the request, before its answer."""
    said = entry(entry_id, content)
    return await wire.request("append", session_id=session_id, entry=said, **more)


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


async def let_go(daemon: Daemon, wire: Wire, session_id: str = SESSION) -> None:
    """Close a session, and wait until the daemon has nothing of it open."""
    await wire.call("session/close", session_id=session_id)
    await eventually(lambda: daemon.service.registry.is_free(session_id))


async def watch(wire: Wire, **params: Any) -> Any:
    """Subscribe to the test's only session, unless `params` name another one. Return the answer."""
    return await call(wire, "subscribe", **params)


async def events(wire: Wire, count: int) -> list[tuple[str, int | str]]:
    """Return the next notifications in short: events as (id, seq), the rest as (word, seq or reason)."""
    found: list[tuple[str, int | str]] = []
    while len(found) < count:
        message = await wire.next_notification()
        params = message["params"]
        word = message["method"].removeprefix("session/")
        name = params["entry"]["id"] if word == "event" else word
        found.append((name, params.get("seq", params.get("reason", ""))))
    return found


async def never(wire: Wire, session_id: str = SESSION) -> None:
    """Check that the daemon has no notification left to send.

    The answer of a flush stands behind everything that was due before.
    """
    await wire.call("session/flush", session_id=session_id)
    assert wire.notifications == []
