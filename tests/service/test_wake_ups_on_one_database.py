"""Wake-ups that come while a daemon waits for the database: what they tell of is done behind the wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any

import pytest
from anyio import create_task_group, fail_after, to_thread

from sessiond.service.database import doorbell
from sessiond.service.database.company import courier
from sessiond.service.database.company.courier import Courier
from sessiond.service.database.company.outgoing import Outgoing, WaitingBytes
from sessiond.service.database.doorbell import Doorbell
from sessiond.testing.daemon import Refusal
from sessiond.testing.database import MemoryDatabase
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, cancel, create, refused_answer, watch
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.sessions import SESSION
from tests.service.one_database.calls import told
from tests.service.one_database.connections import Wrapped
from tests.service.one_database.site import NEVER, Site, beside, clients_of

pytestmark = pytest.mark.both_loops

SOON_SECONDS = 10.0
"""Time by which everything here is over, unless it waits for ever."""
LONG_MS = 600_000


class Slow(Wrapped):
    """A connection whose next call of a kind waits until a test lets the call go."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.holds = self.has_noted = False
        self.has_begun = threading.Event()
        self.may_go = threading.Event()

    async def begun(self) -> None:
        """Wait until the call waits."""
        assert await to_thread.run_sync(self.has_begun.wait, SOON_SECONDS)

    def pass_by(self) -> None:
        """Wait, if it is this call's turn."""
        if self.holds:
            self.holds = False
            self.has_begun.set()
            assert self.may_go.wait(PATIENCE_SECONDS)

    def lease(self, *args: Any) -> Any:
        self.pass_by()
        return self.inner.lease(*args)

    def beat(self, daemon: str, open_numbers: Collection[int]) -> None:
        if not open_numbers:
            self.pass_by()
        self.inner.beat(daemon, open_numbers)
        self.has_noted = bool(open_numbers)


async def test_a_session_is_deleted_while_the_end_of_a_lease_is_written(site: Site) -> None:
    connection = Slow(site)
    async with site.daemon("one", connection, NEVER) as daemon, daemon.connect() as one:
        async with daemon.connect() as holder:
            await create(one, persist="immediate")
            await call(holder, "session/acquire", ttl_ms=LONG_MS)
            actor = daemon.service.actor(SESSION)
            connection.holds = True
        try:
            with fail_after(SOON_SECONDS):
                await connection.begun()
                async with create_task_group() as tasks:
                    tasks.start_soon(call, one, "session/delete")
                    await eventually(lambda: daemon.service.find(SESSION) is None)
                    connection.may_go.set()
        finally:
            # A task that has missed its end would keep the daemon from ending, too.
            connection.may_go.set()
            actor.leases_changed()


async def test_a_lease_ends_whose_connection_ends_while_another_end_is_written(
    site: Site,
) -> None:
    connection = Slow(site)
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        clients_of(site, "three", poll_seconds=NEVER) as (three,),
        daemon.connect() as one,
    ):
        await create(one, persist="immediate")
        async with daemon.connect() as second:
            async with daemon.connect() as first:
                await call(first, "session/acquire", ttl_ms=LONG_MS)
                await call(second, "session/acquire", ttl_ms=LONG_MS, head="side")
                connection.holds = True
            await connection.begun()
        await eventually(lambda: len(daemon.clients) == 1)
        connection.may_go.set()
        await until_free(three, "side")


async def test_a_lease_ends_that_is_granted_to_a_cancelled_request(site: Site) -> None:
    connection = Slow(site)
    async with beside(site, connection, poll_seconds=NEVER) as (one, three):
        await create(one, persist="immediate")
        connection.holds = True
        asked = await one.request("session/acquire", session_id=SESSION, ttl_ms=LONG_MS)
        await connection.begun()
        await cancel(one, asked)
        assert await refused_answer(one, asked) == "cancelled"
        connection.may_go.set()
        await until_free(three, "main")


async def until_free(wire: Wire, head: str) -> None:
    """Ask for the lease of a head until it is granted."""
    with fail_after(SOON_SECONDS):
        while True:
            try:
                await call(wire, "session/acquire", ttl_ms=60_000, head=head)
            except Refusal as refusal:
                if refusal.data["kind"] != "lease_held":
                    raise
            else:
                return


