"""The connection that hears the rings of other daemons.

Law: any role of the database may listen, so a ring has numbers and nothing else: first the number of the
daemon that rings, which that daemon does not hear, then those of sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from secrets import randbits
from threading import Lock
from time import monotonic
from typing import Any, Final

import psycopg
from psycopg import sql

from sessiond.postgresql.patience import PatientConnection

__all__ = ["Bell"]

_NUMBER_BITS: Final = 62


class Bell:
    """One channel, heard on a connection of its own. One thread at a time waits."""

    def __init__(self, dsn: str, schema: str, settings: Callable[[], dict[str, Any]]) -> None:
        self.channel = schema
        self._own = str(randbits(_NUMBER_BITS))
        self._dsn = dsn
        self._settings = settings
        self._connection: PatientConnection | None = None
        self._is_over = False
        self._guard = Lock()

    def payload(self, numbers: Iterable[int]) -> str:
        """Return the text of a ring for sessions; for all of them without a number."""
        return " ".join([self._own, *map(str, numbers)])

    def wait(self, seconds: float) -> frozenset[int] | None:
        """Return the sessions that were rung for; None after so many seconds, or for all of them.

        Raises psycopg.Error; the next call connects again.
        """
        connection = self._connection
        if connection is None:
            self._listen()
            # What was rung for before this connection listened was not heard.
            return None
        until = monotonic() + seconds
        try:
            while (left := until - monotonic()) > 0:
                heard = self._heard(connection, left)
                if heard:
                    return frozenset(chain.from_iterable(heard)) if all(heard) else None
        except psycopg.Error:
            self._connection = None
            _close(connection)
            if not self._is_over:
                raise
        return None

    def _heard(self, connection: PatientConnection, seconds: float) -> list[frozenset[int]]:
        """Return the sessions of each ring of another daemon, once there is a ring of any daemon.

        All rings that came together are taken: psycopg forgets those that its caller leaves.
        """
        rings = [one.payload.split() for one in connection.notifies(timeout=seconds, stop_after=1)]
        return [frozenset(map(int, numbers)) for ringer, *numbers in rings if ringer != self._own]

    def _listen(self) -> None:
        connection = PatientConnection.connect(self._dsn, **self._settings())
        try:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
        except BaseException:
            _close(connection)
            raise
        with self._guard:
            # The daemon may have ended meanwhile.
            if self._is_over:
                _close(connection)
            else:
                self._connection = connection

    def close(self) -> None:
        """Hear no more rings."""
        with self._guard:
            self._is_over = True
        if self._connection is not None:
            self._connection.close()


def _close(connection: PatientConnection) -> None:
    with suppress(psycopg.Error):
        connection.close()
