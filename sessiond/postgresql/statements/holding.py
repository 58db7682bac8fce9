"""The row of a session in a transaction that waits for its writer: the port `HeldRow`.

Law: the server ends a hold whose writer does nothing for DATABASE_HOLD_SECONDS, so that a daemon that is
stopped stops no other one for longer. Such a hold has stored nothing, and its writer has lost a race.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from sessiond.errors import StorageError
from sessiond.postgresql.statements.appending import Appended, append_and_commit
from sessiond.postgresql.statements.prepared import Forsaken
from sessiond.service.database.database import Head

if TYPE_CHECKING:
    from sessiond.postgresql.patience import PatientConnection

__all__ = ["HeldSession"]


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

    def append(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> Head | None:
        """Store lines behind a position, and release the row. Raises StorageError."""
        with self._ends:
            try:
                stored = append_and_commit(self._connection, at, lines, digest, sync=sync)
            except Forsaken:
                # Any other end of the connection leaves the outcome unknown.
                return None
        return self._kept(stored)

    def release(self) -> None:
        """Let other writers have the row."""
        with suppress(StorageError), self._ends:
            pass
