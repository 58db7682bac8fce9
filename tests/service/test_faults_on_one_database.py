"""Each call of a request into the database loses its answer once, or meets a change by another daemon.

Law: the request is carried out once. If the connection ended, the request may be refused with storage_error
before that, and is repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from anyio import to_thread
from msgspec import Struct

from sessiond.journal.splitter import whole_lines
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.testing.daemon import Refusal
from sessiond.testing.wire import Wire
from tests.kit.calls import call, create_with
from tests.kit.sessions import entry
from tests.service.one_database.connections import OUT_OF_REACH, Fate, Struck
from tests.service.one_database.site import NEVER, Site

HOUR_MS: Final = 3_600_000
CALLS_MAX: Final = 50
"""More calls than any request makes."""


def lost_before(_database: SessionDatabase, _session_id: str, _call: Callable[[], Any]) -> Any:
    """End the connection before a call takes effect."""
    raise OUT_OF_REACH


def lost_behind(_database: SessionDatabase, _session_id: str, call: Callable[[], Any]) -> Any:
    """End the connection once a call has taken effect."""
    call()
    raise OUT_OF_REACH


def repaired(database: SessionDatabase, session_id: str, call: Callable[[], Any]) -> Any:
    """Let another daemon put a session in the place of this one before a call, as a repair does."""

    def replace(head: Head) -> Head | None:
        lines = whole_lines(b"".join(database.pieces(head.number, 0, head.seq)))
        return database.replace(head, f"repaired-{session_id}", [lines])

    change(database, session_id, replace)
    return call()


def renewed(database: SessionDatabase, session_id: str, call: Callable[[], Any]) -> Any:
    """Let another daemon give the session another epoch before a call."""
    change(
        database,
        session_id,
        lambda head: database.renew(head, f"renewed-{session_id}", head.digest),
    )
    return call()


def change(database: SessionDatabase, session_id: str, make: Callable[[Head], Head | None]) -> None:
    """Change a session if it is there: at its next position where its daemon was first, as daemons do."""
    for _ in range(CALLS_MAX):
        head = database.find(session_id)
        if head is None or make(head) is not None:
            return
    raise AssertionError("the daemon is always first")


LOST: Final = {lost_before, lost_behind}


class Request(Struct):
    """A request, what comes before it, and what tells that it was carried out once."""

    name: str
    method: str
    prepare: Callable[[Wire, str], Awaitable[dict[str, Any]]]
    """Makes what the request needs for a session, and returns the request's parameters."""
    is_done: Callable[[Wire, str], Awaitable[bool]]
    """Asked at another daemon."""
    repeated: str = ""
    """Kind of the refusal of a repeated request, if the first one was carried out."""
    asks_again: str = "no refusal"
    """Kind of the refusal of a request that meets a change by another daemon."""


async def kind(wire: Wire, method: str, **params: Any) -> str:
    """Return the kind of the refusal of a request; empty for one that is carried out."""
    try:
        await wire.call(method, **params)
    except Refusal as refusal:
        return str(refusal.data["kind"])
    return ""


def behind(
    *methods: str, stored: str = "immediate", **params: Any
) -> Callable[[Wire, str], Awaitable[dict[str, Any]]]:
    """Return what stores a session so and calls these methods; the request has `params`."""

    async def prepare(wire: Wire, session_id: str) -> dict[str, Any]:
        await create_with(wire, "e-1", session_id=session_id, persist=stored)
        for method in methods:
            await wire.call(method, session_id=session_id)
        return {"session_id": session_id, **params}

    return prepare


def new(**params: Any) -> Callable[[Wire, str], Awaitable[dict[str, Any]]]:
    """Return what stores nothing; the request is for a session that is not there."""

    async def prepare(_wire: Wire, session_id: str) -> dict[str, Any]:
        return {"session_id": session_id, "cwd": "/p", **params}

    return prepare


def leased(**params: Any) -> Callable[[Wire, str], Awaitable[dict[str, Any]]]:
    """Return what stores a session and takes its lease; the request is about the lease."""
    make = behind()

    async def prepare(wire: Wire, session_id: str) -> dict[str, Any]:
        lease = await wire.call("session/acquire", **await make(wire, session_id), ttl_ms=HOUR_MS)
        return {"session_id": session_id, "lease_id": lease["lease_id"], **params}

    return prepare


def shows(method: str, part: str, expected: Any) -> Callable[[Wire, str], Awaitable[bool]]:
    """Return what tells whether a session is there, and a method answers with this part."""

    async def is_done(wire: Wire, session_id: str) -> bool:
        return bool(await call(wire, method, part, session_id=session_id) == expected)

    return is_done


