"""The connection at hand: it stays out of the pool, for calls one after another.

The way through the pool costs an append more than all other work on its way to the server.

Law 1: one call at a time has the connection; the calls beside that call take connections of the pool.
Law 2: the pool has the connection back behind a failure, and after DATABASE_AT_HAND_SECONDS, so that the
pool can replace a connection that is broken or old. The pool also ends a transaction that a call leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Final

from psycopg.pq import TransactionStatus

from sessiond.limits import DATABASE_AT_HAND_SECONDS

if TYPE_CHECKING:
    from sessiond.postgresql.connecting import Pool
    from sessiond.postgresql.patience import PatientConnection

_IDLE: Final = int(TransactionStatus.IDLE)


class ConnectionAtHand:
    """A connection for one call at a time. It is the context of a call behind `take`."""

    def __init__(
        self,
        pool: Pool,
        connect: Callable[[], PatientConnection],
        ended: Callable[[BaseException | None], None],
    ) -> None:
        """Take what gets a connection of the pool, and what is told how each call ended.

        `ended` raises what the caller is to get in place of its argument.
        """
        self._pool = pool
        self._connect = connect
        self._ended = ended
        self._guard = Lock()
        """Held by the call that has the connection."""
        self._connection: PatientConnection | None = None
        self._until = 0.0
        """Time on the monotonic clock at which the connection goes back to the pool."""
        self._is_over = False
        self.taken = _Taken(self)
        """Context of a call that has taken the connection by `take_ready`; one for all, since each append needs one."""

    def take(self) -> bool:
        """Take the connection for the block that follows; return False while another call has it."""
        return not self._is_over and self._guard.acquire(blocking=False)

    def take_ready(self) -> PatientConnection | None:
        """Take the connection and return it, if that waits for nothing; else None. The end of `taken` follows."""
        if not self.take():
            return None
        if self._connection is None or monotonic() > self._until:
            self._guard.release()
            return None
        return self._connection

    def __enter__(self) -> PatientConnection:
        """Return the connection that was taken. Raises StorageError."""
        now = monotonic()
        if now > self._until:
            self._return()
        connection = self._connection
        if connection is None:
            try:
                connection = self._connect()
            except BaseException as error:
                self._guard.release()
                self._ended(error)
                raise
            self._connection, self._until = connection, now + DATABASE_AT_HAND_SECONDS
        return connection

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the connection to the next call, or to the pool behind a failure. Raises StorageError."""
        connection = self._connection
        is_idle = connection is not None and connection.pgconn.transaction_status == _IDLE
        if error is not None or self._is_over or not is_idle:
            self._return()
        self._guard.release()
        self._ended(error)

    def doubt(self) -> None:
        """Let the next call take another connection: connections of the pool have ended."""
        self._until = 0.0

    def close(self) -> None:
        """Leave the connection to the pool for good, once no call has it. Waits for nothing."""
        self._is_over = True
        if self._guard.acquire(blocking=False):
            self._return()
            self._guard.release()

    def _return(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.putconn(connection)


class _Taken:
    """Context whose end is the end of a call that has the connection already."""

    def __init__(self, at_hand: ConnectionAtHand) -> None:
        self._at_hand = at_hand

    def __enter__(self) -> None:
        """Do nothing: the call has the connection."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the call. Raises StorageError."""
        self._at_hand.__exit__(kind, error, trace)
