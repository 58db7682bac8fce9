"""Lists, and the connections that watch them, at daemons that keep their sessions in one database."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import pytest
from anyio import fail_after, to_thread

from sessiond.catalog.rows import Stored
from sessiond.service.database.database import Head
from sessiond.service.database.log import DatabaseLog
from sessiond.service.database.scanning.rows import row_in_database
from sessiond.service.files.scanning.folder_scanner import FolderScanner
from sessiond.service.store.listed import Snapshot
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import append, call, create, watch
from tests.kit.clock import let_pass
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually, happened
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import OUT_OF_REACH, Mute, Wrapped
from tests.service.one_database.site import NEVER, Site, beside, clients_of

pytestmark = [pytest.mark.usefixtures("clock")]

BY_RING = NEVER / 2
"""Pause between two polls of a daemon that hears rings: no poll comes in a test."""
FLUSH_SECONDS = 0.01
PAUSE_SECONDS = 0.3
"""Pause between two questions of a test that counts questions."""


@pytest.fixture(autouse=True)
def prompt_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let changes of lists be told at once."""
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=FLUSH_SECONDS)


class Asked(Wrapped):
    """A connection that counts its calls by name."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if callable(found):
            self.calls[name] += 1
        return found


class SilentOnce(Wrapped):
    """A connection that loses one question for what has changed."""

    is_lost = False

    def changes(self, after: int) -> Any:
        if self.is_lost:
            self.is_lost = False
            raise OUT_OF_REACH
        return self.inner.changes(after)


async def test_no_session_is_made_that_an_old_list_lacks(site: Site) -> None:
    connection = SilentOnce(await to_thread.run_sync(site.connect))
    async with (
        clients_of(site, "three") as (three,),
        site.daemon("one", connection, NEVER) as daemon,
        daemon.connect() as one,
    ):
        await one.call("session/list")
        await create(three, persist="immediate")
        await append(three, "e-1", role="assistant")
        content = (await call(three, "session/export"))["content"]
        for method, params in (
            ("session/continue_recent", {"cwd": "/p"}),
            ("session/continue_recent", {}),
            ("session/import", {"content": content, "if_exists": "skip"}),
        ):
            connection.is_lost = True
            refusal = await one.refusal(method, **params)
            assert (refusal.data["kind"], refusal.data["retryable"]) == ("storage_error", True)
        again = await one.call("session/continue_recent", cwd="/p")
        assert (again["session"]["id"], again["created"]) == (SESSION, False)
        skipped = await one.call("session/import", content=content, if_exists="skip")
        assert skipped["twins"] == [SESSION]


async def hint(wire: Wire, *ignored: str) -> tuple[str | None, str]:
    """Return the next hint that says another word than these."""
    while True:
        notice = await wire.next_notification()
        if notice["method"] == "catalog/changed" and notice["params"]["change"] not in ignored:
            return notice["params"]["session_id"], notice["params"]["change"]


@asynccontextmanager
async def watching(
    site: Site, how: str, connection: Wrapped | None = None
) -> AsyncGenerator[tuple[Wire, Wire]]:
    """Yield a client of a daemon, and one of another daemon that watches lists by rings or by polls."""
    first = Mute(site.connect()) if how == "polls" else None
    poll_seconds = BY_RING if how == "rings" else FLUSH_SECONDS
    async with (
        site.daemon("one", first, BY_RING) as one,
        site.daemon("three", connection, poll_seconds) as three,
        one.connect() as acting,
        three.connect() as seeing,
    ):
        with fail_after(PATIENCE_SECONDS):
            await seeing.call("catalog/subscribe")
            if how == "rings":
                await site.is_heard_by(1)
            yield acting, seeing


WAYS = pytest.mark.parametrize("how", ["rings", "polls"])


@WAYS
async def test_changes_at_one_daemon_are_hints_at_another(site: Site, how: str) -> None:
    async with watching(site, how) as (one, three):
        await create(one, persist="immediate")
        assert await hint(three) == (SESSION, "created")
        await append(one, "e-1")
        assert await hint(three) == (SESSION, "updated")
        for method, word in (
            ("archive", "archived"),
            ("unarchive", "unarchived"),
            ("delete", "deleted"),
            ("restore", "created"),
            ("delete", "deleted"),
        ):
            await call(one, f"session/{method}")
            assert await hint(three, "updated") == (SESSION, word)
        await call(one, "session/purge")
        await create(one, "session-b", persist="immediate")
        # Of a session that no list shows there is nothing to tell.
        assert await hint(three) == ("session-b", "created")


@WAYS
async def test_a_draft_is_a_hint_once_it_is_a_conversation(site: Site, how: str) -> None:
    async with watching(site, how) as (one, three):
        await create(one)
        await append(one, "e-1")
        await append(one, "e-2", role="assistant")
        assert await hint(three) == (SESSION, "created")


@WAYS
async def test_a_session_that_leaves_the_memory_is_a_hint(site: Site, how: str) -> None:
    async with watching(site, how) as (one, three):
        await create(one, persist="never")
        await append(one, "e-1")
        await call(one, "session/update", persist="immediate")
        assert await hint(three) == (SESSION, "created")


@WAYS
async def test_a_copy_and_a_repair_are_hints(site: Site, how: str) -> None:
    async with watching(site, how) as (one, three):
        await create(one, persist="immediate")
        assert await hint(three) == (SESSION, "created")
        await append(one, "e-1")
        assert await hint(three) == (SESSION, "updated")
        await one.call("session/fork", session_id=SESSION, new_session_id="session-b")
        assert await hint(three, "updated") == ("session-b", "created")
        await to_thread.run_sync(site.spoil_line, 1)
        repaired = await call(one, "session/repair", dry_run=False)
        assert repaired["repaired"]
        assert await hint(three) == (SESSION, "updated")


async def test_what_is_open_at_the_watching_daemon_is_told_once(site: Site) -> None:
    async with watching(site, "rings") as (one, three):
        await create(one, persist="immediate")
        assert await hint(three) == (SESSION, "created")
        await watch(three)
        await append(one, "e-1")
        assert await hint(three) == (SESSION, "updated")
        await call(one, "session/archive")
        assert await hint(three) == (SESSION, "archived")
        shown = await three.call("session/list", archived=True)
        assert [row["archived"] for row in shown["sessions"]] == [True]
        await call(one, "session/delete")
        assert await hint(three) == (SESSION, "deleted")
        assert (await three.call("session/list", archived=None))["sessions"] == []
        await create(one, "session-b", persist="immediate")
        assert await hint(three) == ("session-b", "created")


async def test_a_daemon_whose_lists_nobody_watches_asks_for_no_changes(site: Site) -> None:
    connection = Asked(site)
    async with (
        clients_of(site, "one") as (one,),
        site.daemon("three", connection, FLUSH_SECONDS) as third,
        third.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            # Nothing is watched: once the daemon has begun, and cleared up if the turn is its own, the daemon rests.
            await eventually(lambda: connection.calls["claim"])
            while connection.calls:
                connection.calls.clear()
                await let_pass(20 * FLUSH_SECONDS)
            await create(one, persist="immediate")
            await append(one, "e-1")
            await let_pass(20 * FLUSH_SECONDS)
            assert connection.calls == {}
            # An open session is asked for, and lists are not.
            await create(three, "session-b", persist="immediate")
            await three.call("session/list")
            connection.calls.clear()
            await watch(three)
            await append(one, "e-2")
            await eventually(lambda: connection.calls["heads"] >= 5)
            assert connection.calls["changes"] == 0
            await three.call("catalog/subscribe")
            await eventually(lambda: connection.calls["changes"])
            await three.call("catalog/unsubscribe")
            await three.call("session/unsubscribe", session_id=SESSION)
            for session_id in (SESSION, "session-b"):
                await three.call("session/close", session_id=session_id)
            await let_pass(20 * FLUSH_SECONDS)
            connection.calls.clear()
            await append(one, "e-3")
            await let_pass(20 * FLUSH_SECONDS)
            assert connection.calls == {}


async def test_many_changes_cost_few_questions(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=PAUSE_SECONDS)
    connection = Asked(site)
    async with watching(site, "rings", connection) as (one, three):
        names = [f"session-{number}" for number in range(40)]
        await create(one, "session-of-before", persist="immediate")
        await hint(three)
        connection.calls.clear()
        began = monotonic()
        for name in names:
            await create(one, name, persist="immediate")
            await let_pass(PAUSE_SECONDS / 10)
        told = [await hint(three) for _ in names]
        assert sorted(told) == sorted((name, "created") for name in names)
        # One question may come before the first pause, and one behind the last one.
        assert connection.calls["changes"] <= 2 + (monotonic() - began) / PAUSE_SECONDS
        assert connection.calls["find"] == connection.calls["heads"] == 0


async def test_a_lost_connection_delays_hints(site: Site) -> None:
    class Failing(Wrapped):
        fails = 3

        def changes(self, after: int) -> Any:
            if self.fails:
                self.fails -= 1
                raise OUT_OF_REACH
            return self.inner.changes(after)

    connection = Failing(site.connect())
    connection.fails = 0
    async with watching(site, "polls", connection) as (one, three):
        connection.fails = 3
        await create(one, persist="immediate")
        assert await hint(three) == (SESSION, "created")


async def test_a_purge_erases_words_at_every_daemon(site: Site) -> None:
    async with clients_of(site, "one", "three") as (one, three):
        await create(one, persist="immediate")
        await append(one, "e-1", "a word that must go")
        for wire in (one, three):
            hits = (await wire.call("session/search", query="word"))["hits"]
            assert [hit["session_id"] for hit in hits] == [SESSION]
        await call(one, "session/delete")
        await call(one, "session/purge")
        assert (await three.call("session/list"))["sessions"] == []
        for path in (site.home / "three").rglob("*.sqlite*"):
            assert b"must go" not in path.read_bytes()


async def test_a_list_shows_what_another_daemon_did_to_an_open_session(site: Site) -> None:
    async with clients_of(site, "one", "three", poll_seconds=NEVER) as (one, three):
        await create(one, persist="immediate")
        await watch(three)
        for number in range(1, 4):
            await append(one, f"e-{number}")
            listed = (await three.call("session/list"))["sessions"]
            assert [row["seq"] for row in listed] == [number]
        await call(one, "session/archive")
        assert (await three.call("session/list"))["sessions"] == []
        archived = (await three.call("session/list", archived=True))["sessions"]
        assert [row["archived"] for row in archived] == [True]
        hits = (await three.call("session/search", query="e-3", archived=True))["hits"]
        assert [hit["entry_id"] for hit in hits] == ["e-3"]


async def test_a_list_shows_what_a_scan_found_before_the_actor_did(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The folders of the machine ask for no scan.
    monkeypatch.setattr(FolderScanner, "is_due", lambda _: False)
    connection = Asked(site)
    async with (
        clients_of(site, "one", poll_seconds=NEVER) as (one,),
        site.daemon("three", connection, NEVER) as third,
        third.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            await create(one, persist="immediate")
            await call(three, "session/get")
            await three.call("session/list")
            await three.call("catalog/subscribe")
            await site.watches(three=three)
            await append(one, "e-1")
            asked = connection.calls["changes"]
            await create(three, "session-b", persist="immediate")
            # The flush may let the actor look, too, and tell of what the actor found.
            while await hint(three) != ("session-b", "created"):
                pass
            await eventually(lambda: connection.calls["changes"] > asked)
            await let_pass(5 * FLUSH_SECONDS)
            listed = (await three.call("session/list"))["sessions"]
            assert {row["id"]: row["seq"] for row in listed} == {SESSION: 1, "session-b": 0}


async def test_a_list_is_whole_while_a_session_that_was_deleted_elsewhere_is_opened_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the list stores what has changed.
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=NEVER)
    looks_again, may_find, has_row = threading.Event(), threading.Event(), threading.Event()

    class Late(Wrapped):
        def find(self, session_id: str) -> Head | None:
            found = self.inner.find(session_id)
            if found is None and session_id == SESSION:
                looks_again.set()
                assert may_find.wait(PATIENCE_SECONDS)
            return found

    def row(seen: Snapshot, log: DatabaseLog) -> Stored:
        try:
            return row_in_database(seen, log)
        finally:
            has_row.set()

    connection = Late(site.connect())
    async with beside(site, connection, poll_seconds=NEVER) as (one, three):
        may_find.set()
        await create(one, persist="immediate")
        await create(one, "session-b", persist="immediate")
        await site.watches(one=one)
        await append(one, "e-1")
        await call(three, "session/delete")
        looks_again.clear()
        may_find.clear()
        read = await one.request("session/get", session_id=SESSION)
        await happened(looks_again)
        monkeypatch.setattr("sessiond.service.database.parts.listing.row_in_database", row)
        listed = await one.request("session/list")
        await happened(has_row)
        may_find.set()
        with fail_after(PATIENCE_SECONDS):
            assert [each["id"] for each in (await one.answer(listed))["sessions"]] == ["session-b"]
            with pytest.raises(Refusal, match="session_not_found"):
                await one.answer(read)
