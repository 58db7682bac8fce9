"""Detection of a pooler that shares out the server's processes by transactions.

Behind such a pooler each transaction of a connection may run at another process of the server. So what a
connection has set (the schema, the durability of a commit), its prepared statements and its notifications
come and go. A pooler that shares the processes out by connections is no trouble.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["ADVICE", "TROUBLE", "shares_transactions"]

TROUBLE = (
    "a pooler gives each transaction another connection to the server, which loses the settings of a"
    " connection, and with them the durability of commits"
)
ADVICE = "name the server itself, or let the pooler share by connections (PgBouncer: pool_mode = session)"


def shares_transactions(
    connection: Connection[Any], connect: Callable[[], Connection[Any]]
) -> bool:
    """Return whether there is such a pooler. Raises psycopg.Error.

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
