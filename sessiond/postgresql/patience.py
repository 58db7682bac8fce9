"""Connections that do not wait for ever for an answer.

The server's own limits end a statement only while the server's process runs. The kernel of a stopped process
acknowledges packets, so limits of the network do not help, either.
"""

from __future__ import annotations

from select import POLLIN, POLLOUT, poll
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import Connection

from sessiond.limits import DATABASE_CONNECT_SECONDS

if TYPE_CHECKING:
    from psycopg.abc import RV, PQGen
    from psycopg.pq.abc import PGresult

# The time between two wake-ups of a wait, in seconds; that of psycopg.
_INTERVAL: Final = 0.1


class Unanswered(psycopg.OperationalError):
    """The server was silent for too long. The connection is closed."""


class PatientConnection(Connection[Any]):
    """A connection that is given up once the server is silent during a call."""

    patience: float = DATABASE_CONNECT_SECONDS
    """Seconds of silence after which a call ends. The code that takes the connection sets them."""
    _poller: poll | None = None

    def wait(self, gen: PQGen[RV], interval: float = _INTERVAL, timeout: float | None = None) -> RV:
        """Wait for the end of a piece of work with the server. Raises Unanswered, psycopg.Error."""
        if timeout is not None:
            # The wait for notifications, which is silent unless something is told.
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(_limited(gen, self.patience), interval)
        except Unanswered:
            self.close()
            raise

    def answer(self) -> PGresult:
        """Return the result of the statement that libpq was told to send.

        The calls of libpq that send and wait would wait for ever. Raises Unanswered, OperationalError.
        """
        self._send()
        return self._result()

    def answers(self, count: int) -> list[PGresult]:
        """Return the results of so many statements that libpq was told to send, up to their sync.

        There are fewer results if the server ends the connection between. Raises Unanswered,
        OperationalError.
        """
        self._send()
        results: list[PGresult] = []
        try:
            while len(results) < count:
                results.append(self._result())
            self._next()
        except Unanswered:
            raise
        except psycopg.OperationalError:
            # What the server said first says more than the end of the connection.
            if not results:
                raise
        return results

    def notifications(self, seconds: float) -> list[str]:
        """Return the payloads of the notifications that have come; wait for the first one up to so long.

        The way of psycopg costs a busy daemon as much time as the ring itself. Raises OperationalError.
        """
        pgconn = self.pgconn
        until = monotonic() + seconds
        poller = poll()
        poller.register(pgconn.socket, POLLIN)
        while True:
            pgconn.consume_input()
            found: list[str] = []
            while (one := pgconn.notifies()) is not None:
                found.append(one.extra.decode(errors="replace"))
            left = until - monotonic()
            if found or left <= 0:
                return found
            # Another thread may close the connection, which ends no wait.
            poller.poll(min(left, _INTERVAL) * 1000)

    def rows(self, *, waits: bool) -> tuple[list[PGresult], bool]:
        """Return the results that have come for a statement whose rows come one by one, and whether all have.

        With `waits` there is one at least, or all have come. Raises Unanswered, OperationalError.
        """
        self._send()
        if not waits:
            self.pgconn.consume_input()
        results: list[PGresult] = []
        while waits or not self.pgconn.is_busy():
            waits = False
            result = self._next()
            if result is None:
                return results, True
            results.append(result)
        return results, False

    def _send(self) -> None:
        """Send what libpq has not sent yet."""
        pgconn = self.pgconn
        while pgconn.flush():
            # The server may want to be heard before it takes more.
            self._await(POLLIN | POLLOUT)
            pgconn.consume_input()

    def _result(self) -> PGresult:
        """Return the result of the next statement."""
        last = None
        while (result := self._next()) is not None:
            last = result
        assert last is not None, "what was sent has a result"
        return last

    def _next(self) -> PGresult | None:
        """Return what libpq has next; None behind the results of a statement."""
        pgconn = self.pgconn
        while pgconn.is_busy():
            self._await(POLLIN)
            pgconn.consume_input()
        return pgconn.get_result()

    def _await(self, events: int) -> None:
        """Wait until the socket is ready. Raises Unanswered."""
        poller = self._poller
        if poller is None:
            poller = self._poller = poll()
        poller.register(self.pgconn.socket, events)
        if not poller.poll(self.patience * 1000):
            self.close()
            raise Unanswered("no answer")


def _limited(work: PQGen[RV], seconds: float) -> PQGen[RV]:
    """Pass a piece of work on; raise Unanswered once nothing was ready for so many seconds."""
    until: float | None = None
    try:
        wanted = next(work)
        while True:
            ready = yield wanted
            if ready:
                until = None
            elif until is None:
                # The first wake-up without an answer comes after an interval.
                until = monotonic() + seconds - _INTERVAL
            elif monotonic() > until:
                raise Unanswered("no answer")
            wanted = work.send(ready)
    except StopIteration as end:
        result: RV = end.value
        return result