def refuses(expected: str, method: str, **params: Any) -> Callable[[Wire, str], Awaitable[bool]]:
    """Return what tells whether a session refuses a request so; if `expected` is empty, it must not."""

    async def is_done(wire: Wire, session_id: str) -> bool:
        return await kind(wire, method, session_id=session_id, **params) == expected

    return is_done


def is_gone(*, in_trash: bool) -> Callable[[Wire, str], Awaitable[bool]]:
    """Return what tells whether a session is deleted, and whether the trash has it as it should."""

    async def is_done(wire: Wire, session_id: str) -> bool:
        gone = await kind(wire, "session/get", session_id=session_id) == "session_not_found"
        trash = await call(wire, "session/trash", "sessions[].session_id")
        return gone and (session_id in trash) is in_trash

    return is_done


async def is_forked_once(wire: Wire, session_id: str) -> bool:
    """Tell whether a session has one fork."""
    lineages = await call(wire, "session/list", "sessions[].lineage", limit=1000)
    return sum(session_id in str(lineage) for lineage in lineages) == 1


IS_LEASED: Final = refuses("lease_held", "append", message={"role": "user", "content": "late"})
IDS: Final = "entries[].entry.id"
REQUESTS: Final = (
    Request(
        "create",
        "session/create",
        new(persist="immediate"),
        shows("session/get", "session.seq", 0),
    ),
    Request(
        "create-draft",
        "session/create",
        new(),
        shows("session/get", "session.{seq,persisted}", (0, False)),
    ),
    Request(
        "append",
        "append",
        behind(entry=entry("e-2")),
        shows("session/entries", IDS, ["e-1", "e-2"]),
    ),
    Request("fork", "session/fork", behind(), is_forked_once),
    Request(
        "promote",
        "session/update",
        behind(stored="never", persist="immediate"),
        shows("session/get", "session.{persisted,seq}", (True, 1)),
    ),
    Request(
        "archive",
        "session/archive",
        behind(),
        shows("session/get", "session.archived", True),
    ),
    Request(
        "unarchive",
        "session/unarchive",
        behind("session/archive"),
        shows("session/get", "session.archived", False),
    ),
    Request(
        "acquire",
        "session/acquire",
        behind(ttl_ms=HOUR_MS),
        IS_LEASED,
        # The session is being closed: the refusal names no holder.
        asks_again="lease_held",
    ),
    Request("renew", "session/renew", leased(ttl_ms=HOUR_MS), IS_LEASED),
    Request("release", "session/release", leased(), refuses("", "session/acquire", ttl_ms=HOUR_MS)),
    Request("delete", "session/delete", behind(), is_gone(in_trash=True)),
    Request(
        "restore",
        "session/restore",
        behind("session/delete"),
        shows("session/get", "session.seq", 1),
        "session_exists",
    ),
    Request(
        "purge",
        "session/purge",
        behind("session/delete"),
        is_gone(in_trash=False),
        "session_not_found",
    ),
)


@pytest.mark.parametrize(
    ("asked", "fate"),
    [
        pytest.param(asked, fate, id=f"{asked.name}-{fate.__name__}")
        for asked in REQUESTS
        for fate in (lost_before, lost_behind, repaired, renewed)
        # No daemon repairs what it does not know of, and a lease ends with its epoch.
        if asked.name not in {"create", "create-draft", "renew"} or fate in LOST
    ],
)
async def test_a_request_is_carried_out_once_whatever_a_call_of_it_meets(
    site: Site, asked: Request, fate: Fate
) -> None:
    connection = Struck(await to_thread.run_sync(site.connect), fate)
    async with (
        site.daemon("one", connection, NEVER) as first,
        site.daemon("three", await to_thread.run_sync(site.connect), NEVER) as third,
        first.connect() as one,
        third.connect() as three,
    ):
        for nth in range(1, CALLS_MAX):
            connection.session_id = session_id = f"session-{nth:03}"
            params = await asked.prepare(one, session_id)
            connection.left = nth
            refused = await kind(one, asked.method, **params)
            is_struck, connection.left = connection.left <= 0, 0
            if refused:
                assert refused == ("storage_error" if fate in LOST else asked.asks_again)
                assert await kind(one, asked.method, **params) in {"", asked.repeated}
            assert await asked.is_done(three, session_id)
            if not is_struck:
                return
        pytest.fail("a request makes fewer calls")
