"""Detection of a pooler that shares out the server's processes by transactions, or has none left.

Behind such a pooler each transaction of a connection may run at another process of the server. So what a
connection has set (the schema, the durability of a commit), its prepared statements and its notifications
come and go. A pooler that shares the processes out by connections is no trouble, while it has one left. Else it
takes a connection and leaves the first statement without an answer, which no process of a server does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from psycopg.errors import ProtocolViolation

from sessiond.limits import DATABASE_CONNECTIONS_MAX
from sessiond.postgresql.patience import Unanswered

if TYPE_CHECKING:
    from psycopg import Connection

_SHARES_TRANSACTIONS: Final = (
    (
        "a pooler gives each transaction another connection to the server, which loses the settings of"
        " a connection, and with them the durability of commits"
    ),
    "name the server itself, or let the pooler share by connections (PgBouncer: pool_mode = session)",
)
RAISE_POOL: Final = (
    "let the pooler have more connections to the server (PgBouncer: default_pool_size): each daemon"
    f" takes up to {DATABASE_CONNECTIONS_MAX + 1}"
)
POOL_IS_FULL: Final = "a pooler in front of the server has no connection to the server left"


def trouble_of(
    connection: Connection[Any], connect: Callable[[], Connection[Any]]
) -> tuple[str, str] | None:
    """Return what is wrong with a pooler, and what to do; None if all is well. Raises psycopg.Error.

    The connection is a new one, which is closed if it has no answer.
    """
    try:
        return _SHARES_TRANSACTIONS if _shares_transactions(connection, connect) else None
    except (Unanswered, ProtocolViolation) as failure:
        if isinstance(failure, ProtocolViolation) and "query_wait_timeout" not in str(failure):
            raise
        return POOL_IS_FULL, RAISE_POOL


def _shares_transactions(
    connection: Connection[Any], connect: Callable[[], Connection[Any]]
) -> bool:
    """Return whether a pooler shares the processes out by transactions. Raises psycopg.Error.

    Without any pooler this costs one query: the process that the server named at the start of the connection
    is the one that answers. `connect` makes a second connection, which is closed.
    """
    process = _process_of(connection)
    if process == connection.info.backend_pid:
        return False
    with connect() as second, second.transaction():
        # The process that served the first connection serves this one, or cannot serve the first one again.
        return _process_of(second) == process or _process_of(connection) != process


def _process_of(connection: Connection[Any]) -> int:
    row = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
    assert row is not None, "a query without a table returns one row"
    return int(row[0])
