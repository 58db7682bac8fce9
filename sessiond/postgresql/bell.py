"""The connection that hears the rings of other daemons.

Law 1: any role of the database may listen, so a ring has numbers and nothing else: first the number of the
daemon that rings, then those of sessions. Law 2: the own rings of a daemon come back to the daemon, which
passes them over. A ring that does not come back tells that other daemons' rings do not come, either.
Law 3: any role may also ring. A ring that cannot be read is a ring for all sessions.
Law 4: a daemon that no other one hears rings now and then, for law 2: each ring takes time from its appends.
A daemon that begins to listen rings for nothing, and with that tells the lone one that there are two. The
lone one then makes up for the rings that it has spared: one may be for what the other one has just read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from secrets import randbits
from threading import Event, Lock
from time import monotonic
from typing import Any, Final

import psycopg

from sessiond.errors import StorageError
from sessiond.limits import (
    DATABASE_ALONE_SECONDS,
    DATABASE_DEAF_SECONDS,
    DATABASE_HEARD_SECONDS,
    DATABASE_LONE_RING_SECONDS,
)
from sessiond.postgresql.patience import PatientConnection
from sessiond.postgresql.statements.ringing import is_alone_on, listen_on

_NUMBER_BITS: Final = 62
# The number of no session: a ring for it is heard by the daemon that rings, and tells others nothing.
_NOTHING: Final = -1


class Bell:
    """One channel, heard on a connection of its own. One thread at a time waits."""

    def __init__(
        self,
        dsn: str,
        schema: str,
        settings: Callable[[], dict[str, Any]],
        ring: Callable[[str, str], None],
    ) -> None:
        """Take what rings on a channel with a text, over another connection."""
        self.channel = schema
        self.is_deaf = False
        """True if a ring of this daemon did not come back, or no connection of a server that answers can listen."""
        self._ring_on = ring
        self._own = str(randbits(_NUMBER_BITS))
        self._dsn = dsn
        self._settings = settings
        self._connection: PatientConnection | None = None
        self._is_alone = False
        """True if no other daemon heard rings when this one looked, and none has rung since."""
        self._has_spared = False
        """True if a ring was not made since the last time at which another daemon may have heard one."""
        self._alone_until = self._quiet_until = 0.0
        """Times of the next look at that, and of the next ring of a lone daemon, on the monotonic clock."""
        self._rung_at: float | None = None
        """Time at which the first own ring was sent that has not come back, on the monotonic clock."""
        self._heard = 0
        """Number of own rings that came back."""
        self._refused_at: float | None = None
        """Time of the first refusal to listen in a row, on the monotonic clock."""
        self._deaf_until = 0.0
        self._over = Event()
        self._guard = Lock()

    def ring(self, numbers: Iterable[int]) -> None:
        """Ring for sessions; for all of them without a number. Raises what the ringing raises."""
        now = monotonic()
        with self._guard:
            if self._is_alone and now < self._quiet_until:
                self._has_spared = True
                return
        self._quiet_until = now + DATABASE_LONE_RING_SECONDS
        heard = self._heard
        self._ring_on(self.channel, " ".join([self._own, *map(str, numbers)]))
        with self._guard:
            # The ring may have come back before.
            if self._rung_at is None and self._heard == heard:
                self._rung_at = monotonic()

    def wait(self, seconds: float) -> frozenset[int] | None:
        """Return the sessions that were rung for; None after so many seconds, or for all of them.

        Raises psycopg.Error, StorageError, and what the ringing raises; the next call connects again.
        """
        if monotonic() < self._deaf_until:
            self._over.wait(seconds)
            return None
        connection = self._connection
        if connection is None:
            self._begin()
            # What was rung for before this connection listened was not heard.
            return None
        rung, is_all = set[int](), False
        until = monotonic() + seconds
        try:
            self._look_for_others(connection)
            while not (rung or is_all) and (left := until - monotonic()) >= 0:
                for heard in connection.notifications(left):
                    ringer, *numbers = heard.split() or [""]
                    if ringer == self._own:
                        self._hear()
                    else:
                        self._meet()
                        named = _sessions(numbers)
                        rung.update(named)
                        is_all = is_all or not named
                rung.discard(_NOTHING)
        except psycopg.Error:
            self._drop()
            if not self._over.is_set():
                raise
        # Behind rings that were heard, more may wait to be read.
        if not (rung or is_all) and _is_overdue(self._rung_at):
            self._give_up()
        return None if is_all else frozenset(rung) or None

    def _meet(self) -> None:
        """Take note of another daemon, and ring for all sessions if it may lack a ring."""
        with self._guard:
            self._is_alone = False
        if self._has_spared:
            self.ring(())
            self._has_spared = False

    def _hear(self) -> None:
        """Take note of an own ring that came back."""
        with self._guard:
            self._heard += 1
            self._rung_at, self.is_deaf = None, False

    def _look_for_others(self, connection: PatientConnection) -> None:
        """Find out now and then whether other daemons hear rings. Raises psycopg.Error."""
        if (now := monotonic()) >= self._alone_until:
            self._alone_until = now + DATABASE_ALONE_SECONDS
            if is_alone_on(connection, self.channel):
                self._is_alone = True
            else:
                self._meet()

    def _begin(self) -> None:
        """Listen, and ring for nothing, to hear whether rings come; for all sessions if rings were spared."""
        try:
            connection = self._listening()
        except (psycopg.OperationalError, StorageError):
            self._refused()
            raise
        except psycopg.Error:
            # The server, or what is in front of it, knows no LISTEN.
            self._give_up()
            return
        with self._guard:
            # The daemon may have ended meanwhile.
            if self._over.is_set():
                _close(connection)
                return
            self._connection = connection
        self._rung_at = self._refused_at = None
        try:
            self.ring(() if self._has_spared else [_NOTHING])
        except BaseException:
            self._drop()
            raise
        self._has_spared = False

    def _listening(self) -> PatientConnection:
        """Return a connection that listens. Raises psycopg.Error, StorageError."""
        connection = PatientConnection.connect(self._dsn, **self._settings())
        try:
            listen_on(connection, self.channel)
        except BaseException:
            _close(connection)
            raise
        return connection

    def _refused(self) -> None:
        """Take note that no connection can listen, unless the database is away for the other ones, too.

        Raises what the ringing raises.
        """
        try:
            self.ring([_NOTHING])
        except BaseException:
            self._refused_at = None
            raise
        if self._refused_at is None:
            self._refused_at = monotonic()
        elif _is_overdue(self._refused_at):
            self._give_up()

    def _give_up(self) -> None:
        """Hear nothing for a while, then connect again."""
        self.is_deaf = True
        self._drop()
        self._deaf_until = monotonic() + DATABASE_DEAF_SECONDS

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        # What other daemons do is not known without a connection that listens.
        self._is_alone, self._alone_until = False, 0.0
        if connection is not None:
            _close(connection)

    def rest(self) -> None:
        """Listen no more until the next `wait`.

        The server keeps each ring until all that listen have taken the ring.
        """
        self._drop()

    def close(self) -> None:
        """Hear no more rings."""
        with self._guard:
            self._over.set()
            connection = self._connection
        if connection is not None:
            connection.close()


def _sessions(numbers: Sequence[str]) -> frozenset[int]:
    """Return the sessions that a ring names; empty for a ring for all of them, or one that cannot be read."""
    try:
        return frozenset(map(int, numbers))
    except ValueError:
        return frozenset()


def _is_overdue(since: float | None) -> bool:
    return since is not None and monotonic() - since > DATABASE_HEARD_SECONDS


def _close(connection: PatientConnection) -> None:
    with suppress(psycopg.Error):
        connection.close()
