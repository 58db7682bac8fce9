"""Signals and presence on their way from one opening of a session to other daemons.

Law 1: signals reach the database in their order, and before each line that this opening stores behind them.
Law 2: every signal takes an ordinal, also one for which there is no room. So each signal that does not arrive
is a gap, which other daemons count.
"""

from __future__ import annotations

from collections import deque
from threading import Lock

from msgspec import Struct

from sessiond.errors import StorageError
from sessiond.limits import (
    ALL_SIGNALS_WAITING_BYTES_MAX,
    SIGNALS_KEPT_BYTES_MAX,
    SIGNALS_KEPT_MAX,
    SIGNALS_WAITING_BYTES_MAX,
    SIGNALS_WAITING_MAX,
    SIGNALS_WRITE_BYTES,
)
from sessiond.service.database.company_rows import Sender, SenderChange, StoredSignal
from sessiond.service.database.database import SessionDatabase


class WaitingBytes:
    """Bytes of the signals of all sessions that wait for the database. Safe in any thread."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._held = 0

    def take(self, size: int) -> bool:
        """Count more bytes, if there is room for them."""
        with self._guard:
            has_room = self._held + size <= ALL_SIGNALS_WAITING_BYTES_MAX
            self._held += size if has_room else 0
            return has_room

    def release(self, size: int) -> None:
        """Count bytes no more."""
        with self._guard:
            self._held -= size


class _Told(Struct, frozen=True):
    """State of a sender that the database has, or that a write brings there."""

    ordinal: int = 0
    presence: int = 0
    is_open: bool = True


class Outgoing:
    """Signals and presence of one opening. `send`, `show` and `check` wait for nothing."""

    def __init__(
        self,
        database: SessionDatabase,
        number: int,
        daemon: str,
        name: str,
        waiting_bytes: WaitingBytes,
    ) -> None:
        """Take the session's number, this daemon's name, and a name that no other sender has."""
        self.number = number
        self.name = name
        self._database = database
        self._daemon = daemon
        self._waiting_bytes = waiting_bytes
        self._guard = Lock()
        self._writing = Lock()
        """Held during a write; writes of one sender follow each other."""
        self._wanted = _Told()
        self._written = _Told()
        self._was_written = False
        self._seen_ordinal = 0
        self._body = b""
        self.is_present = False
        """True if a connection of this daemon is present."""
        self._waiting: deque[StoredSignal] = deque()
        self._bytes = 0
        self._kept: deque[tuple[int, int]] = deque()
        """Ordinals and sizes of signals that the database keeps."""
        self._kept_bytes = 0
        self._turn = 0
        self.is_settled = True
        """False while something has to be written."""

    # -- what is to be told --------------------------------------------------------------

    def send(self, body: bytes, after_seq: int) -> None:
        """Queue a signal; without room for the signal, other daemons count a gap."""
        with self._guard:
            ordinal = self._wanted.ordinal + 1
            self._want(ordinal=ordinal)
            has_room = (
                len(self._waiting) < SIGNALS_WAITING_MAX
                and self._bytes + len(body) <= SIGNALS_WAITING_BYTES_MAX
                and self._waiting_bytes.take(len(body))
            )
            if has_room:
                self._waiting.append(StoredSignal(self.name, ordinal, after_seq, body))
                self._bytes += len(body)

    def show(self, body: bytes, *, is_present: bool) -> None:
        """Queue the presence of this daemon's connections."""
        with self._guard:
            self._body, self.is_present = body, is_present
            self._want(presence=self._wanted.presence + 1)

    def check(self, seen: Sender | None) -> bool:
        """Compare the sender with its row as it was read; return whether it must be written again.

        A crash of the database empties the table, and a daemon that took this one for dead ends the row.
        """
        with self._guard:
            if seen is None:
                is_lost = self._was_written
            else:
                # A write may have ended since the row was read: its ordinal is no sign then.
                is_lost = (
                    seen.ordinal < self._seen_ordinal
                    or seen.presence < self._written.presence
                    or (self._wanted.is_open and not seen.is_open)
                )
                self._seen_ordinal = seen.ordinal
            if is_lost:
                self._written, self._seen_ordinal = _Told(ordinal=-1, presence=-1), 0
                self._was_written = self.is_settled = False
            return is_lost

    def _want(self, **changes: int) -> None:
        wanted = self._wanted
        self._wanted = _Told(
            changes.get("ordinal", wanted.ordinal),
            changes.get("presence", wanted.presence),
            wanted.is_open,
        )
        self.is_settled = False

    # -- writes, in any thread -------------------------------------------------------------

    def write(self) -> None:
        """Write what is to be told when the call begins. Raises StorageError."""
        goal = self._wanted
        while not self.is_settled:
            with self._writing:
                self._write_some()
            written = self._written
            if written.ordinal >= goal.ordinal and written.presence >= goal.presence:
                return

    def _write_some(self) -> None:
        """Write some of the waiting signals. They wait on after an error, under their ordinals."""
        with self._guard:
            if self.is_settled:
                return
            signals = self._first_waiting()
            is_all = len(signals) == len(self._waiting)
            wanted = self._wanted
            upto = _Told(
                wanted.ordinal if is_all else signals[-1].ordinal, wanted.presence, wanted.is_open
            )
            is_shown = self._written.presence == wanted.presence
            body = None if is_shown else self._body
            self._turn += 1
            turn = self._turn
        kept_from = self._keep(signals)
        sender = Sender(self.name, self._daemon, upto.ordinal, upto.presence, upto.is_open)
        self._database.company.change(
            SenderChange(self.number, sender, turn, body, signals, kept_from)
        )
        with self._guard:
            self._written = upto
            self._was_written = True
            self._drop(upto.ordinal)
            self.is_settled = self._wanted == upto

    def _first_waiting(self) -> list[StoredSignal]:
        """Return the signals of one write."""
        size, found = 0, list[StoredSignal]()
        for one in self._waiting:
            size += len(one.body)
            if found and size > SIGNALS_WRITE_BYTES:
                break
            found.append(one)
        return found

    def _drop(self, upto: int) -> None:
        """Remove the signals up to an ordinal from those that wait."""
        while self._waiting and self._waiting[0].ordinal <= upto:
            size = len(self._waiting.popleft().body)
            self._bytes -= size
            self._waiting_bytes.release(size)

    def _keep(self, signals: list[StoredSignal]) -> int:
        """Count signals that the database keeps; return the first ordinal that stays there."""
        last = self._kept[-1][0] if self._kept else 0
        for one in signals:
            if one.ordinal > last:
                self._kept.append((one.ordinal, len(one.body)))
                self._kept_bytes += len(one.body)
        while len(self._kept) > SIGNALS_KEPT_MAX or self._kept_bytes > SIGNALS_KEPT_BYTES_MAX:
            self._kept_bytes -= self._kept.popleft()[1]
        return self._kept[0][0] if self._kept else 0

    @property
    def waits(self) -> bool:
        """True if signals wait to be written."""
        return bool(self._waiting)

    def write_before_lines(self) -> None:
        """Write all signals that came so far, since lines follow. Raises StorageError.

        A database that takes no signals at all takes lines nevertheless: the signals are dropped, which
        other daemons count.
        """
        if not self.waits:
            return
        try:
            self.write()
        except StorageError as error:
            if error.data().get("retryable", True):
                # The signals may land later. Lines must not be stored before that is settled.
                raise
            self.drop_waiting()

    def drop_waiting(self) -> None:
        """Drop the signals that wait; other daemons count a gap."""
        # A write that runs has taken some of them.
        with self._writing, self._guard:
            self._drop(self._wanted.ordinal)

    def end(self) -> None:
        """Tell that the opening has ended; after an error a later `write` tells that. Waits."""
        with self._guard:
            if not self._wanted.ordinal and not self._wanted.presence:
                return
            self._body, self.is_present = b"", False
            self._wanted = _Told(self._wanted.ordinal, self._wanted.presence + 1, is_open=False)
            self.is_settled = False
        try:
            self.write()
        except StorageError:
            # No signal may come behind the lines of a later opening.
            self.drop_waiting()
