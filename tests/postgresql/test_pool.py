"""Connections of a daemon: no call waits for ever, and no kind of call takes the connections of another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from anyio import fail_after, to_thread

from sessiond.errors import StorageError
from sessiond.limits import (
    DATABASE_APPENDS_MAX,
    DATABASE_AWAY_SECONDS,
    DATABASE_BULK_MAX,
    DATABASE_CHANGES_MAX,
    DATABASE_CONNECT_SECONDS,
    DATABASE_LOOK_SECONDS,
)
from sessiond.service.database.database import Head, Unsent, chained
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import append, call, create
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, soon_answered
from tests.kit.sessions import SESSION
from tests.postgresql.cluster import LISTENING, Cluster
from tests.postgresql.site import PostgresqlSite
from tests.postgresql.test_database import is_away
from tests.service.one_database.calls import SAID

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase
    from sessiond.postgresql.statements.sending import SentCall

pytestmark = [pytest.mark.slow, pytest.mark.both_loops, pytest.mark.search]

BUSY = 64
OTHER = "another-session"
# Of the connections that answer requests.
ANSWERING = f"NOT {LISTENING}"
IDLE = f"state = 'idle' AND {ANSWERING}"
WAITING = "wait_event_type = 'Lock'"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let daemons give up a call after a second and a half of silence, and a look after half a second."""
    # The driver is an extra. The modules have the limits once they are loaded.
    import sessiond.postgresql.database  # noqa: F401

    set_limits(
        monkeypatch,
        DATABASE_STATEMENT_SECONDS=1,
        DATABASE_LOCK_SECONDS=1,
        DATABASE_ANSWER_SECONDS=0.5,
        DATABASE_LOOK_SECONDS=0.5,
    )


@asynccontextmanager
async def clients(site: PostgresqlSite, count: int) -> AsyncGenerator[list[Wire]]:
    """Yield connections to one daemon."""
    async with AsyncExitStack() as ends:
        daemon = await ends.enter_async_context(site.daemon("one"))
        wires = [await ends.enter_async_context(daemon.connect()) for _ in range(count)]
        with fail_after(PATIENCE_SECONDS):
            yield wires


@asynccontextmanager
async def held(cluster: Cluster, statement: str) -> AsyncGenerator[None]:
    """Keep a transaction with this statement open during the block."""
    holding = cluster.holding(statement)
    await to_thread.run_sync(holding.__enter__)
    try:
        yield
    finally:
        await to_thread.run_sync(holding.__exit__, None, None, None)


async def ids(wire: Wire, session_id: str = SESSION) -> list[str]:
    page = await wire.call("session/entries", session_id=session_id)
    return [row["entry"]["id"] for row in page["entries"]]


@pytest.mark.real_clock
@pytest.mark.usefixtures("impatient")
async def test_an_append_that_a_stopped_backend_has_is_refused_and_not_stored_later(
    site: PostgresqlSite, cluster: Cluster
) -> None:
    async with clients(site, 2) as (one, two):
        await create(one, persist="immediate")
        await create(two, OTHER, persist="immediate")
        # Until it listens, the connection that hears rings looks like one that answers requests.
        await site.is_heard_by(1)
        # A look may be under way on one of them.
        answering = await to_thread.run_sync(cluster.wait_for_backends, ANSWERING)
        with cluster.stopped(answering):
            refusal = await one.refusal("append", session_id=SESSION, entry=SAID)
            assert (refusal.data["kind"], refusal.data["retryable"]) == ("storage_error", True)
            # The silent connections were dropped, and new ones do the work.
            await append(two, "e-other", session_id=OTHER)
            await append(one, "e-next")
            assert await ids(one) == ["e-next"]
        # The stopped processes find the statements now, and that their client is gone.
        await to_thread.run_sync(cluster.wait_for_end, answering)
        assert await ids(one) == ["e-next"]


@pytest.mark.real_clock
@pytest.mark.usefixtures("impatient")
async def test_a_backend_that_is_stopped_at_a_row_stops_no_other_session(
    site: PostgresqlSite, cluster: Cluster, schema: str
) -> None:
    rows = f"SELECT FROM {schema}.sessions WHERE session_id = '{SESSION}' FOR UPDATE"
    async with clients(site, 2) as (one, two):
        await create(one, persist="immediate")
        await create(two, OTHER, persist="immediate")
        async with held(cluster, rows):
            asked = await one.request("append", session_id=SESSION, entry=SAID)
            at_row = await to_thread.run_sync(cluster.wait_for_backends, WAITING)
            with cluster.stopped(at_row):
                await append(two, "e-other", session_id=OTHER)
                assert await ids(two, OTHER) == ["e-other"]
                with pytest.raises(Refusal) as refused:
                    await one.answer(asked)
        assert (refused.value.data["kind"], refused.value.data["retryable"]) == (
            "storage_error",
            True,
        )
        # Whether the append was stored is not known, and the id tells.
        await to_thread.run_sync(cluster.wait_for_end, at_row)
        await one.call("append", session_id=SESSION, entry=SAID)
        await append(one, "e-2")
        assert await ids(one) == ["e-1", "e-2"]


