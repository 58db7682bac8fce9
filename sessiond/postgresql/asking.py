"""Calls of a database: each call takes a connection of the pool for itself.

Law: each kind of call has a share of the connections, so that calls of one kind wait for each other alone.
Appends and changes may wait for the row of a session, and bulk (reads, creations) may be long. A look, a beat
or a ring waits for nothing; the connections that the other shares leave over are for these.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import Semaphore
from time import time
from typing import Any, Final, Literal, LiteralString, TypeVar

import psycopg
from psycopg_pool import PoolTimeout

from sessiond.errors import StorageError
from sessiond.limits import (
    DATABASE_ANSWER_SECONDS,
    DATABASE_APPENDS_MAX,
    DATABASE_AWAY_SECONDS,
    DATABASE_BULK_MAX,
    DATABASE_CHANGES_MAX,
    DATABASE_CONNECT_SECONDS,
    DATABASE_CONNECTIONS_MAX,
    DATABASE_LOCK_SECONDS,
    DATABASE_LOOK_SECONDS,
    DATABASE_STATEMENT_SECONDS,
)
from sessiond.postgresql.at_hand import ConnectionAtHand
from sessiond.postgresql.connecting import FAILURES, Failure, Pool, is_unreachable, refusal
from sessiond.postgresql.patience import PatientConnection, Unanswered
from sessiond.postgresql.statements.rows import head_of
from sessiond.service.database.database import Head, Unsent

T = TypeVar("T")

_APPENDING: Final = "append to a session"
"""Words that say in an error what failed."""

Kind = Literal["append", "change", "bulk", "look"]
"""Kind of a call: an append, another change of a row, many lines or rows, or what waits for nothing."""


class _Share:
    """The connections that calls of one kind may take, and how long such a call may take."""

    def __init__(self, places: int, patience: float) -> None:
        self.places: Final = Semaphore(places)
        self.patience: Final = patience


def _shares() -> Mapping[Kind, _Share]:
    """Return the shares; the server ends a statement, or the wait for a row, before patience ends."""
    assert (
        DATABASE_APPENDS_MAX + DATABASE_CHANGES_MAX + DATABASE_BULK_MAX < DATABASE_CONNECTIONS_MAX
    )
    whole = DATABASE_STATEMENT_SECONDS + DATABASE_ANSWER_SECONDS
    return {
        # The connection at hand is that of one more append.
        "append": _Share(DATABASE_APPENDS_MAX - 1, whole),
        "change": _Share(DATABASE_CHANGES_MAX, DATABASE_LOCK_SECONDS + DATABASE_ANSWER_SECONDS),
        "bulk": _Share(DATABASE_BULK_MAX, whole),
        "look": _Share(DATABASE_CONNECTIONS_MAX, DATABASE_LOOK_SECONDS),
    }


class Asking:
    """The calls of one database. Safe in any thread."""

    def __init__(self, name: str, pool: Pool) -> None:
        """Take the database's name for people, and the connections."""
        self.name = name
        self.unreachable_since: float | None = None
        """Seconds since 1970 at which the database ceased to answer."""
        self._pool = pool
        self._shares = _shares()
        self._at_hand = ConnectionAtHand(pool, self._connected, self._ended)

    @contextmanager
    def _telling(self, doing: str) -> Generator[None]:
        """Turn an error of the database into a StorageError; `doing` completes "could not …"."""
        try:
            yield
        except FAILURES as failure:
            raise self._failed(doing, failure) from None
        else:
            self.unreachable_since = None

    def _failed(self, doing: str, failure: Failure) -> StorageError:
        """Return the error of a failed call, and note since when the database is away."""
        if self.unreachable_since is None and is_unreachable(failure):
            self.unreachable_since = time()
        return refusal(doing, self.name, failure)

    @contextmanager
    def _changing(self, doing: str, kind: Kind = "change") -> Generator[PatientConnection]:
        """Yield a connection for a change, or another call that is not made a second time."""
        with self._telling(doing), self._placed(doing, kind) as patience:
            try:
                with self._connection(patience) as connection:
                    yield connection
            except psycopg.OperationalError as failure:
                self._drop_broken(failure)
                raise

    def _appending(self) -> AbstractContextManager[PatientConnection]:
        """Return the context of an append: `_changing`, by the shortest way. Raises StorageError."""
        return self._at_hand if self._at_hand.take() else self._changing(_APPENDING, "append")

    def _connected(self) -> PatientConnection:
        """Return a connection of the pool for appends, which the caller gives back."""
        connection = self._pool.getconn(self._seconds)
        connection.patience = self._shares["append"].patience
        return connection

    def _ended(self, error: BaseException | None) -> None:
        """Take note of the end of an append on the connection at hand. Raises StorageError."""
        if error is None:
            self.unreachable_since = None
        elif isinstance(error, FAILURES):
            if isinstance(error, psycopg.OperationalError):
                self._drop_broken(error)
            raise self._failed(_APPENDING, error) from None

    def _asked(
        self,
        doing: str,
        ask: Callable[[PatientConnection], T],
        kind: Kind = "bulk",
        patience: float | None = None,
    ) -> T:
        """Return the answer to a question, which is asked a second time if the connection ends.

        `patience` is for a question that the server answers sooner than other questions of the kind.
        """
        with self._telling(doing), self._placed(doing, kind) as usual:
            patience = patience or usual
            try:
                with self._connection(patience) as connection:
                    return ask(connection)
            except psycopg.OperationalError as failure:
                if not is_unreachable(failure) or isinstance(failure, PoolTimeout):
                    raise
                self._drop_broken(failure)
                first = failure
            # A server that is silent may be silent for a new connection, too.
            is_silent = isinstance(first, Unanswered)
            try:
                with self._connection(patience, is_silent=is_silent) as connection:
                    return ask(connection)
            except PoolTimeout:
                # The first try was sent, and may take effect.
                raise first from None

    def _row(
        self, doing: str, statement: LiteralString, values: Any, kind: Kind = "look"
    ) -> Head | None:
        """Return the row that a question finds."""
        row = self._asked(doing, lambda each: each.execute(statement, values).fetchone(), kind)
        return None if row is None else head_of(row)

    def _changed(self, doing: str, statement: LiteralString, values: Any) -> Head | None:
        """Return the row that a change leaves."""
        with self._changing(doing) as connection:
            row = connection.execute(statement, values).fetchone()
        return None if row is None else head_of(row)

    @contextmanager
    def _placed(self, doing: str, kind: Kind) -> Generator[float]:
        """Take a place in the share of a kind; yield the patience of its calls. Raises Unsent."""
        share = self._shares[kind]
        if not share.places.acquire(timeout=DATABASE_LOCK_SECONDS):
            text = f"could not {doing} at {self.name}: too many calls wait for rows that are locked"
            raise Unsent(text, errno="EAGAIN", path=self.name, retryable=True)
        try:
            yield share.patience
        finally:
            share.places.release()

    @contextmanager
    def _connection(
        self, patience: float, *, is_silent: bool = False
    ) -> Generator[PatientConnection]:
        """Yield a connection of the pool, which is hardly waited for while the database is away or silent."""
        seconds = DATABASE_AWAY_SECONDS if is_silent else self._seconds
        with self._pool.connection(seconds) as connection:
            connection.patience = patience
            yield connection

    @property
    def _seconds(self) -> float:
        """Seconds for which a call waits for a connection."""
        is_away = self.unreachable_since is not None
        return DATABASE_AWAY_SECONDS if is_away else DATABASE_CONNECT_SECONDS

    def _drop_broken(self, failure: psycopg.OperationalError) -> None:
        """Close the idle connections, which may have ended together with the one that failed."""
        if is_unreachable(failure) and not isinstance(failure, PoolTimeout):
            self._pool.drain()
            self._at_hand.doubt()
