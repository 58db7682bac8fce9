"""Lists of a daemon that opens sessions, scans and stores while another daemon changes what lists show."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anyio import create_task_group, fail_after

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.query import Query
from sessiond.service.files.scanning.folder_scanner import FolderScanner
from sessiond.service.listing.live_catalog import LiveCatalog
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import append, call, create
from tests.kit.clock import let_pass
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually, happened
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import OUT_OF_REACH, Severed, Wrapped
from tests.service.one_database.site import NEVER, Site, clients_of

pytestmark = [pytest.mark.usefixtures("clock")]

OTHER = "session-2"
TIME_TO_ANSWER = 5.0
"""Seconds for a list that does not wait for what the list has to wait for."""


@pytest.fixture(autouse=True)
def lists_alone_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let changes of lists be stored by lists, and the folders of the machine ask for no scan."""
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=NEVER)
    monkeypatch.setattr(FolderScanner, "is_due", lambda _: False)


class Gate:
    """A point that one call of a thread passes when a test says so, or every call."""

    def __init__(self) -> None:
        self.is_closed = self._holds_all = False
        self.is_reached, self._may_pass = threading.Event(), threading.Event()

    def close(self, *, to_all: bool = False) -> None:
        """Let the next call wait, or all calls from now on."""
        self.is_closed, self._holds_all = True, to_all

    def open(self) -> None:
        """Let what waits go on."""
        self._may_pass.set()

    def __call__(self) -> None:
        if self.is_closed:
            self.is_closed = self._holds_all
            self.is_reached.set()
            assert self._may_pass.wait(PATIENCE_SECONDS)


