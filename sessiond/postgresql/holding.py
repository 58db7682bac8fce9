"""The row of a session in a transaction that waits for its writer: the port `HeldRow`.

Law: the server ends a hold whose writer does nothing for DATABASE_HOLD_SECONDS, so that a daemon that is
stopped stops no other one for longer. Such a hold has stored nothing, and its writer has lost a race.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

import psycopg

from sessiond.errors import StorageError
from sessiond.limits import DATABASE_HOLD_SECONDS
from sessiond.postgresql.appending import Appended, append_at, lock_row
from sessiond.postgresql.prepared import command
from sessiond.service.database.database import Head

if TYPE_CHECKING:
    from sessiond.postgresql.patience import PatientConnection

__all__ = ["HeldSession", "begin_hold"]

_BEGIN: Final = (
    f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = {DATABASE_HOLD_SECONDS * 1000}"
).encode()


def begin_hold(connection: PatientConnection, number: int) -> Head | None:
    """Wait in turn for the row of a session, in a transaction that stays open. Raises psycopg.Error."""
    command(connection, _BEGIN)
    return lock_row(connection, number)


class HeldSession:
    """A held row, and the connection that holds the row."""

    def __init__(
        self,
        head: Head,
        connection: PatientConnection,
        ends: ExitStack,
        kept: Callable[[Appended], Head | None],
    ) -> None:
        """Take what ends the use of the connection, and what judges the outcome of an append."""
        self.head = head
        self._connection = connection
        self._ends = ends
        self._kept = kept

    def append(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> Head | None:
        """Store lines behind a position, and release the row. Raises StorageError."""
        with self._ends:
            try:
                stored = append_at(self._connection, at, lines, digest, sync=sync)
            except psycopg.OperationalError:
                if not self._connection.closed:
                    raise
                return None
            command(self._connection, b"COMMIT")
        return self._kept(stored)

    def release(self) -> None:
        """Let other writers have the row."""
        with suppress(StorageError), self._ends:
            pass
