"""Lines that are read from PostgreSQL: in pieces of a bounded size, in order, and ahead of their reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessiond.journal.splitter import whole_lines
from sessiond.limits import DATABASE_BULK_MAX, DATABASE_PIECE_BYTES, DATABASE_PIECE_LINES
from sessiond.service.database.database import Head
from tests.postgresql.cluster import Cluster
from tests.postgresql.test_database import AWKWARD, HEADER, append, made, stored, where

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase

pytestmark = pytest.mark.slow

READING = "sessiond.postgresql.statements.reading"


def test_long_lines_are_read_a_piece_at_a_time(database: PostgresqlDatabase) -> None:
    long = bytes(range(256)).replace(b"\n", b"") * (DATABASE_PIECE_BYTES // 500)
    at = append(database, made(database), *[long] * 6, b"x" * (32 << 20), b"last")
    assert at is not None
    pieces = [whole_lines(piece) for piece in database.pieces(at.number, 0, at.seq)]
    assert [line for piece in pieces for line in piece][-1] == b"last"
    assert max(sum(map(len, piece[:-1])) for piece in pieces) <= DATABASE_PIECE_BYTES
    assert len(pieces) > 2


def read_ahead(database: PostgresqlDatabase, at: Head) -> list[bytes]:
    """Return the lines of a session, each piece as the server has sent a row."""
    return [*database.pieces(at.number, 0, at.seq, ahead=True)]


def test_lines_of_a_row_are_as_many_as_the_average_line_lets(database: PostgresqlDatabase) -> None:
    lines = [b"%d %b" % (number, b"x" * 1000) for number in range(1000)]
    at = append(database, made(database), *lines)
    assert at is not None
    pieces = read_ahead(database, at)
    assert whole_lines(b"".join(pieces)) == [HEADER, *lines]
    assert 6 < len(pieces) < 12
    assert max(map(len, pieces)) < 2 * min(map(len, pieces[:-1]))


@pytest.mark.parametrize("count", [1, 3, 7, 2000])
def test_lines_come_in_order_over_the_ends_of_statements(
    database: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(f"{READING}.DATABASE_AHEAD_LINES", count)
    lines = [b"%d" % number for number in range(500)]
    at = append(database, made(database), *lines, *AWKWARD)
    assert at is not None
    assert whole_lines(b"".join(read_ahead(database, at))) == [HEADER, *lines, *AWKWARD]


@pytest.mark.parametrize("first_long", [0, 300, 999])
def test_a_row_that_would_be_too_long_ends_the_reading_ahead(
    database: PostgresqlDatabase, monkeypatch: pytest.MonkeyPatch, first_long: int
) -> None:
    monkeypatch.setattr(f"{READING}.LINE_BYTES_MAX", 100_000)
    monkeypatch.setattr(f"{READING}.DATABASE_PIECE_BYTES", 60_000)
    lines = [b"%d" % number for number in range(1000)]
    lines[first_long:first_long] = [b"x" * 50_000] * 3
    at = append(database, made(database), *lines)
    assert at is not None
    pieces = read_ahead(database, at)
    assert whole_lines(b"".join(pieces)) == [HEADER, *lines]
    assert max(map(len, pieces)) < 120_000
    assert where(database.find("a-session")) == where(at)


def test_lines_around_a_row_that_was_removed_by_hand_are_read(
    cluster: Cluster, schema: str, database: PostgresqlDatabase
) -> None:
    lines = [b"%d" % number for number in range(1000)]
    at = append(database, made(database), *lines)
    assert at is not None
    cluster.sql(f"DELETE FROM {schema}.lines WHERE seq BETWEEN 200 AND 600")
    assert whole_lines(b"".join(read_ahead(database, at))) == [HEADER, *lines[:199], *lines[600:]]


def a_long_session(database: PostgresqlDatabase) -> Head:
    """Store more than a socket takes in and a piece has."""
    lines = [b"%d %b" % (number, b"x" * 5000) for number in range(2 * DATABASE_PIECE_LINES)]
    at = append(database, made(database), *lines)
    assert at is not None
    return at


@pytest.mark.parametrize("end", [None, "pg_terminate_backend", "pg_cancel_backend"])
def test_a_server_reads_while_the_caller_works_on_a_piece(
    cluster: Cluster,
    database: PostgresqlDatabase,
    monkeypatch: pytest.MonkeyPatch,
    end: str | None,
) -> None:
    at = a_long_session(database)
    monkeypatch.setattr(f"{READING}.DATABASE_AHEAD_LINES", 1000)
    pieces = database.pieces(at.number, 0, at.seq, ahead=True)
    read = next(pieces)
    (backend,) = cluster.wait_for_backends("state = 'active'")
    if end is not None:
        cluster.sql(f"SELECT {end}({backend})")
    assert whole_lines(read + b"".join(pieces)) == stored(database, at)
    assert cluster.backends("state = 'active'") == []


def test_a_reader_that_stops_leaves_no_call_on_its_connection(
    cluster: Cluster, database: PostgresqlDatabase
) -> None:
    at = a_long_session(database)
    for _ in range(DATABASE_BULK_MAX + 1):
        pieces = database.pieces(at.number, 0, at.seq, ahead=True)
        next(pieces)
        pieces.close()
        assert where(database.find("a-session")) == where(at)
