"""Calls into the database that fail, or lose their answers, while daemons change the same sessions."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pytest
from anyio import fail_after, to_thread

from sessiond.catalog.catalog import Catalog
from sessiond.limits import CLAIM_SECONDS
from sessiond.service.actor.actor import SessionActor
from sessiond.service.database.log import DatabaseLog
from sessiond.service.files.scanning.folder_scanner import FolderScanner
from sessiond.testing.wire import Refusal
from tests.kit.calls import append, call, create, create_to_compact, watch
from tests.kit.clock import let_pass
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually, happened
from tests.kit.sessions import SESSION
from tests.service.compacting import OFFER, SAID
from tests.service.one_database.connections import OUT_OF_REACH, Losing, Wrapped
from tests.service.one_database.site import NEVER, Site, beside, clients_of
from tests.service.test_lists_on_one_database import hint

pytestmark = [pytest.mark.usefixtures("clock")]


async def test_a_session_that_is_opened_behind_a_lost_note_is_spared(site: Site) -> None:
    connection = Losing(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        with fail_after(PATIENCE_SECONDS):
            await create(wire, persist="immediate")
            await append(wire, "e-1")
            await call(wire, "session/close")
            site.age()
            await call(wire, "session/get")
            # The note that the session is closed is there, and its answer is lost.
            connection.behind.add("beat")
            await call(wire, "session/close")
            await eventually(lambda: connection.lost["beat"] > 0)
            connection.answer()
            await call(wire, "session/get")
            cleaning = await to_thread.run_sync(site.connect)
            now_ns = time.time_ns() + site.passed_ns
            deleted = await to_thread.run_sync(cleaning.delete_unused, 1, now_ns, "three")
            assert deleted == []
            await to_thread.run_sync(cleaning.close)


@pytest.mark.parametrize("method", ["session/restore", "session/purge"])
async def test_an_outage_is_not_answered_as_a_session_that_is_there(
    site: Site, method: str
) -> None:
    connection = Losing(site.connect())
    async with beside(site, connection, NEVER) as (one, three):
        await create(one, persist="immediate")
        await watch(one)
        await site.watches(one=one)
        await call(three, "session/delete")
        # The daemon finds that its session is gone, and cannot find out what became of the id.
        connection.before.add("find")
        refusal = await one.refusal(method, session_id=SESSION)
        assert refusal.data["kind"] == "storage_error"
        connection.answer()
        await call(one, method)


async def test_a_scan_that_fails_half_way_is_told_as_far_as_it_came(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, SCAN_BATCH_ROWS=1)
    names, connection = ("session-a", "session-b"), Losing(site.connect())
    async with beside(site, connection, NEVER) as (one, three):
        for name in names:
            await create(three, name, persist="immediate")
        before = await one.call("session/list")
        assert [row["title"] for row in before["sessions"]] == [None, None]
        await one.call("catalog/subscribe")
        for name in names:
            await three.call("session/update", session_id=name, title="new")
        connection.first["pieces"] = 1
        connection.before.add("pieces")
        with pytest.raises(Refusal, match="storage_error"):
            await one.call("session/list")
        connection.answer()
        after = await one.call("session/list")
        # Pages are kept under their revision.
        assert [row["title"] for row in after["sessions"]] == ["new", "new"]
        assert {await hint(one), await hint(one)} == {(name, "updated") for name in names}


async def test_a_change_is_told_that_was_stored_before_a_question_failed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No scan comes before the question.
    monkeypatch.setattr(FolderScanner, "is_due", lambda _: False)
    async with clients_of(site, "one") as (one,):
        await create(one, persist="never")
        await one.call("session/list")
        await one.call("catalog/subscribe")
        await call(one, "session/update", title="new")
        with monkeypatch.context() as outage:
            outage.setattr(Catalog, "page", Mock(side_effect=OUT_OF_REACH))
            with pytest.raises(Refusal, match="storage_error"):
                await one.call("session/list")
        assert await hint(one) == (SESSION, "updated")


async def test_a_list_shows_what_a_failed_look_has_missed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The folders of the machine ask for no scan.
    monkeypatch.setattr(FolderScanner, "is_due", lambda _: False)
    connection = Losing(site.connect())
    async with beside(site, connection, NEVER) as (one, three):
        await create(one, persist="immediate")
        await watch(one)
        await site.watches(one=one)
        await call(three, "session/update", title="new")
        connection.before.add("heads")
        missed = await one.call("session/list")
        assert [row["title"] for row in missed["sessions"]] == [None]
        assert missed["_meta"]["stale_since"]
        connection.answer()
        (row,) = (await one.call("session/list"))["sessions"]
        assert row["title"] == "new"


@pytest.mark.parametrize(("ends", "again"), [(True, "here"), (True, "elsewhere"), (False, "here")])
async def test_a_claim_whose_answer_was_lost_keeps_no_daemon_from_the_work(
    site: Site, *, ends: bool, again: str
) -> None:
    connection = Losing(site.connect())
    async with beside(site, connection, NEVER) as (one, three):
        for wire in (one, three):
            await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(one, "u1", "u2", persist="immediate")
        connection.behind.add("claim")
        if not ends:
            connection.before.add("end_claim")
        refusal = await one.refusal("compact", session_id=SESSION)
        assert refusal.data["kind"] == "storage_error"
        connection.answer()
        wire = one if again == "here" else three
        with fail_after(CLAIM_SECONDS / 2):
            asked = await wire.request("compact", session_id=SESSION)
            await wire.reply(await wire.next_request(), {"summary": SAID})
            assert (await wire.answer(asked))["entry"]["id"]


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_repeated_delete_is_not_told_of_the_session_that_is_restored(
    site: Site, monkeypatch: pytest.MonkeyPatch, *, is_lost: bool
) -> None:
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=0.01)
    connection = Losing(site.connect())
    async with beside(site, connection, NEVER) as (one, three):
        await create(one, persist="immediate")
        await one.call("session/list")
        await one.call("catalog/subscribe")
        if is_lost:
            connection.behind.add("delete")
            await one.refusal("session/delete", session_id=SESSION)
            connection.answer()
        else:
            await call(three, "session/delete")
        assert (await one.call("session/list"))["sessions"] == []
        assert await hint(one) == (SESSION, "deleted")
        await call(one, "session/delete")
        await call(three, "session/restore")
        await one.call("session/list")
        assert await hint(one) == (SESSION, "created")


async def test_a_session_that_a_clean_up_spares_is_not_told_as_deleted(site: Site) -> None:
    async with beside(site, Losing(site.connect()), NEVER) as (one, three):
        await create(three, persist="immediate")
        await append(three, "e-1", role="assistant")
        await watch(three)
        # The note that the session is open comes with the first look.
        await site.watches(three=three)
        await one.call("session/list")
        await one.call("catalog/subscribe")
        await let_pass(0.001)
        cleaned = await one.call("retention/run", max_age_hours=1e-9, dry_run=False)
        assert cleaned["sessions"] == []
        await call(three, "session/update", title="new")
        await one.call("session/list")
        assert await hint(one) == (SESSION, "updated")


async def test_a_list_shows_an_open_session_that_came_back_before_the_next_look(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=0.01)
    connection = Losing(site.connect())
    async with beside(site, connection, NEVER) as (one, three):
        await create(one, persist="immediate")
        await watch(one)
        await site.watches(one=one)
        await one.call("session/list")
        await one.call("catalog/subscribe")
        await call(three, "session/delete")
        # The scan finds the deletion, and the look of the open session does not.
        connection.before.add("heads")
        await create(one, "session-b", persist="immediate")
        assert await hint(one, "created") == (SESSION, "deleted")
        await call(three, "session/restore")
        connection.answer()
        listed = (await one.call("session/list"))["sessions"]
        assert {row["id"] for row in listed} == {SESSION, "session-b"}
        while await hint(one) != (SESSION, "created"):
            pass


@pytest.mark.parametrize("method", ["session/restore", "session/purge"])
async def test_a_request_outlives_the_end_of_the_session_that_it_looks_at(
    site: Site, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    ready = SessionActor.ready

    async def late(actor: SessionActor, *args: Any) -> Any:
        """Go on once the actor has ended, as the task of a request may on a busy machine."""
        opened = await ready(actor, *args)
        await actor.released.wait()
        return opened

    async with clients_of(site, "one") as (one,):
        await create(one, persist="immediate")
        with monkeypatch.context() as busy:
            busy.setattr(SessionActor, "ready", late)
            asked = await one.request(method, session_id=SESSION)
            await call(one, "session/close")
        with pytest.raises(Refusal, match="session_exists"):
            await one.answer(asked)


async def test_a_question_that_comes_through_does_not_take_the_sign_from_an_old_list(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The folders of the machine ask for no scan.
    monkeypatch.setattr(FolderScanner, "is_due", lambda _: False)
    connection, page = Losing(site.connect()), Catalog.page
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        clients_of(site, "three", poll_seconds=NEVER) as (three,),
        daemon.connect() as one,
    ):

        def late(catalog: Catalog, *args: Any) -> Any:
            """Return a page, behind the question of another list whether a scan is due."""
            connection.answer()
            assert daemon.service.live_catalog._scanner.is_due()
            return page(catalog, *args)

        await create(three, persist="immediate")
        await one.call("session/list")
        await call(three, "session/update", title="new")
        # A scan is due, and does not come through.
        connection.first["changes"] = 1
        connection.before.add("changes")
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(Catalog, "page", late)
            missed = await one.call("session/list", limit=7)
        assert [row["title"] for row in missed["sessions"]] == [None]
        assert missed["_meta"]["stale_since"]
        (row,) = (await one.call("session/list"))["sessions"]
        assert row["title"] == "new"


async def test_a_list_waits_for_an_actor_that_is_about_to_take_in_what_its_log_has(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_looked, is_asked = threading.Event(), threading.Event()
    look = DatabaseLog.look

    class Asked(Wrapped):
        """A connection that notes the questions of lists behind the look of an open session."""

        def changes(self, after: int) -> Any:
            if has_looked.is_set():
                is_asked.set()
            return self.inner.changes(after)

    def late(log: DatabaseLog) -> None:
        look(log)
        if log.head.version > 0:
            has_looked.set()
            assert is_asked.wait(PATIENCE_SECONDS)
            time.sleep(0.2)

    monkeypatch.setattr(DatabaseLog, "look", late)
    async with (
        site.daemon("one", Asked(site.connect()), NEVER) as daemon,
        clients_of(site, "three", poll_seconds=NEVER) as (three,),
        daemon.connect() as one,
        daemon.connect() as other,
    ):
        await create(one, persist="immediate")
        await one.call("session/list")
        await call(three, "session/archive")
        asked = await other.request("session/get", session_id=SESSION)
        await happened(has_looked)
        assert (await one.call("session/list"))["sessions"] == []
        assert (await other.answer(asked))["session"]["archived"]


class Slow(Wrapped):
    """A connection that waits behind the finding that a session is not there."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.has_found_none, self.may_go = threading.Event(), threading.Event()

    def find(self, session_id: str) -> Any:
        found = self.inner.find(session_id)
        if found is None and session_id == SESSION and not self.may_go.is_set():
            self.has_found_none.set()
            assert self.may_go.wait(PATIENCE_SECONDS)
        return found


