"""The connection that hears the rings of other daemons.

Law: any role of the database may listen, so a ring names numbers of sessions and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection, sql

__all__ = ["Bell"]


class Bell:
    """One channel, heard on a connection of its own. One thread at a time waits."""

    def __init__(self, dsn: str, schema: str, settings: Callable[[], dict[str, Any]]) -> None:
        self.channel = schema
        self._dsn = dsn
        self._settings = settings
        self._connection: Connection[Any] | None = None
        self._is_over = False

    def wait(self, seconds: float) -> frozenset[int] | None:
        """Return the sessions that were rung for; None after so many seconds, or for all of them.

        Raises psycopg.Error; the next call connects again.
        """
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connected()
            # What was rung for before this connection listened was not heard.
            return None
        try:
            for ring in connection.notifies(timeout=seconds, stop_after=1):
                if ring.pid != connection.info.backend_pid:
                    return frozenset(map(int, ring.payload.split())) or None
        except psycopg.Error:
            self._connection = None
            with suppress(psycopg.Error):
                connection.close()
            if not self._is_over:
                raise
        return None

    def _connected(self) -> Connection[Any]:
        connection = psycopg.connect(self._dsn, **self._settings())
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
        return connection

    def close(self) -> None:
        """Hear no more rings."""
        self._is_over = True
        if self._connection is not None:
            self._connection.close()