class Slow(Wrapped):
    """A connection of which one call of a kind waits behind its work, or fails."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.is_away = False
        """True to find no session."""
        self.gates = {name: Gate() for name in ("pieces", "heads", "find", "changes")}

    def _behind(self, name: str, found: Any) -> Any:
        self.gates[name]()
        return found

    def pieces(self, *args: Any, **options: Any) -> Generator[bytes]:
        yield from self._behind("pieces", [*self.inner.pieces(*args, **options)])

    def heads(self, *args: Any) -> Any:
        return self._behind("heads", self.inner.heads(*args))

    def find(self, *args: Any) -> Any:
        if self.is_away:
            raise OUT_OF_REACH
        return self._behind("find", self.inner.find(*args))

    def changes(self, *args: Any) -> Any:
        return self._behind("changes", self.inner.changes(*args))


@asynccontextmanager
async def two_daemons(
    site: Site, connection: Wrapped
) -> AsyncGenerator[tuple[LiveCatalog, Wire, Wire]]:
    """Yield the lists of a daemon with this connection, a client of the daemon, and one of another daemon."""
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        clients_of(site, "three", poll_seconds=NEVER) as (three,),
        daemon.connect() as one,
    ):
        with fail_after(PATIENCE_SECONDS):
            yield daemon.service.live_catalog, one, three


async def listed(wire: Wire) -> list[str]:
    answer = await wire.call("session/list")
    assert "_meta" not in answer
    return [row["id"] for row in answer["sessions"]]


async def listed_beside_a_scan(lists: LiveCatalog, wire: Wire, gate: Gate) -> Any:
    """Return the answer to a list that is asked for while a scan waits at a gate."""
    gate.close()
    async with create_task_group() as tasks:
        tasks.start_soon(lists._look_around)
        await happened(gate.is_reached)
        asked = await wire.request("session/list")
        await let_pass(TIME_TO_ANSWER)
        gate.open()
    return await wire.answer(asked)


async def begin_to_open(connection: Slow, one: Wire, three: Wire) -> int:
    """Make a session, and open the session at one daemon as far as its lines are read; return the request."""
    await create(three, persist="immediate")
    await append(three, "e-1")
    assert await listed(one) == [SESSION]
    connection.gates["pieces"].close()
    # The session looks more than once: each of these looks would bring the change.
    connection.gates["heads"].close(to_all=True)
    read = await one.request("session/get", session_id=SESSION)
    await happened(connection.gates["pieces"].is_reached)
    return read


async def test_an_opening_that_has_read_before_a_change_brings_back_no_old_row(site: Site) -> None:
    connection = Slow(site)
    async with two_daemons(site, connection) as (_, one, three):
        read = await begin_to_open(connection, one, three)
        reading, looking = connection.gates["pieces"], connection.gates["heads"]
        await call(three, "session/archive")
        assert await listed(one) == []
        reading.open()
        await happened(looking.is_reached)
        asked = await one.request("session/list")
        await let_pass(TIME_TO_ANSWER)
        looking.open()
        assert (await one.answer(asked))["sessions"] == []
        assert (await one.answer(read))["session"]["archived"]


@pytest.mark.parametrize("change", ["archived", "another session"])
async def test_no_old_row_is_shown_that_an_opening_stores_behind_the_scan_of_a_list(
    site: Site, change: str
) -> None:
    connection = Slow(site)
    async with two_daemons(site, connection) as (lists, one, three):
        read = await begin_to_open(connection, one, three)
        reading, looking = connection.gates["pieces"], connection.gates["heads"]
        if change == "archived":
            await call(three, "session/archive")
        else:
            # The session that is deleted has more lines than the session that comes.
            await call(three, "session/delete")
            await create(three, persist="immediate", cwd="/later")
        await lists._scanning.acquire()
        asked = await one.request("session/list")
        await eventually(lambda: lists._scanning.statistics().tasks_waiting)
        async with lists._turn:
            lists._scanning.release()
            # The scan of the list has found the change.
            await eventually(lambda: lists._turn.statistics().tasks_waiting)
            reading.open()
            await happened(looking.is_reached)
        await let_pass(TIME_TO_ANSWER)
        looking.open()
        shown = [row["cwd"] for row in (await one.answer(asked))["sessions"]]
        assert shown == ([] if change == "archived" else ["/later"])
        await one.answer(read)


async def test_a_list_waits_for_the_session_that_another_look_has_found_behind(site: Site) -> None:
    connection = Slow(site)
    async with two_daemons(site, connection) as (lists, one, three):
        await create(three, persist="immediate")
        await call(one, "session/get")
        await site.watches(one=one)
        assert await listed(one) == [SESSION]
        await call(three, "session/archive")
        asking = connection.gates["changes"]
        asking.close()
        asked = await one.request("session/list")
        await happened(asking.is_reached)
        # A look as one of many behind changes; the session's own look comes later.
        await lists._look_around()
        asking.open()
        assert (await one.answer(asked))["sessions"] == []


async def test_a_list_waits_for_a_scan_that_has_not_stored_what_it_has_found(site: Site) -> None:
    connection = Slow(site)
    async with two_daemons(site, connection) as (lists, one, three):
        await create(three, persist="immediate")
        await call(three, "session/delete")
        assert await listed(one) == []
        reading, finding = connection.gates["pieces"], connection.gates["find"]
        finding.close()
        restored = await one.request("session/restore", session_id=SESSION)
        await happened(finding.is_reached)
        await call(three, "session/restore")
        # The daemon changes the session itself, so the row is left to a later scan.
        await lists._look_around()
        finding.open()
        with pytest.raises(Refusal):
            await one.answer(restored)
        answer = await listed_beside_a_scan(lists, one, reading)
        assert [row["id"] for row in answer["sessions"]] == [SESSION]


async def test_a_list_looks_again_at_a_session_whose_log_was_closed_before_its_row_was_stored(
    site: Site,
) -> None:
    connection = Slow(site)
    async with two_daemons(site, connection) as (lists, one, three):
        await create(three, persist="immediate")
        await call(one, "session/get")
        await site.watches(one=one)
        assert await listed(one) == [SESSION]
        await call(three, "session/archive")
        reading, looking = connection.gates["pieces"], connection.gates["heads"]
        looking.close()
        asked = await one.request("session/list")
        await happened(looking.is_reached)
        async with lists._turn:
            # The look is answered, and the list waits for its turn to store what the look has found.
            looking.open()
            await call(one, "session/get")
            await call(three, "session/delete")
            await call(three, "session/purge")
            await create(three, persist="immediate", cwd="/later")
            reading.close()
            read = await one.request("session/get", session_id=SESSION)
            await happened(reading.is_reached)
        await let_pass(TIME_TO_ANSWER)
        reading.open()
        assert (await one.answer(read))["session"]["cwd"] == "/later"
        # The session that was archived is in no list.
        assert [row["cwd"] for row in (await one.answer(asked))["sessions"]] == ["/later"]


async def test_a_list_looks_again_at_a_session_that_was_closed_by_an_outage_before_its_turn(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, DATABASE_SHARED_SECONDS=0.01)
    connection = Slow(site)
    async with two_daemons(site, connection) as (lists, one, three):
        for session_id in (SESSION, OTHER):
            await create(three, session_id, persist="immediate")
            await one.call("session/get", session_id=session_id)
        await site.watches(one=one)
        assert sorted(await listed(one)) == sorted([SESSION, OTHER])
        for session_id in (SESSION, OTHER):
            await three.call("session/archive", session_id=session_id)
        looking = connection.gates["heads"]
        looking.close()
        asked = await one.request("session/list")
        await happened(looking.is_reached)
        # One look waits, the other one is answered.
        (looked,) = await eventually(lambda: lists._dirty)
        await three.call("session/delete", session_id=looked.session_id)
        connection.is_away = True
        with pytest.raises(Refusal):
            await one.call("session/get", session_id=looked.session_id)
        await looked.released.wait()
        connection.is_away = False
        looking.open()
        assert (await one.answer(asked))["sessions"] == []


async def test_a_page_is_none_from_before_a_scan_that_has_stored_its_rows(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising, raise_revision = Gate(), Catalog.raise_revision

    def late(catalog: Catalog, revision: int) -> int:
        raising()
        return raise_revision(catalog, revision)

    monkeypatch.setattr(Catalog, "raise_revision", late)
    async with two_daemons(site, Slow(site)) as (lists, one, three):
        await create(three, persist="immediate")
        assert await listed(one) == [SESSION]
        await call(three, "session/archive")
        assert (await listed_beside_a_scan(lists, one, raising))["sessions"] == []


async def test_a_list_whose_look_was_not_answered_says_so_whatever_a_later_look_says(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, reading, page = Severed(site.connect()), Gate(), Catalog.page

    def late(catalog: Catalog, query: Query, *args: Any) -> Any:
        found = page(catalog, query, *args)
        reading()
        return found

    monkeypatch.setattr(Catalog, "page", late)
    async with two_daemons(site, connection) as (lists, one, three):
        await create(three, persist="immediate")
        await three.call("session/list")
        reading.close()
        connection.is_there = False
        asked = await one.request("session/list")
        await happened(reading.is_reached)
        connection.is_there = True
        await lists._look_around()
        reading.open()
        answer = await one.answer(asked)
        assert (answer["sessions"], "_meta" in answer) == ([], True)
        assert await listed(one) == [SESSION]
