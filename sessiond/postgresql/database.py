"""The database of a store on PostgreSQL: its start, its end and its rings."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from time import monotonic, sleep
from typing import Final

from psycopg.errors import ProgramLimitExceeded

from sessiond.limits import DATABASE_RING_SESSIONS_MAX, DATABASE_START_SECONDS
from sessiond.postgresql.bell import Bell
from sessiond.postgresql.company import PostgresqlCompany
from sessiond.postgresql.connecting import (
    FAILURES,
    connection_settings,
    named,
    open_pool,
    refusal,
)
from sessiond.postgresql.daemons import DaemonTables
from sessiond.postgresql.documents import DocumentTable
from sessiond.postgresql.sessions import SessionTable
from sessiond.postgresql.starting import prepared
from sessiond.postgresql.statements.ringing import ring_on
from sessiond.postgresql.trash import TrashTable

_TRY_AGAIN_SECONDS: Final = 0.2


class PostgresqlDatabase(SessionTable, TrashTable, DocumentTable, DaemonTables):
    """The sessions of one schema: the port `SessionDatabase`. Safe in any thread."""

    def __init__(self, dsn: str, schema: str, password: Callable[[], str] | None = None) -> None:
        """Connect, and make the tables that are missing. Raises StorageError.

        `password` is asked for the password of each connection; libpq finds the password otherwise.
        """
        self.name = named(dsn)
        settings = partial(connection_settings, dsn, password)
        until = monotonic() + DATABASE_START_SECONDS
        while (failure := prepared(dsn, self.name, settings(), schema)) is not None:
            if not failure.is_passing or monotonic() > until:
                raise failure.refusal
            # A database that begins as the daemon does needs a moment.
            sleep(_TRY_AGAIN_SECONDS)
        super().__init__(self.name, open_pool(dsn, schema, settings))
        # Signals and presence are read by looks, and written while no row of a session is locked.
        self.company = PostgresqlCompany(partial(self._asked, kind="look"))
        self._bell = Bell(dsn, schema, settings, self._notify)

    def close(self) -> None:
        """Close all connections."""
        self._bell.close()
        self._at_hand.close()
        self._pool.close()

    # -- rings -------------------------------------------------------------------------------

    def ring(self, numbers: Collection[int]) -> None:
        """Tell other daemons that these sessions have changed."""
        self._bell.ring(numbers if len(numbers) <= DATABASE_RING_SESSIONS_MAX else ())

    def _notify(self, channel: str, text: str) -> None:
        # A ring that the server's full queue does not take is one that does not come back.
        with self._changing("ring", "look") as connection, suppress(ProgramLimitExceeded):
            ring_on(connection, channel, text)

    @property
    def notifications(self) -> bool:
        """False if rings do not come through to this daemon."""
        return not self._bell.is_deaf

    def wait(self, seconds: float) -> frozenset[int] | None:
        """Wait until another daemon rings, or so many seconds."""
        try:
            return self._bell.wait(seconds)
        except FAILURES as failure:
            # The database is not away for the connections that answer calls.
            raise refusal("listen", self.name, failure) from None

    def stop_listening(self) -> None:
        """Hear no rings until the next `wait`."""
        self._bell.rest()
