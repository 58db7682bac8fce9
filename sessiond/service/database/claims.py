"""Claims on work that the daemons of a database could all do. Blocking.

Law: a claim under which no work goes on is ended, at once or else before this daemon's next claim on the
work. So a claim whose answer was lost keeps no daemon from the work that can reach the database.
"""

from __future__ import annotations

import threading
from time import monotonic

from sessiond.errors import StorageError
from sessiond.limits import CLAIM_SECONDS
from sessiond.service.database.database import SessionDatabase


class DatabaseClaims:
    """The claims of one daemon. Safe in any thread."""

    def __init__(self, database: SessionDatabase) -> None:
        self._database = database
        self._left: dict[tuple[str, str], float] = {}
        """Work and holder of claims that are to end, and the times at which they end by themselves."""

    def claim(self, work: str, holder: str, seconds: float) -> bool:
        """Take a claim, or extend a claim. Raises StorageError."""
        for one, until in list(self._left.items()):
            if one[0] == work:
                self._database.end_claim(*one)
            if one[0] == work or until < monotonic():
                self._left.pop(one, None)
        return self._database.claim(work, holder, seconds)

    def end(self, work: str, holder: str, seconds: float) -> None:
        """End a claim, or else leave the claim to the next call of `claim` for this work."""
        try:
            self._database.end_claim(work, holder)
        except StorageError:
            self._left[work, holder] = monotonic() + seconds


class DatabaseClaim:
    """A claim by the database's clock."""

    def __init__(
        self, claims: DatabaseClaims, work: str, holder: str, seconds: float = CLAIM_SECONDS
    ) -> None:
        """Take the name of the work, and a name that no claim has which this one must not extend."""
        self._seconds = seconds
        self._claims = claims
        self._work = work
        self._holder = holder
        self._is_taken = False
        self._ended = False
        # An extension on its way must not come behind the end.
        self._turn = threading.Lock()

    def take(self) -> bool:
        """Take the claim, or extend the claim. Raises StorageError."""
        with self._turn:
            if self._ended:
                return False
            try:
                self._is_taken = self._claims.claim(self._work, self._holder, self._seconds)
            except StorageError:
                if not self._is_taken:
                    # The database may have the claim, and no work begins.
                    self._claims.end(self._work, self._holder, self._seconds)
                raise
            return self._is_taken

    def end(self) -> None:
        """Let other daemons have the claim."""
        with self._turn:
            self._ended = True
            self._claims.end(self._work, self._holder, self._seconds)
