"""PostgreSQL under the port: one winner, durable commits, bytes as they are, clear refusals."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from sessiond.errors import StorageError
from sessiond.journal.splitter import whole_lines
from sessiond.limits import (
    DATABASE_HOLD_SECONDS,
    DATABASE_HOLDS_MAX,
    DATABASE_PIECE_LINES,
    DATABASE_START_SECONDS,
)
from sessiond.service.database.database import NO_LINES, NO_TOKEN, Head, HeldRow, Unsent, chained
from tests.kit.patience import soon, soon_answered
from tests.postgresql.cluster import Cluster, programs
from tests.postgresql.flushing import is_flushed
from tests.postgresql.flushing import lazy as lazy
from tests.service.one_database.site import SPOILT_ID

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase

pytestmark = pytest.mark.slow

IDLE_END = "terminating connection due to idle-in-transaction timeout"
"""What a server says of a transaction that it ends because its client does nothing."""

HEADER = b'{"type":"session"}'
AWKWARD = [
    b"\x00\x01",
    b"\xff\xfe no text",
    b"\\x41",
    b'{"a":"\\u0000"}',
    b"",
    b"'; DROP TABLE lines",
]


def made(database: PostgresqlDatabase, lines: list[bytes] | None = None) -> Head:
    head = database.create("a-session", "epoch-1", [lines or [HEADER]], "placed")
    assert head is not None
    return head


def where(head: Head | None) -> Any:
    """Return what a row says of the session, without the time when the row was read."""
    return head and structs.replace(head, now_ns=0, senders=None)


def append(database: PostgresqlDatabase, at: Head, *lines: bytes, sync: bool = True) -> Head | None:
    return database.append(at, lines, chained(at.digest, lines), sync=sync)


def in_turn(held: HeldRow, at: Head, before: bytes, lines: Sequence[bytes]) -> Head | None:
    return held.send(at, lines, chained(before, lines), sync=True).stored()


def stored(database: PostgresqlDatabase, head: Head) -> list[bytes]:
    return whole_lines(b"".join(database.pieces(head.number, 0, head.seq)))


def test_of_many_writers_one_wins_each_position(connect: Callable[[], PostgresqlDatabase]) -> None:
    databases = [connect() for _ in range(2)]
    at = made(databases[0])
    with ThreadPoolExecutor(24) as threads:
        for turn in range(20):
            rivals = [
                threads.submit(append, databases[number % 2], at, b"%d of %d" % (number, turn))
                for number in range(24)
            ]
            (at,) = [one for rival in rivals if (one := rival.result()) is not None]
    lines = stored(databases[1], at)
    assert (len(lines), at.seq) == (21, 20)
    assert chained(NO_LINES, lines) == at.digest
    assert sum(map(len, lines)) + len(lines) == at.size


@pytest.mark.parametrize(
    "change",
    [
        lambda database, at: database.move(at, "archived"),
        lambda database, at: database.delete(at),
        lambda database, at: database.renew(at, "epoch-2", at.digest),
        lambda database, at: database.fence(at.number),
    ],
    ids=["archived", "deleted", "under another epoch", "fenced"],
)
def test_an_append_that_waits_for_the_row_sees_what_changed_meanwhile(
    cluster: Cluster,
    schema: str,
    connect: Callable[[], PostgresqlDatabase],
    change: Callable[[PostgresqlDatabase, Head], Any],
) -> None:
    database = connect()
    at = made(database)
    with cluster.holding(f"SELECT FROM {schema}.sessions FOR UPDATE"), ThreadPoolExecutor(2) as two:
        changed = two.submit(change, database, at)
        cluster.wait_for_waiters(1)
        late = two.submit(append, database, at, b"late")
        cluster.wait_for_waiters(2)
        cluster.let_go()
        assert changed.result() is not None
        assert late.result() is None
    assert [row for row in database.heads([at.number]) if row.seq] == []


def test_an_append_brings_a_draft_to_its_place_in_one_step(database: PostgresqlDatabase) -> None:
    draft = database.create("a-draft", "epoch-1", [[HEADER]], "draft")
    assert draft is not None
    said = append(database, draft, b"said")
    assert said is not None
    assert (said.place, said.version) == ("draft", draft.version)
    answered = append(database, structs.replace(said, place="placed"), b"answered")
    assert answered is not None
    assert (answered.place, answered.version) == ("placed", draft.version + 1)
    assert [where(head) for head in database.heads([draft.number])] == [where(answered)]
    assert append(database, said, b"late") is None
    after = append(database, answered, b"more")
    assert after is not None
    assert (after.place, after.version) == ("placed", answered.version)


def test_a_session_is_made_with_its_leases(database: PostgresqlDatabase) -> None:
    head = database.create("a-session", "epoch-1", [[HEADER]], "placed", b"[1]")
    assert head is not None
    assert head.leases == b"[1]"
    assert [where(there) for there in database.heads([head.number])] == [where(head)]
    replaced = database.replace(head, "epoch-2", [[HEADER]])
    assert replaced is not None
    assert replaced.leases == b""


def test_a_session_comes_out_of_the_trash_once_and_without_leases(
    cluster: Cluster, schema: str, connect: Callable[[], PostgresqlDatabase]
) -> None:
    database = connect()
    leased = database.lease(made(database), b"[]")
    assert leased is not None
    deleted = database.delete(leased)
    assert deleted is not None
    with cluster.holding(f"SELECT FROM {schema}.sessions FOR UPDATE"), ThreadPoolExecutor(2) as two:
        both = [two.submit(database.restore, deleted) for _ in range(2)]
        cluster.wait_for_waiters(2)
        cluster.let_go()
        restored = [one for each in both if (one := each.result()) is not None]
    assert [(one.is_deleted, one.leases) for one in restored] == [(False, b"")]
    assert database.purge("a-session") == 0
    assert database.delete(restored[0]) is not None
    assert database.purge("a-session") == 1
    assert database.purge("a-session") == 0
    assert database.restore(database.heads([leased.number])[0]) is None


def test_lines_come_back_byte_for_byte(database: PostgresqlDatabase) -> None:
    at = made(database, [HEADER, *AWKWARD])
    after = append(database, at, *AWKWARD)
    assert after is not None
    assert stored(database, after) == [HEADER, *AWKWARD, *AWKWARD]


def test_long_lines_are_compressed_in_a_way_that_takes_little_time(
    cluster: Cluster, schema: str, database: PostgresqlDatabase
) -> None:
    assert append(database, made(database), b"x" * 5000) is not None
    kinds = cluster.sql(f"SELECT pg_column_compression(line) FROM {schema}.lines ORDER BY seq")
    assert kinds == [[""], ["lz4"]]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "UTF8"])
def test_the_encoding_of_the_database_does_not_matter(cluster: Cluster, encoding: str) -> None:
    from sessiond.postgresql.database import PostgresqlDatabase

    name = f"in_{encoding.lower()}"
    cluster.sql(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    database = PostgresqlDatabase(cluster.dsn(name), "sessiond")
    try:
        head = database.create(
            "ид-会话", "epoch-1", [[HEADER, *AWKWARD, "会话".encode()]], "placed"
        )
        assert head is not None
        assert where(database.find("ид-会话")) == where(head)
        assert stored(database, head)[-1] == "会话".encode()
    finally:
        database.close()


@pytest.mark.usefixtures("lazy")
def test_a_durable_append_is_flushed_and_another_one_is_not(
    cluster: Cluster, database: PostgresqlDatabase
) -> None:
    at: Head | None = made(database)

    def one(sync: bool) -> None:
        nonlocal at
        assert at is not None
        at = append(database, at, b"a line", sync=sync)

    assert is_flushed(cluster, lambda: one(sync=True))
    assert not is_flushed(cluster, lambda: one(sync=False))
    assert is_flushed(cluster, lambda: one(sync=True))

    def one_and_a_sync() -> None:
        one(sync=False)
        database.sync()

    assert is_flushed(cluster, one_and_a_sync)


def test_a_server_that_does_not_keep_commits_is_refused_for_the_disk(
    cluster: Cluster, database: PostgresqlDatabase
) -> None:
    at = made(database)
    for setting in ("fsync", "full_page_writes"):
        cluster.configure(**{setting: "off"})
        try:
            # Nothing is stored, now or later, so that nothing has to be settled.
            with pytest.raises(Unsent, match="fsync") as refused:
                append(database, at, b"durable")
            assert not refused.value.data()["retryable"]
            after = append(database, at, b"soon", sync=False)
            assert after is not None
            # A lost race is no fault of the server.
            assert append(database, at, b"late", sync=False) is None
            at = after
            with pytest.raises(StorageError, match=setting):
                database.sync()
            entries = [[b'{"type":"session"}', b"an entry"]]
            with pytest.raises(StorageError, match=setting):
                database.create("with-entries", "epoch-2", entries, "placed")
            assert database.find("with-entries") is None
            with pytest.raises(StorageError, match=setting):
                database.replace(at, "epoch-3", entries)
            # Its entries come by appends, which say how durable they are.
            empty = database.create(
                f"empty-{setting}", "epoch-4", [[b'{"type":"session"}']], "placed"
            )
            assert empty is not None
        finally:
            cluster.configure(**{setting: None})
    assert append(database, at, b"durable") is not None


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses between the tries of starts. They pass at once: they alone move the starts' clock."""
    from sessiond.postgresql import database

    made: list[float] = []
    monkeypatch.setattr(database, "sleep", made.append)
    monkeypatch.setattr(database, "monotonic", lambda: sum(made))
    return made