async def test_a_session_is_watched_that_is_opened_while_the_last_one_is_taken_from_the_note(
    site: Site,
) -> None:
    connection = Slow(site)
    async with (
        clients_of(site, "one") as (one,),
        # The session is closed between two polls.
        site.daemon("three", connection, 1.0) as daemon,
        daemon.connect() as three,
    ):
        await create(one, persist="immediate")
        await call(three, "session/get")
        await eventually(lambda: connection.has_noted)
        connection.holds = True
        await call(three, "session/close")
        await connection.begun()
        await watch(three)
        connection.may_go.set()
        with fail_after(SOON_SECONDS):
            await append(one, "e-1")
            assert await told(three, 1) == [(1, "e-1")]


class LateClear(threading.Event):
    """An event whose first clearing waits until the event is set once more."""

    sets = 0

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = threading.Event()
        self.may_go = threading.Event()

    def set(self) -> None:
        self.sets += 1
        super().set()
        if self.sets == 2:
            self.may_go.set()

    def clear(self) -> None:
        self.has_begun.set()
        assert self.may_go.wait(PATIENCE_SECONDS)
        super().clear()


def ring(database: MemoryDatabase) -> Callable[[], None]:
    """Ring a bell once; return the function that closes the bell."""
    bell = Doorbell(database.connection())
    bell.ring(1)
    return bell.close


def write(database: MemoryDatabase) -> Callable[[], None]:
    """Write once; return the function that ends the writes."""
    writes = Courier(lambda _: None)
    writes.wake(Outgoing(database.connection(), 1, "a-daemon", "a-sender", WaitingBytes()))
    return writes.close


@pytest.mark.parametrize(("module", "begin"), [(doorbell, ring), (courier, write)])
def test_a_thread_ends_that_is_told_to_as_it_begins_its_work(
    monkeypatch: pytest.MonkeyPatch, module: Any, begin: Callable[[MemoryDatabase], Any]
) -> None:
    made: list[LateClear] = []

    def new() -> LateClear:
        made.append(LateClear())
        return made[-1]

    monkeypatch.setattr(module, "Event", new)
    close = begin(MemoryDatabase(lambda: 0))
    assert made[0].has_begun.wait(PATIENCE_SECONDS)
    # The thread has seen that it is to work, and clears the event once the end is told.
    closing = threading.Thread(target=close, daemon=True)
    closing.start()
    closing.join(SOON_SECONDS)
    assert not closing.is_alive()


class Scarce(threading.Thread):
    """A thread that the system has once the first one was refused."""

    refused = False

    def start(self) -> None:
        if not Scarce.refused:
            Scarce.refused = True
            raise RuntimeError("can't start new thread")
        super().start()


def test_a_bell_without_a_thread_rings_once_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scarce, "refused", False)
    monkeypatch.setattr(doorbell, "Thread", Scarce)
    rung: list[set[int]] = []
    has_rung = threading.Event()

    def note(numbers: set[int]) -> None:
        rung.append(numbers)
        has_rung.set()

    connection: Any = Wrapped(MemoryDatabase(lambda: 0).connection())
    connection.ring = note
    bell = Doorbell(connection)
    # The append that rings is stored: it is not refused for that.
    bell.ring(1)
    bell.ring(1)
    assert has_rung.wait(PATIENCE_SECONDS)
    bell.close()
    assert rung == [{1}]


def test_a_courier_without_a_thread_writes_once_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Scarce, "refused", False)
    monkeypatch.setattr(courier, "Thread", Scarce)
    has_written = threading.Event()
    writes = Courier(lambda _: has_written.set())
    connection = MemoryDatabase(lambda: 0).connection()
    outgoing = Outgoing(connection, 1, "a-daemon", "a-sender", WaitingBytes())
    with pytest.raises(RuntimeError):
        writes.wake(outgoing)
    writes.wake(outgoing)
    assert has_written.wait(PATIENCE_SECONDS)
    writes.close()
