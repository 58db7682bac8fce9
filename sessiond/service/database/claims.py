"""Claims on work that the daemons of a database could all do. Blocking."""

from __future__ import annotations

import threading
from contextlib import suppress

from sessiond.errors import StorageError
from sessiond.limits import CLAIM_SECONDS
from sessiond.service.database.database import SessionDatabase

__all__ = ["DatabaseClaim"]


class DatabaseClaim:
    """A claim by the database's clock."""

    def __init__(
        self, database: SessionDatabase, work: str, holder: str, seconds: float = CLAIM_SECONDS
    ) -> None:
        """Take the name of the work, and a name that no claim has which this one must not extend."""
        self._seconds = seconds
        self._database = database
        self._work = work
        self._holder = holder
        self._ended = False
        # An extension on its way must not come behind the end.
        self._turn = threading.Lock()

    def take(self) -> bool:
        """Take the claim, or extend the claim. Raises StorageError."""
        with self._turn:
            return not self._ended and self._database.claim(self._work, self._holder, self._seconds)

    def end(self) -> None:
        """Let other daemons have the claim."""
        with self._turn, suppress(StorageError):
            self._ended = True
            self._database.end_claim(self._work, self._holder)
