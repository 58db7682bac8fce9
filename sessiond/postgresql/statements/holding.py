"""The row of a session in a transaction that waits for its writer: the port `HeldRow`.

Law: the server ends a hold whose writer does nothing for DATABASE_HOLD_SECONDS, so that a daemon that is
stopped stops no other one for longer. Such a hold has stored nothing, and its writer has lost a race.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from sessiond.errors import StorageError
from sessiond.postgresql.statements.appending import AppendCall, Appended
from sessiond.postgresql.statements.sending import SentCall
from sessiond.service.database.database import Head

if TYPE_CHECKING:
    from sessiond.postgresql.patience import PatientConnection


class HeldSession:
    """A held row, and the connection that holds the row."""

    def __init__(
        self,
        head: Head,
        lines: Sequence[bytes],
        connection: PatientConnection,
        ends: ExitStack,
        kept: Callable[[Appended], Head | None],
    ) -> None:
        """Take what ends the use of the connection, and what judges the outcome of an append."""
        self.head = head
        self.lines = lines
        self._connection = connection
        self._ends = ends
        self._kept = kept

    def send(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> SentCall:
        """Send an append that releases the row, and wait for nothing."""
        call = AppendCall(self._connection, at, lines, digest, sync, commits=True)
        return SentCall(call, self._ends, self._kept)

    def release(self) -> None:
        """Let other writers have the row."""
        with suppress(StorageError), self._ends:
            pass
