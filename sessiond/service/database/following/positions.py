"""Rows of open sessions, asked for by many threads at once: one query for all that wait."""

from __future__ import annotations

from threading import Lock

from sessiond.errors import StorageError
from sessiond.limits import DATABASE_SHARED_SECONDS
from sessiond.service.database.database import Head, SessionDatabase


class _Asked:
    """Sessions of one query, and its outcome."""

    def __init__(self) -> None:
        self.asking = Lock()
        self.numbers: set[int] = set()
        self.heads: dict[int, Head] | None = None
        self.failure: StorageError | None = None


class Positions:
    """The rows of one database, as they are. Safe in any thread.

    Law: the query of an answer begins behind the call. Calls that come while a query runs wait for its
    end, and share the next one. Calls that have waited for DATABASE_SHARED_SECONDS go ahead together.
    """

    def __init__(self, database: SessionDatabase) -> None:
        self._database = database
        self._joining = Lock()
        self._turn = Lock()
        self._next = _Asked()

    def head(self, number: int) -> Head | None:
        """Return the row of a session, deleted or not; None for an unknown number. Raises StorageError."""
        with self._joining:
            asked = self._next
            asked.numbers.add(number)
        is_in_turn = self._turn.acquire(timeout=DATABASE_SHARED_SECONDS)
        try:
            with asked.asking:
                if asked.heads is None and asked.failure is None:
                    with self._joining:
                        self._next = _Asked()
                    self._ask(asked)
        finally:
            if is_in_turn:
                self._turn.release()
        if asked.heads is None:
            assert asked.failure is not None, "a query ends with one of both"
            raise asked.failure
        return asked.heads.get(number)

    def _ask(self, asked: _Asked) -> None:
        try:
            heads = self._database.heads(sorted(asked.numbers))
        except StorageError as failure:
            asked.failure = failure
        else:
            asked.heads = {head.number: head for head in heads}