async def test_appends_that_wait_for_rows_leave_connections_to_all_other_work(
    site: PostgresqlSite, cluster: Cluster, schema: str
) -> None:
    rows = f"SELECT FROM {schema}.sessions WHERE session_id LIKE 'busy-%' FOR UPDATE"
    async with clients(site, BUSY + 1) as (one, *busy):
        await create(one, persist="immediate")
        lease = await call(one, "session/acquire", ttl_ms=60_000)
        for number, wire in enumerate(busy):
            await create(wire, f"busy-{number:04}", persist="immediate")
        async with held(cluster, rows):
            asked = [
                await wire.request("append", session_id=f"busy-{number:04}", entry=SAID)
                for number, wire in enumerate(busy)
            ]
            await to_thread.run_sync(cluster.wait_for_waiters, DATABASE_APPENDS_MAX)
            before = await to_thread.run_sync(beats, cluster, schema)
            assert (await call(one, "session/get"))["session"]["seq"] == 0
            await create(one, OTHER, persist="immediate")
            assert (await one.call("session/get", session_id=OTHER))["session"]["seq"] == 0
            renewed = await call(one, "session/renew", lease_id=lease["lease_id"], ttl_ms=90_000)
            assert renewed["expires_at"] > lease["expires_at"]
            with fail_after(PATIENCE_SECONDS):
                while await to_thread.run_sync(beats, cluster, schema) == before:
                    pass
            waiting = await to_thread.run_sync(cluster.backends, WAITING)
            assert len(waiting) == DATABASE_APPENDS_MAX
        for wire, number in zip(busy, asked, strict=True):
            assert (await wire.answer(number))["entries"][0]["seq"] == 1


def beats(cluster: Cluster, schema: str) -> list[list[str]]:
    return cluster.sql(f"SELECT beats FROM {schema}.daemons")


async def test_a_session_writes_on_one_connection(
    site: PostgresqlSite, cluster: Cluster, schema: str
) -> None:
    async with clients(site, 20) as wires:
        await create(wires[0], persist="immediate")
        async with held(cluster, f"SELECT FROM {schema}.sessions FOR UPDATE"):
            asked: list[int] = []
            for number, wire in enumerate(wires):
                entry = SAID | {"id": f"e-{number}"}
                asked.append(await wire.request("append", session_id=SESSION, entry=entry))
                # Requests are handled in the order in which they come.
                await wire.call("server/ping")
            await to_thread.run_sync(cluster.wait_for_waiters, 1)
            assert len(await to_thread.run_sync(cluster.backends, WAITING)) == 1
        for wire, number in zip(wires, asked, strict=True):
            await wire.answer(number)
        assert len(await call(wires[0], "session/entries", "entries", limit=1000)) == len(wires)


def made(database: PostgresqlDatabase, session_id: str) -> Head:
    head = database.create(session_id, "epoch-1", [[b'{"type":"session"}']], "placed")
    assert head is not None
    return head


def stored(database: PostgresqlDatabase, at: Head) -> Head | None:
    return database.append(at, [b"a line"], chained(at.digest, [b"a line"]), sync=True)


WORK: dict[str, tuple[int, Callable[[PostgresqlDatabase, Head], Any]]] = {
    "append": (DATABASE_APPENDS_MAX, stored),
    "change": (DATABASE_CHANGES_MAX, lambda database, at: database.lease(at, b"[]")),
    "bulk": (DATABASE_BULK_MAX, lambda database, _at: database.document_tokens("state")),
}


