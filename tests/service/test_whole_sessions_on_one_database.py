"""Deletes, purges, restores and repairs of sessions that another daemon has open, or changes at once."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from anyio import create_task_group, fail_after, to_thread

from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import append, call, create, refused, watch
from tests.kit.patience import PATIENCE_SECONDS, happened
from tests.kit.sessions import HI, SESSION
from tests.service.one_database.connections import OUT_OF_REACH, Held, Mute, Wrapped
from tests.service.one_database.site import NEVER, POLL_SECONDS, Site, clients_of

BY_RING: Final = NEVER / 2
IDS: Final = "entries[].entry.id"
DELETED: Final = {
    "jsonrpc": "2.0",
    "method": "session/closed",
    "params": {"session_id": SESSION, "reason": "deleted"},
}
"""Notification to a subscriber of the end of a session that was deleted."""


@asynccontextmanager
async def two_clients(
    site: Site, how: str, third: Wrapped | None = None
) -> AsyncGenerator[tuple[Wire, Wire]]:
    """Yield clients of two daemons; the second daemon hears of changes by rings alone, by polls, or not."""
    first = None if how == "rings" else Mute(site.connect())
    async with (
        site.daemon("one", first, BY_RING) as one,
        site.daemon("three", third, POLL_SECONDS if how == "polls" else BY_RING) as three,
        one.connect() as acting,
        three.connect() as open_there,
    ):
        with fail_after(PATIENCE_SECONDS):
            yield acting, open_there


WAYS = pytest.mark.parametrize("how", ["rings", "polls"])


@WAYS
async def test_a_delete_closes_the_session_at_every_daemon(site: Site, how: str) -> None:
    connection = Held(site.connect())
    async with two_clients(site, how, connection) as (one, three):
        await create(one, persist="immediate")
        await append(one, "e-1")
        await watch(three)
        await append(three, "e-2")
        lease = await call(three, "session/acquire", ttl_ms=60_000, head="side")
        if how == "rings":
            await site.is_heard_by(2)
        connection.holds = "append"
        async with create_task_group() as tasks:

            async def late() -> None:
                assert await refused(three, "append", message=HI) == "session_not_found"

            tasks.start_soon(late)
            await happened(connection.has_begun)
            await call(one, "session/delete")
            connection.may_go.set()
        while (found := await three.next_notification())["method"] == "session/event":
            pass
        assert found == DELETED
        renewal = {"lease_id": lease["lease_id"], "ttl_ms": 1000}
        assert await refused(three, "session/renew", **renewal) == "session_not_found"
        await call(one, "session/restore")
        # A lease ends with its session.
        await call(one, "session/acquire", ttl_ms=60_000, head="side")
        await append(one, "e-3")
        for wire in (one, three):
            assert await call(wire, "session/entries", IDS) == ["e-1", "e-2", "e-3"]


SOURCE: Final = "session-of-origin"
MAKERS: Final[dict[str, dict[str, Any]]] = {
    "session/create": {"cwd": "/p", "session_id": SESSION},
    "session/create, or open": {"cwd": "/p", "session_id": SESSION, "if_exists": "open"},
    "session/fork": {"session_id": SOURCE, "new_session_id": SESSION},
    "session/fork, dry run": {"session_id": SOURCE, "new_session_id": SESSION, "dry_run": True},
}


@pytest.mark.parametrize("name", MAKERS)
async def test_an_id_that_another_daemon_has_freed_is_free_at_once(site: Site, name: str) -> None:
    async with two_clients(site, "neither") as (one, three):
        await create(one, SOURCE, persist="immediate")
        await append(one, "s-1", session_id=SOURCE)
        await create(one, persist="immediate")
        await append(three, "e-1")
        # The first daemon's rings do not reach the other one, which does not poll, either.
        await call(one, "session/delete")
        made = await three.call(name.split(",")[0], **MAKERS[name])
        assert made.get("created", True)
        assert made["session"]["id"] == SESSION
        if "dry_run" not in MAKERS[name]:
            assert "e-1" not in await call(three, "session/entries", IDS)


async def test_an_id_that_is_in_use_at_another_daemon_is_not_free(site: Site) -> None:
    async with two_clients(site, "neither") as (one, three):
        await create(one, persist="immediate")
        await append(three, "e-1")
        await append(one, "e-2")
        kind = await refused(three, "session/create", cwd="/p", session_id=SESSION)
        assert kind == "session_exists"
        opened = await create(three, if_exists="open")
        assert (opened["created"], opened["session"]["seq"]) == (False, 2)


@WAYS
async def test_a_delete_is_told_without_a_request(site: Site, how: str) -> None:
    async with two_clients(site, how) as (one, three):
        await create(one, persist="immediate")
        await watch(three)
        if how == "rings":
            await site.is_heard_by(2)
        await call(one, "session/delete")
        assert await three.next_notification() == DELETED


@pytest.mark.parametrize("daemon", ["the deleting one", "the other one"])
async def test_a_deleted_session_that_is_still_open_is_purged(site: Site, daemon: str) -> None:
    async with clients_of(site, "one", "three", poll_seconds=NEVER) as (one, three):
        await create(one, persist="immediate")
        await append(one, "e-1")
        await watch(three)
        await call(one, "session/delete")
        # No ring and no poll has told the other daemon.
        await call(one if daemon == "the deleting one" else three, "session/purge")
        if daemon == "the deleting one":
            assert await refused(three, "session/get") == "session_not_found"
        assert await three.next_notification() == DELETED
        for wire in (one, three):
            assert (await wire.call("session/trash"))["sessions"] == []
            assert await refused(wire, "session/restore") == "session_not_found"
            assert await refused(wire, "append", message=HI) == "session_not_found"


async def test_a_session_is_restored_where_it_is_still_open(site: Site) -> None:
    async with clients_of(site, "one", "three", poll_seconds=NEVER) as (one, three):
        await create(one, persist="immediate")
        await append(one, "e-1")
        await watch(three)
        assert await refused(three, "session/restore") == "session_exists"
        await call(one, "session/delete")
        await call(three, "session/restore")
        await append(one, "e-2")
        assert await call(three, "session/entries", IDS) == ["e-1", "e-2"]


@WAYS
async def test_a_repair_replaces_the_session_at_every_daemon(site: Site, how: str) -> None:
    async with two_clients(site, how) as (one, three):
        await create(one, persist="immediate")
        await append(one, "e-1")
        before = await watch(three)
        if how == "rings":
            await site.is_heard_by(2)
        await append(one, "e-2")
        assert (await three.next_notification())["method"] == "session/event"
        await to_thread.run_sync(site.spoil_line, 1)
        assert (await call(one, "session/repair"))["dropped"] == 1
        repaired = await call(one, "session/repair", dry_run=False)
        assert (repaired["repaired"], repaired["dropped_lines"]) == (True, [3])
        replaced = await three.next_notification()
        assert replaced["method"] == "session/replaced"
        for wire in (one, three):
            epoch = await call(wire, "session/get", "session.epoch")
            assert epoch == replaced["params"]["epoch"] != before["epoch"]
        await append(three, "e-3")
        for wire in (one, three):
            assert await call(wire, "session/entries", IDS) == ["e-1", "e-3"]


class Together(Wrapped):
    """A connection whose next call of a method waits for the call of another daemon."""

    def __init__(self, site: Site, method: str, both: threading.Barrier) -> None:
        super().__init__(site.connect())
        self.method = method
        self.both = both
        self.waits = False

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name == self.method and self.waits:
            self.waits = False
            self.both.wait(PATIENCE_SECONDS)
        return found


@pytest.mark.parametrize(
    ("asked", "method", "refusal"),
    [
        ("delete", "delete", None),
        ("restore", "restore", "session_exists"),
        ("purge", "purge", "session_not_found"),
        ("repair", "replace", None),
    ],
)
async def test_what_two_daemons_do_at_once_is_done_once(
    site: Site, asked: str, method: str, refusal: str | None
) -> None:
    both = threading.Barrier(2)
    connections = [Together(site, method, both) for _ in range(2)]
    members = {"dry_run": False} if asked == "repair" else {}
    outcomes: list[Any] = []

    async def ask(wire: Wire) -> None:
        try:
            outcomes.append(await call(wire, f"session/{asked}", **members))
        except Refusal as error:
            outcomes.append(error.data["kind"])

    async with (
        site.daemon("one", connections[0]) as first,
        site.daemon("three", connections[1]) as second,
        first.connect() as one,
        second.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            await create(one, persist="immediate")
            for name in ("e-1", "e-2"):
                await append(one, name)
            await call(three, "session/get")
            if asked in {"restore", "purge"}:
                await call(one, "session/delete")
            if asked == "repair":
                await to_thread.run_sync(site.spoil_line, 1)
            for connection in connections:
                connection.waits = True
            async with create_task_group() as tasks:
                for wire in (one, three):
                    tasks.start_soon(ask, wire)
            trashed = (await one.call("session/trash"))["sessions"]
            if asked == "repair":
                assert sorted(one["repaired"] for one in outcomes) == [False, True]
                assert [bool(one["reason"]) for one in outcomes if not one["repaired"]] == [True]
                await append(one, "e-3")
                assert await call(three, "session/entries", IDS) == ["e-1", "e-3"]
            else:
                assert [one for one in outcomes if isinstance(one, str)] == (
                    [] if refusal is None else [refusal]
                )
            assert len(trashed) == (1 if asked in {"delete", "repair"} else 0)


async def test_retention_of_two_daemons_reports_each_session_once(site: Site) -> None:
    connections = [Together(site, "delete_unused", threading.Barrier(2)) for _ in range(2)]
    connections[1].both = connections[0].both
    names = [f"session-{number}" for number in range(6)]
    went: list[str] = []

    async def retain(wire: Wire) -> None:
        answer = await wire.call("retention/run", max_age_hours=1e-9, dry_run=False)
        went.extend(row["id"] for row in answer["sessions"])
        assert answer["failed"] == []

    async with (
        site.daemon("one", connections[0]) as first,
        site.daemon("three", connections[1]) as second,
        first.connect() as one,
        second.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            for name in names:
                await create(one, name, persist="immediate")
                await one.call("session/close", session_id=name)
            await to_thread.run_sync(site.forget_open_notes)
            for connection in connections:
                connection.waits = True
            async with create_task_group() as tasks:
                for wire in (one, three):
                    tasks.start_soon(retain, wire)
            assert sorted(went) == names
            trashed = (await one.call("session/trash"))["sessions"]
            assert sorted(row["session_id"] for row in trashed) == names


class Searching(Wrapped):
    """A connection whose search through all lines takes too long."""

    def holding(self, text: bytes) -> Any:
        del text
        raise OUT_OF_REACH


async def test_a_search_for_an_entry_that_fails_says_what_to_name(site: Site) -> None:
    async with (
        site.daemon("one", Searching(site.connect())) as daemon,
        daemon.connect() as one,
    ):
        await create(one, persist="immediate")
        await append(one, "e-1")
        opened = await one.call("session/open", entry_id="e-1")
        assert opened["session"]["id"] == SESSION
        await one.call("session/close", session_id=SESSION)
        refusal = await one.refusal("session/open", entry_id="e-1")
        assert refusal.data["kind"] == "storage_error"
        assert "a call with session_id" in refusal.message
        opened = await one.call("session/open", session_id=SESSION)
        assert opened["session"]["seq"] == 1