@pytest.mark.parametrize("was_open", [True, False])
async def test_a_request_is_not_answered_from_a_reading_that_began_before_an_answer_elsewhere(
    site: Site, *, was_open: bool
) -> None:
    connection = Slow(site)
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        clients_of(site, "three", poll_seconds=NEVER) as (three,),
        daemon.connect() as one,
        daemon.connect() as other,
    ):
        await create(three, persist="immediate")
        if was_open:
            await watch(one)
            await site.watches(one=one)
        await call(three, "session/delete")
        early = await other.request("session/get", session_id=SESSION)
        await happened(connection.has_found_none)
        await call(three, "session/restore")
        late = await one.request("session/get", session_id=SESSION)
        # The request is in line.
        await one.call("server/ping")
        connection.may_go.set()
        assert (await one.answer(late))["session"]["id"] == SESSION
        with suppress(Refusal):
            await other.answer(early)


class LateFinder(Wrapped):
    """A connection that looks for a session once the test lets it."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.is_asked, self.may_go = threading.Event(), threading.Event()

    def find(self, session_id: str) -> Any:
        self.is_asked.set()
        assert self.may_go.wait(PATIENCE_SECONDS)
        return self.inner.find(session_id)


async def test_subscribers_of_a_session_that_is_restored_at_once_are_told_of_the_deletion(
    site: Site,
) -> None:
    connection = LateFinder(site)
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        clients_of(site, "three", poll_seconds=NEVER) as (three,),
        daemon.connect() as one,
    ):
        await create(three, persist="immediate")
        await append(three, "e-1")
        connection.may_go.set()
        epoch = (await watch(one))["epoch"]
        await site.watches(one=one)
        connection.may_go.clear()
        connection.is_asked.clear()
        await call(three, "session/delete")
        asked = await one.request("session/get", session_id=SESSION)
        # The daemon has seen the deletion, and looks for what is there instead.
        await happened(connection.is_asked)
        await call(three, "session/restore")
        connection.may_go.set()
        assert (await one.answer(asked))["session"]["epoch"] == epoch
        told = [(one["method"], one["params"].get("reason")) for one in one.notifications]
        assert told[-1] == ("session/closed", "deleted")
        assert "session/replaced" not in dict(told)
        # A new subscription goes on.
        again = await watch(one, after={"seq": 1, "epoch": epoch, "entry_id": "e-1"})
        assert again.get("replaced") is None


@pytest.mark.parametrize("method", ["session/create", "session/fork"])
async def test_an_id_that_cannot_be_asked_for_is_not_answered_as_taken(
    site: Site, method: str
) -> None:
    connection = Losing(site.connect())
    async with beside(site, connection, NEVER) as (one, three):
        await create(one, persist="immediate")
        await create(one, "session-b", persist="immediate")
        await watch(one)
        await site.watches(one=one)
        await call(three, "session/delete")
        names = {"session_id": SESSION, "cwd": "/p"}
        if method == "session/fork":
            names = {"session_id": "session-b", "new_session_id": SESSION}
        connection.before.add("heads")
        refusal = await one.refusal(method, **names)
        assert refusal.data["kind"] == "storage_error"
        connection.answer()
        assert (await one.call(method, **names))["session"]["id"] == SESSION