@pytest.mark.parametrize("kind", WORK)
def test_work_of_one_kind_leaves_connections_to_the_other_kinds(
    database: PostgresqlDatabase,
    cluster: Cluster,
    schema: str,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Each question waits until the lock is free.
    set_limits(monkeypatch, DATABASE_LOOK_SECONDS=PATIENCE_SECONDS)
    places, work = WORK[kind]
    busy, free = made(database, "busy"), made(database, "free")
    lock = (
        f"LOCK TABLE {schema}.documents"
        if kind == "bulk"
        else f"SELECT FROM {schema}.sessions WHERE session_id = 'busy' FOR UPDATE"
    )
    with cluster.holding(lock), ThreadPoolExecutor(40) as threads:
        begun: list[Future[Any]] = [threads.submit(work, database, busy) for _ in range(40)]
        cluster.wait_for_waiters(places)
        for other, (_, also) in WORK.items():
            if other not in {kind, "bulk"}:
                assert also(database, free) is not None
                (free,) = database.heads([free.number])
        if kind != "bulk":
            assert database.document_tokens("state") == {}
        database.beat("one", [1])
        assert database.beats() == {"one": 1}
        assert len(cluster.backends(WAITING)) == places
        cluster.let_go()
        for one in begun:
            one.result()


def test_the_questions_of_reads_wait_no_longer_than_a_look(
    database: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[float] = []
    connection = database._connection

    def noting(patience: float, **options: bool) -> Any:
        noted.append(patience)
        return connection(patience, **options)

    monkeypatch.setattr(database, "_connection", noting)
    assert database.document("state", "notes", b"another token") is not None
    assert database.document_tokens("state") == {}
    assert database.changes(1).heads == []
    assert noted == [DATABASE_LOOK_SECONDS] * 3


def test_a_call_without_a_place_is_refused_before_it_is_sent(
    cluster: Cluster,
    schema: str,
    connect: Callable[[], PostgresqlDatabase],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sessiond.postgresql.asking  # noqa: F401

    set_limits(monkeypatch, DATABASE_APPENDS_MAX=2)
    database = connect()
    at = made(database, "busy")
    with (
        cluster.holding(f"SELECT FROM {schema}.sessions FOR UPDATE"),
        ThreadPoolExecutor(2) as threads,
    ):
        begun = [threads.submit(stored, database, at) for _ in range(2)]
        cluster.wait_for_waiters(2)
        monkeypatch.setattr("sessiond.postgresql.asking.DATABASE_LOCK_SECONDS", 0.1)
        with pytest.raises(Unsent, match="too many calls wait") as refused:
            stored(database, at)
        assert refused.value.data()["retryable"]
        cluster.let_go()
        # Both were at one position, which one of them has won.
        assert [one.result() is None for one in begun].count(True) == 1


APPENDING = f"{IDLE} AND query LIKE '%INSERT INTO lines%'"


def test_appends_one_after_another_stay_on_one_connection(
    cluster: Cluster, connect: Callable[[], PostgresqlDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sessiond.postgresql.at_hand  # noqa: F401

    # A slow machine may need longer than the connection stays.
    set_limits(monkeypatch, DATABASE_AT_HAND_SECONDS=3600.0)
    database = connect()
    at: Head | None = made(database, "alone")
    with ThreadPoolExecutor(6) as threads:
        # So many calls at once take more connections than one.
        for head in threads.map(lambda number: made(database, f"other-{number}"), range(6)):
            stored(database, head)
    before = cluster.backends(APPENDING)
    for _ in range(3 * len(before)):
        assert at is not None
        at = stored(database, at)
    assert cluster.backends(APPENDING) == before
    assert len(before) == 1
    # The next append does not know that its connection has ended.
    cluster.sql(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {APPENDING}")
    assert at is not None
    with pytest.raises(StorageError, match="ended") as lost:
        stored(database, at)
    assert lost.value.data()["retryable"]
    assert stored(database, at) is not None
    after = cluster.backends(APPENDING)
    assert after != before
    database.close()
    cluster.wait_for_end(after)


def sent(database: PostgresqlDatabase, at: Head, line: bytes = b"a line") -> SentCall | None:
    return database.send(at, [line], chained(at.digest, [line]), sync=True)


def test_an_append_is_sent_where_nothing_is_waited_for(
    cluster: Cluster, connect: Callable[[], PostgresqlDatabase], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sessiond.postgresql.at_hand  # noqa: F401

    set_limits(monkeypatch, DATABASE_AT_HAND_SECONDS=3600.0)
    database = connect()
    one, two = made(database, "one"), made(database, "two")
    # No connection is at hand before the first append.
    assert sent(database, one) is None
    at = stored(database, one)
    assert at is not None
    (backend,) = cluster.backends(APPENDING)
    under_way = sent(database, at)
    assert under_way is not None
    # The connection has one call at a time.
    assert sent(database, two) is None
    assert stored(database, two) is not None
    at = under_way.stored()
    assert at is not None
    assert (at.seq, database.heads([at.number])[0].digest) == (2, at.digest)
    # A position of before is a lost race.
    late = sent(database, one)
    assert late is not None
    assert late.stored() is None
    with cluster.stopped([backend]):
        # More than the sockets of both ends take.
        under_way = sent(database, at, b"x" * 16_000_000)
        assert under_way is not None
    at = under_way.stored()
    assert at is not None
    cluster.sql(f"SELECT pg_terminate_backend({backend}, 5000)")
    under_way = sent(database, at)
    assert under_way is not None
    with pytest.raises(StorageError, match="ended") as lost:
        under_way.stored()
    assert lost.value.data()["retryable"]
    assert stored(database, at) is not None


@pytest.mark.parametrize("is_held", [False, True], ids=["sent", "held"])
def test_an_append_for_which_there_is_no_memory_gives_its_connection_back(
    connect: Callable[[], PostgresqlDatabase], monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    from sessiond.postgresql.statements.prepared import Prepared

    def short_of_memory(*_: Any) -> None:
        raise MemoryError

    set_limits(monkeypatch, DATABASE_AT_HAND_SECONDS=3600.0)
    database = connect()
    at = stored(database, made(database, "a-session"))
    assert at is not None
    line = b"a line"
    held = database.hold(at) if is_held else None
    send = database.send if held is None else held.send
    with monkeypatch.context() as memory:
        memory.setattr(Prepared, "send", short_of_memory)
        under_way = send(at, [line], chained(at.digest, [line]), sync=True)
    assert under_way is not None
    with pytest.raises(MemoryError):
        under_way.stored()
    at = stored(database, at)
    assert at is not None
    # The connection that the append left is at hand again, or another one.
    under_way = sent(database, at)
    assert under_way is not None
    assert under_way.stored() is not None


@pytest.mark.real_clock
@pytest.mark.usefixtures("impatient")
def test_a_stopped_server_costs_each_call_a_moment_and_works_when_it_goes_on(
    own_cluster: Cluster,
) -> None:
    from sessiond.postgresql.database import PostgresqlDatabase

    database = PostgresqlDatabase(own_cluster.dsn(), "sessiond")
    try:
        at = made(database, "a-session")
        everything = own_cluster.processes()
        with own_cluster.stopped(everything):
            for _ in range(3):
                with pytest.raises(StorageError) as refused:
                    stored(database, at)
                assert refused.value.data()["retryable"]
            assert database.unreachable_since is not None
        # The server may still store the lines of a call that was given up, but not behind a fence.
        there = soon_answered(lambda: database.fence(at.number), is_away)
        assert there is not None
        assert database.unreachable_since is None
        assert stored(database, there) is not None
    finally:
        database.close()


QUESTIONS: dict[str, Callable[[PostgresqlDatabase, Head], Any]] = {
    "look": lambda database, at: database.heads([at.number]),
    "change": lambda database, _at: database.reserve("name", 1, 1),
}


@pytest.mark.real_clock
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_question_that_a_stopped_server_has_waits_for_no_new_connection(
    own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    from sessiond.postgresql.database import PostgresqlDatabase

    database = PostgresqlDatabase(own_cluster.dsn(), "sessiond")
    take = database._pool.connection
    waits: list[float] = []

    def noted(seconds: float) -> Any:
        waits.append(seconds)
        return take(seconds)

    monkeypatch.setattr(database._pool, "connection", noted)
    try:
        at = made(database, "a-session")
        waits.clear()
        with (
            own_cluster.stopped(own_cluster.processes()),
            pytest.raises(StorageError, match="does not answer") as refused,
        ):
            QUESTIONS[kind](database, at)
        # The connection of the first try is there. What a second try gets is waited for a moment.
        assert waits in (
            [DATABASE_CONNECT_SECONDS],
            [DATABASE_CONNECT_SECONDS, DATABASE_AWAY_SECONDS],
        )
        # The first try was sent, and may take effect.
        assert not isinstance(refused.value, Unsent)
        assert refused.value.data()["retryable"]
    finally:
        database.close()


def test_a_server_that_is_silent_between_two_answers_does_not_answer(cluster: Cluster) -> None:
    from sessiond.postgresql.patience import PatientConnection, Unanswered
    from sessiond.postgresql.statements.prepared import Prepared, run_together

    # The end of an answer stays at the server until a second long answer.
    long = Prepared(b"long", "SELECT repeat('x', 100000)", ())
    silent = Prepared(b"silent", "SELECT pg_sleep(60)", ())
    with PatientConnection.connect(cluster.dsn(), autocommit=True) as connection:
        for one in (long, silent):
            one.prepare(connection)
        connection.patience = 0.5
        with pytest.raises(Unanswered):
            run_together(connection, (long, ()), (long, ()), (silent, ()))