@pytest.mark.parametrize(
    ("dsn", "word"),
    [
        ("no connection string", "connection string"),
        ("postgresql://nobody:S3CRET@127.0.0.1:1/none", "refused"),
        ("{dsn} dbname=missing", 'database "missing" does not exist'),
        ("{dsn} user=missing", 'role "missing" does not exist'),
        ("host=/nowhere password=S3CRET", "No such file"),
        ("{dsn} user=reader", "CREATE"),
        ("{dsn} sslmode=bogus", "invalid sslmode.*correct store"),
        ("{dsn} port=99999", "invalid port.*correct store"),
        ("service=of_nobody", "service.*correct store"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(
    cluster: Cluster, pauses: list[float], dsn: str, word: str
) -> None:
    from sessiond.postgresql.database import PostgresqlDatabase

    if not cluster.sql("SELECT 1 FROM pg_roles WHERE rolname = 'reader'"):
        cluster.sql("CREATE ROLE reader LOGIN")
    with pytest.raises(StorageError, match=word) as refused:
        PostgresqlDatabase(dsn.format(dsn=cluster.dsn()), "of_nobody")
    is_passing = word in {"refused", "No such file"}
    assert (sum(pauses) > DATABASE_START_SECONDS) == is_passing
    assert "S3CRET" not in str(refused.value.data()) + refused.value.message


def test_a_login_without_a_password_is_refused_at_once_with_what_to_do(
    own_cluster: Cluster, pauses: list[float]
) -> None:
    from sessiond.postgresql.database import PostgresqlDatabase

    own_cluster.require_password("member", "S3CRET")
    for dsn in ("user=member", "user=member password=wrong"):
        with pytest.raises(StorageError, match=r"PGPASSWORD.*store_password_command"):
            PostgresqlDatabase(f"{own_cluster.dsn()} {dsn}", "sessiond")
        assert pauses == []


@pytest.mark.usefixtures("pauses")
def test_a_server_that_takes_no_writes_is_refused_with_what_to_do(cluster: Cluster) -> None:
    from sessiond.postgresql.database import PostgresqlDatabase

    cluster.sql(
        "CREATE ROLE looker LOGIN; ALTER ROLE looker SET default_transaction_read_only = on"
    )
    with pytest.raises(StorageError, match=r"read-only.*name the primary in store, too"):
        PostgresqlDatabase(f"{cluster.dsn()} user=looker", "of_nobody")


@pytest.mark.parametrize(
    "table",
    [
        "meta",
        "sessions",
        "lines",
        "daemons",
        "numbers",
        "documents",
        "claims",
        "senders",
        "signals",
    ],
)
def test_a_table_that_is_missing_is_named_at_the_start(
    cluster: Cluster,
    schema: str,
    connect: Callable[[], PostgresqlDatabase],
    pauses: list[float],
    table: str,
) -> None:
    connect()
    cluster.sql(f"DROP TABLE {schema}.{table}")
    with pytest.raises(StorageError, match=f"lacks tables.*: {table}: bring .* back") as refused:
        connect()
    assert not refused.value.data()["retryable"]
    assert pauses == []
    # The start has made nothing in its place.
    assert cluster.sql(f"SELECT to_regclass('{schema}.{table}')") == [[""]]


def test_a_column_that_is_missing_is_no_database_that_is_away(
    cluster: Cluster, schema: str, connect: Callable[[], PostgresqlDatabase]
) -> None:
    connect()
    cluster.sql(f"ALTER TABLE {schema}.sessions DROP COLUMN leases")
    with pytest.raises(StorageError, match="of another version"):
        connect()


def test_tables_without_their_version_are_refused(
    cluster: Cluster, schema: str, connect: Callable[[], PostgresqlDatabase]
) -> None:
    connect()
    cluster.sql(f"DELETE FROM {schema}.meta")
    with pytest.raises(StorageError, match=r"names no version.*back from a backup"):
        connect()


GRANTS = {
    "meta": "SELECT",
    "sessions, numbers, documents": "SELECT, INSERT, UPDATE",
    "lines, signals": "SELECT, INSERT, DELETE",
    "daemons, claims, senders": "SELECT, INSERT, UPDATE, DELETE",
}


def test_a_role_needs_no_more_rights_than_a_start_asks_for(cluster: Cluster, schema: str) -> None:
    from sessiond.postgresql.database import PostgresqlDatabase

    role = f"of_{schema}"
    cluster.sql(f"CREATE ROLE {role} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {role}")

    def connected() -> PostgresqlDatabase:
        return PostgresqlDatabase(f"{cluster.dsn()} user={role}", schema)

    # A role without CREATE on the database makes the tables in a schema of its own.
    connected().close()
    cluster.sql(f"REASSIGN OWNED BY {role} TO tests")
    with pytest.raises(StorageError, match="USAGE on the schema"):
        connected()
    cluster.sql(f"GRANT USAGE ON SCHEMA {schema} TO {role}; SET search_path TO {schema}")
    with pytest.raises(StorageError, match="lacks rights on tables: SELECT on meta"):
        connected()
    for tables, rights in GRANTS.items():
        cluster.sql(f"SET search_path TO {schema}; GRANT {rights} ON {tables} TO {role}")
    database = connected()
    try:
        at = append(database, made(database), b"a line")
        assert at is not None
        assert database.claim("work", "one", 60.0)
        database.beat("one", [at.number])
        assert database.delete(database.heads([at.number])[0]) is not None
        assert database.purge("a-session") == 1
    finally:
        database.close()
    for tables, rights in GRANTS.items():
        table, right = tables.split(", ")[-1], rights.split(", ")[-1]
        cluster.sql(f"REVOKE {right} ON {schema}.{table} FROM {role}")
        with pytest.raises(StorageError, match=f"lacks rights on tables: {right} on {table}"):
            connected()
        cluster.sql(f"GRANT {right} ON {schema}.{table} TO {role}")


def test_a_schema_of_a_later_version_is_refused(
    cluster: Cluster, schema: str, connect: Callable[[], PostgresqlDatabase]
) -> None:
    connect()
    cluster.sql(f"UPDATE {schema}.meta SET version = version + 1")
    with pytest.raises(StorageError, match="install that sessiond here, too; how to go back"):
        connect()


UNDO = (
    "ALTER TABLE lines ALTER COLUMN line SET COMPRESSION default",
    "DROP TABLE senders, signals",
    "ALTER TABLE daemons DROP COLUMN open, DROP COLUMN noted_at",
    "DROP TABLE claims",
    "DROP TABLE documents",
)
"""Statements that lead from each version of the tables to the version before, from the newest on."""


@pytest.mark.parametrize("back", range(1, len(UNDO) + 1))
def test_a_schema_of_an_earlier_version_gets_what_it_lacks(
    cluster: Cluster, schema: str, connect: Callable[[], PostgresqlDatabase], back: int
) -> None:
    made(connect())
    cluster.sql(
        f"SET search_path TO {schema}; {'; '.join(UNDO[:back])};"
        f" UPDATE meta SET version = version - {back}"
    )
    assert cluster.sql(f"SELECT version FROM {schema}.meta") == [[str(len(UNDO) + 1 - back)]]
    with ThreadPoolExecutor(4) as threads:
        again = [one.result() for one in [threads.submit(connect) for _ in range(4)]]
    assert [one.session_id for one in again[0].heads([1])] == ["a-session"]
    assert again[1].claim("work", "one", 60.0)
    assert again[2].put_document("state", "notes", NO_TOKEN, b"t", b"{}")
    again[3].beat("one", [1])
    assert again[3].delete_unused(1, time.time_ns() + 10**12, "two") == []
    assert again[3].delete_unused(1, time.time_ns() + 10**12, "one") == [1]


def test_a_session_that_is_noted_as_open_is_open_elsewhere(
    cluster: Cluster, schema: str, database: PostgresqlDatabase
) -> None:
    at = made(database)
    database.beat("one", [at.number, 999])
    database.beat("three", [at.number])
    assert database.open_elsewhere("two") == ["a-session"]
    database.beat("three", [])
    assert database.open_elsewhere("one") == []
    # A person may have changed the id to bytes that are no text.
    cluster.sql(f"UPDATE {schema}.sessions SET session_id = '{SPOILT_ID}'")
    assert database.open_elsewhere("two") == [SPOILT_ID]
    assert database.delete(at) is not None
    assert database.open_elsewhere("two") == []


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_what_a_role_has_set_for_transactions_does_not_matter(
    cluster: Cluster, connect: Callable[[], PostgresqlDatabase], level: str
) -> None:
    cluster.sql(f"ALTER ROLE tests SET default_transaction_isolation = '{level}'")
    try:
        with ThreadPoolExecutor(8) as threads:
            one, two, *_ = list(threads.map(lambda _: connect(), range(8)))
            at = made(one)
            held = one.hold(at)
            assert held is not None
            rival = threads.submit(append, two, at, b"rival")
            waits = threads.submit(two.hold, at)
            cluster.wait_for_waiters(2)
            in_turn(held, at, at.digest, [b"first"])
            assert rival.result() is None
            late = waits.result()
            assert late is not None
            assert list(late.lines) == [b"first"]
            late.release()
    finally:
        cluster.sql("ALTER ROLE tests RESET default_transaction_isolation")


def test_two_daemons_that_start_at_once_make_one_schema(
    connect: Callable[[], PostgresqlDatabase],
) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = [threads.submit(connect) for _ in range(8)]
        heads = [
            one.result().create(f"session-{at}", "e", [[HEADER]], "placed")
            for at, one in enumerate(found)
        ]
    assert sorted(head.number for head in heads if head) == list(range(1, 9))


def test_a_cut_connection_costs_one_change_at_most_and_no_read(
    cluster: Cluster, database: PostgresqlDatabase
) -> None:
    at = made(database)
    with ThreadPoolExecutor(8) as threads:
        for _ in range(3):
            list(threads.map(lambda _: database.find("a-session"), range(50)))
            cluster.cut_connections()
            assert where(database.find("a-session")) == where(at)
            cluster.cut_connections()
            with pytest.raises(StorageError) as refused:
                append(database, at, b"cut")
            assert refused.value.data()["retryable"]
            after = append(database, at, b"a line")
            assert after is not None
            at = after


def is_away(error: Exception) -> bool:
    """Return whether an error is that of a database that is away."""
    return isinstance(error, StorageError)


def unless_away(append: Callable[[], Head | None]) -> Head | None:
    """Return the row behind an append; None if the database is away."""
    try:
        after = append()
    except StorageError as error:
        if not error.data()["retryable"]:
            raise
        return None
    assert after is not None
    return after


def test_what_was_acknowledged_is_there_when_the_server_comes_back() -> None:
    from sessiond.postgresql.database import PostgresqlDatabase

    found = programs()
    assert found is not None, "the fixture of the other tests skips"
    cluster = Cluster(found)
    cluster.start()
    try:
        database = PostgresqlDatabase(cluster.dsn(), "sessiond")
        first = made(database)
        at: Head | None = first
        for turn in range(3):
            for number in range(20):
                assert at is not None
                at = append(database, at, b"%d of %d" % (number, turn))
            assert at is not None
            cluster.kill()
            # A process of the server may answer until it notices the end of the first one.
            while (after := unless_away(partial(append, database, at, b"late"))) is not None:
                at = after
            cluster.start()
            (there,) = soon_answered(lambda: database.heads([first.number]), is_away)
            assert (there.seq, there.digest) == (at.seq, at.digest)
        database.close()
    finally:
        cluster.end()


def test_a_busy_session_leaves_no_work_for_vacuum_in_any_index(own_cluster: Cluster) -> None:
    from sessiond.postgresql.database import PostgresqlDatabase

    # While an analysis of any table runs, the server keeps the old versions of rows.
    own_cluster.configure(autovacuum="off")
    database = PostgresqlDatabase(own_cluster.dsn(), "sessiond")
    at = made(database)
    for number in range(200):
        moved = append(database, at, b"%d" % number)
        assert moved is not None
        at = moved
    # Statistics of a connection come when the connection ends.
    database.close()
    question = (
        "SELECT n_tup_upd, n_tup_upd - n_tup_hot_upd FROM pg_stat_all_tables"
        " WHERE schemaname = 'sessiond' AND relname = 'sessions'"
    )
    soon(lambda: int(own_cluster.sql(question)[0][0]) >= 201)
    # The one is that of the creation, which shows the row.
    assert own_cluster.sql(question)[0][1] == "1"


def test_a_daemon_does_not_hear_its_own_rings(connect: Callable[[], PostgresqlDatabase]) -> None:
    one, two = connect(), connect()
    for database in (one, two):
        assert database.wait(0.0) is None
    one.ring([1, 2])
    assert two.wait(60.0) == frozenset({1, 2})
    two.ring([3])
    # The own ring came before, and is passed over.
    heard = one.wait(60.0)
    assert (heard or one.wait(60.0)) == frozenset({3})
    two.ring(range(10_000))
    assert one.wait(60.0) is None


def test_a_connection_keeps_its_statements_behind_a_rollback(
    database: PostgresqlDatabase,
) -> None:
    at = made(database)

    def failing() -> Iterator[list[bytes]]:
        yield [HEADER]
        raise RuntimeError

    for number in range(2):
        # The one connection of the pool rolls back, with statements of psycopg's own before.
        with pytest.raises(RuntimeError):
            database.create(f"copy-{number}", "epoch-1", failing(), "placed")
        moved = append(database, at, b"line")
        assert moved is not None
        at = moved
        assert stored(database, at) == [HEADER, *[b"line"] * (number + 1)]


def test_rings_that_come_together_are_all_heard(
    cluster: Cluster, schema: str, connect: Callable[[], PostgresqlDatabase]
) -> None:
    database = connect()
    assert database.wait(0.0) is None
    # Notifications of one transaction come in one packet.
    cluster.sql(f"SELECT pg_notify('{schema}', '1 ' || session) FROM generate_series(7, 9) session")
    assert database.wait(60.0) == frozenset({7, 8, 9})


def test_a_held_row_waits_for_its_writer_and_ends_with_a_writer_that_does_nothing(
    cluster: Cluster, connect: Callable[[], PostgresqlDatabase]
) -> None:
    one, two = connect(), connect()
    at = made(one)
    with ThreadPoolExecutor(1) as threads:
        held = one.hold(at)
        assert held is not None
        assert held.head == structs.replace(at, now_ns=held.head.now_ns, senders=())
        rival = threads.submit(append, two, at, b"rival")
        first = in_turn(held, at, at.digest, [b"first"])
        assert first is not None
        assert rival.result() is None
        # A release without an append lets the others have the row, too.
        released = one.hold(at)
        assert released is not None
        assert list(released.lines) == [b"first"]
        rival = threads.submit(append, two, first, b"second")
        released.release()
        second = rival.result()
        assert second is not None
        # A daemon that is stopped keeps the row for a second, and has lost the race then.
        stopped = one.hold(at)
        assert stopped is not None
        limit = stopped._connection.execute("SHOW idle_in_transaction_session_timeout")
        assert limit.fetchone() == (f"{DATABASE_HOLD_SECONDS}s",)
        ended = cluster.said().count(IDLE_END)
        assert append(two, second, b"third") is not None
        assert cluster.said().count(IDLE_END) == ended + 1
        assert in_turn(stopped, stopped.head, second.digest, [b"late"]) is None
    assert stored(two, two.heads([at.number])[0]) == [HEADER, b"first", b"second", b"third"]
    # The row that was held at an end has no holder left.
    again = one.hold(at)
    assert again is not None
    again.release()


def test_a_turn_without_an_append_leaves_no_transaction_to_the_next_append(
    connect: Callable[[], PostgresqlDatabase],
) -> None:
    one, two = connect(), connect()
    at = made(one)
    # The connection of an append stays for the next one, and for a turn.
    first = append(one, at, b"first")
    assert first is not None
    held = one.hold(first)
    assert held is not None
    held.release()
    second = append(one, first, b"second")
    assert second is not None
    assert one.hold(structs.replace(second, number=2)) is None
    third = append(one, second, b"third")
    assert third is not None
    assert stored(two, two.heads([at.number])[0]) == [HEADER, b"first", b"second", b"third"]


def test_an_append_in_turn_whose_answer_is_lost_is_no_lost_race(
    database: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    from psycopg import OperationalError

    from sessiond.postgresql.patience import PatientConnection

    at = made(database)
    held = database.hold(at)
    assert held is not None
    answers = PatientConnection.answers

    def lose(connection: PatientConnection, count: int) -> Any:
        answers(connection, count)
        connection.close()
        raise OperationalError("cut")

    monkeypatch.setattr(PatientConnection, "answers", lose)
    with pytest.raises(StorageError) as refused:
        in_turn(held, at, at.digest, [b"stored"])
    assert refused.value.data()["retryable"]
    monkeypatch.undo()
    (there,) = database.heads([at.number])
    assert stored(database, there) == [HEADER, b"stored"]


def test_a_row_that_is_waited_for_is_shown_as_it_is_behind_the_wait(
    cluster: Cluster, connect: Callable[[], PostgresqlDatabase]
) -> None:
    one, two = connect(), connect()
    at = made(one)
    with ThreadPoolExecutor(1) as threads:
        first = one.hold(at)
        assert first is not None
        waits = threads.submit(two.hold, at)
        cluster.wait_for_waiters(1)
        in_turn(first, at, at.digest, [b"first", b""])
        second = waits.result()
    assert second is not None
    assert second.head.seq == at.seq + 2
    assert list(second.lines) == [b"first", b""]
    end = in_turn(second, second.head, second.head.digest, [b"2"])
    assert end is not None
    long = [b"%d" % number for number in range(DATABASE_PIECE_LINES + 1)]
    assert append(one, end, *long) is not None
    third = one.hold(at)
    assert third is not None
    # What does not fit is read piece by piece.
    assert list(third.lines) == [b"first", b"", b"2", *long][:DATABASE_PIECE_LINES]
    assert third.head.seq == at.seq + 3 + len(long)
    third.release()


def test_a_daemon_holds_few_rows_at_once(database: PostgresqlDatabase) -> None:
    heads = [
        database.create(f"session-{number}", "epoch-1", [[HEADER]], "placed")
        for number in range(DATABASE_HOLDS_MAX + 1)
    ]
    held = [database.hold(head) for head in heads if head is not None]
    assert [one is None for one in held] == [False] * DATABASE_HOLDS_MAX + [True]
    for one in held:
        if one is not None:
            one.release()
    assert heads[-1] is not None
    last = database.hold(heads[-1])
    assert last is not None
    last.release()


def test_a_bell_that_is_closed_while_it_connects_leaves_no_connection(
    cluster: Cluster, schema: str
) -> None:
    from sessiond.postgresql.bell import Bell

    def settings() -> dict[str, Any]:
        # As when a daemon ends right before its thread has connected.
        bell.close()
        return {"application_name": "a-bell"}

    bell = Bell(cluster.dsn(), schema, settings, lambda _channel, _text: None)
    assert bell.wait(60.0) is None
    left = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'a-bell'"
    soon(lambda: not cluster.sql(left))
