"""Statements of the way of an append, prepared once for each connection.

Law: values and columns travel in PostgreSQL's binary form, as libpq has them. The way through a cursor of
psycopg, which finds out types and forms for each call, costs more than the server's work for one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any, Final

import psycopg
from msgspec import Struct
from psycopg.errors import IdleInTransactionSessionTimeout, error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

    from sessiond.postgresql.patience import PatientConnection

# Object identifiers of types, which are the same in every PostgreSQL (pg_type.dat).
BOOL: Final = 16
BYTEA: Final = 17
INT8: Final = 20
TEXT: Final = 25
BYTEAS: Final = 1001
INT8S: Final = 1016

_BINARY: Final = int(Format.BINARY)
_DONE: Final = (
    int(ExecStatus.TUPLES_OK),
    int(ExecStatus.COMMAND_OK),
    int(ExecStatus.SINGLE_TUPLE),
)
_IS_BAD: Final = int(ConnStatus.BAD)
# PostgreSQL counts microseconds from 2000-01-01.
_EPOCH_US: Final = 946_684_800_000_000
_INT8: Final = Layout(">q")
_INT4: Final = Layout(">i")
# Dimensions, whether nulls are among the items, type of the items, their number, the lowest index.
_ARRAY: Final = Layout(">iiiii")

int8: Final = _INT8.pack
"""Return a number as a value of type INT8."""


class Prepared(Struct, frozen=True):
    """A statement and the types of its values."""

    name: bytes
    text: str
    types: tuple[int, ...]

    def prepare(self, connection: Connection[Any]) -> None:
        """Let a connection know the statement. Raises psycopg.Error."""
        _checked(connection, connection.pgconn.prepare(self.name, self.text.encode(), self.types))

    def run(self, connection: PatientConnection, values: Sequence[bytes]) -> PGresult:
        """Return the rows that the statement gives with these values. Raises psycopg.Error."""
        self.send(connection, values)
        return answered(connection)

    def send(self, connection: PatientConnection, values: Sequence[bytes]) -> None:
        """Let libpq send the statement with these values. Waits for nothing; raises psycopg.Error."""
        formats = (_BINARY,) * len(values)
        connection.pgconn.send_query_prepared(self.name, values, formats, _BINARY)


Forsaken = IdleInTransactionSessionTimeout
"""The server has ended a transaction because its connection said nothing for too long."""

Call = tuple[Prepared, Sequence[bytes]]
"""A statement with the values of one run."""


def run_together(connection: PatientConnection, *calls: Call) -> list[PGresult]:
    """Run statements in one round trip, and return the rows of each. Raises psycopg.Error.

    Behind a statement that fails none is run.
    """
    send_together(connection, *calls)
    return answered_together(connection, len(calls))


def send_together(connection: PatientConnection, *calls: Call) -> None:
    """Let libpq send statements for one round trip. Waits for nothing; raises psycopg.Error."""
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    for one, values in calls:
        one.send(connection, values)
    pgconn.pipeline_sync()


def answered_together(connection: PatientConnection, count: int) -> list[PGresult]:
    """Return the rows of each of the statements that were sent together. Raises psycopg.Error."""
    pgconn = connection.pgconn
    results = connection.answers(count)
    if pgconn.status != _IS_BAD:
        pgconn.exit_pipeline_mode()
    checked = [_checked(connection, result) for result in results]
    if len(checked) < count:
        raise psycopg.OperationalError("the connection ended")
    return checked


def send_for_rows(connection: PatientConnection, call: Call) -> None:
    """Let libpq send a statement whose rows come one by one. Waits for nothing; raises psycopg.Error."""
    one, values = call
    one.send(connection, values)
    connection.pgconn.set_single_row_mode()


def rows_of(connection: PatientConnection, *, waits: bool) -> tuple[list[PGresult], bool]:
    """Return the rows that have come of the statement that was sent for them, and whether all have.

    With `waits` there is one at least, or all have come. Raises psycopg.Error.
    """
    results, have_all = connection.rows(waits=waits)
    checked = [_checked(connection, result) for result in results]
    return [result for result in checked if result.ntuples], have_all


def answered(connection: PatientConnection) -> PGresult:
    """Return the rows of the statement that was sent. Raises psycopg.Error."""
    return _checked(connection, connection.answer())


def _checked(connection: Connection[Any], result: PGresult) -> PGresult:
    if result.status in _DONE:
        return result
    error = error_from_result(result)
    if connection.pgconn.status == _IS_BAD and not isinstance(error, Forsaken):
        raise psycopg.OperationalError("the connection ended")
    raise error


def number(value: bytes | None) -> int:
    """Return the number that a column of type INT8 holds."""
    assert value is not None, "the column is not null"
    found: int = _INT8.unpack(value)[0]
    return found


def nanoseconds(value: bytes) -> int:
    """Return the time that a column of type TIMESTAMPTZ holds, in nanoseconds since 1970."""
    return (number(value) + _EPOCH_US) * 1000


def byteas(items: Sequence[bytes]) -> bytes:
    """Return byte strings as a value of type BYTEAS."""
    return _array(BYTEA, items)


def int8s(items: Sequence[int]) -> bytes:
    """Return numbers as a value of type INT8S."""
    return _array(INT8, [int8(item) for item in items])


def _array(kind: int, items: Sequence[bytes]) -> bytes:
    parts = [_ARRAY.pack(1, 0, kind, len(items), 1)]
    for item in items:
        parts += (_INT4.pack(len(item)), item)
    return b"".join(parts)
