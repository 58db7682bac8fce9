"""Signals and senders of a database in memory, which a crash of its server empties."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, structs

from sessiond.limits import SENDER_KEPT_SECONDS, SIGNALS_KEPT_SECONDS, SIGNALS_READ_BYTES_MAX
from sessiond.service.database.company_rows import (
    Sender,
    SenderChange,
    StoredPresence,
    StoredSignal,
)

__all__ = ["MemoryCompany"]


class _Row(Struct):
    """The row of a sender."""

    sender: Sender
    turn: int
    body: bytes
    changed_ns: int


class MemoryCompany:
    """The tables of one place: the port `CompanyRows`. Safe in any thread."""

    def __init__(self, now_ns: Callable[[], int], keep_noted: Callable[[], set[str]]) -> None:
        """Take the clock of the place, and what removes the daemons that have noted nothing of late."""
        self._now_ns = now_ns
        self._keep_noted = keep_noted
        self._lock = threading.Lock()
        self._rows: dict[tuple[int, str], _Row] = {}
        self._signals: dict[tuple[int, str, int], tuple[int, StoredSignal]] = {}
        """Signals by session, sender and ordinal, each with the time of its writing."""

    @property
    def _guard(self) -> threading.Lock:
        """The lock of the tables. Every method waits: the loop must call none."""
        time.sleep(0)
        return self._lock

    # -- what a test does ------------------------------------------------------------------

    def crash(self) -> None:
        """Empty the tables, as a crash of a server does with tables that are not logged."""
        with self._lock:
            self._rows.clear()
            self._signals.clear()

    def remove_signals(self) -> None:
        """Remove the signals, as their time does."""
        with self._lock:
            self._signals.clear()

    def spoil(self) -> None:
        """Change presence into what is none, as a person could."""
        with self._lock:
            for row in self._rows.values():
                row.body = b'{"present":"\xff"}'
                sender = row.sender
                row.sender = structs.replace(sender, presence=sender.presence + 1)

    def count_signals(self) -> int:
        """Return how many signals are kept."""
        with self._lock:
            return len(self._signals)

    # -- for the rows of sessions ------------------------------------------------------------

    def senders_of(self, number: int) -> tuple[Sender, ...]:
        """Return the senders of a session."""
        with self._lock:
            found = [row.sender for key, row in self._rows.items() if key[0] == number]
        return tuple(sorted(found, key=lambda sender: sender.name))

    def remove(self, number: int) -> None:
        """Remove what a session has."""
        with self._lock:
            for key in [key for key in self._rows if key[0] == number]:
                del self._rows[key]
            for of_signal in [key for key in self._signals if key[0] == number]:
                del self._signals[of_signal]

    # -- the port --------------------------------------------------------------------------

    def change(self, change: SenderChange) -> None:
        """Change a sender and store its signals, unless a later turn was here before."""
        with self._guard:
            now_ns = self._now_ns()
            number, sender = change.number, change.sender
            before = self._rows.get((number, sender.name))
            if before is not None and before.turn >= change.turn:
                return
            body, presence = change.body, sender.presence
            if body is None:
                body, presence = (
                    (b"", 0) if before is None else (before.body, before.sender.presence)
                )
            self._rows[number, sender.name] = _Row(
                structs.replace(sender, presence=presence), change.turn, body, now_ns
            )
            for one in change.signals:
                self._signals.setdefault((number, one.sender, one.ordinal), (now_ns, one))
            for key in [key for key in self._signals if key[:2] == (number, sender.name)]:
                if key[2] < change.kept_from:
                    del self._signals[key]

    def signals(self, number: int, wanted: Mapping[str, tuple[int, int]]) -> list[StoredSignal]:
        """Return the signals of senders behind the first and up to the second ordinal."""
        with self._guard:
            since = self._now_ns() - int(SIGNALS_KEPT_SECONDS * 1e9)
            found = [
                (at, one)
                for (of, sender, ordinal), (at, one) in self._signals.items()
                if of == number and at > since and sender in wanted
                if wanted[sender][0] < ordinal <= wanted[sender][1]
            ]
        size, kept = 0, list[StoredSignal]()
        for _, one in sorted(found, key=lambda each: (each[0], each[1].ordinal), reverse=True):
            size += len(one.body)
            if size <= SIGNALS_READ_BYTES_MAX:
                kept.append(one)
        return kept

    def presences(self, number: int, senders: Sequence[str]) -> list[StoredPresence]:
        """Return the presence at senders; unknown senders are left out."""
        with self._guard:
            found = [self._rows[number, name] for name in senders if (number, name) in self._rows]
            return [StoredPresence(row.sender.name, row.sender.presence, row.body) for row in found]

    def end_of_daemons(self, daemons: Sequence[str]) -> None:
        """End all senders of daemons that have ended."""
        with self._guard:
            self._end([row for row in self._rows.values() if row.sender.daemon in daemons])

    def _end(self, rows: list[_Row]) -> None:
        for row in rows:
            row.sender = structs.replace(row.sender, is_open=False)
            row.changed_ns = self._now_ns()

    def clean(self) -> None:
        """Remove signals after SIGNALS_KEPT_SECONDS; ended senders, and silent daemons, after SENDER_KEPT_SECONDS."""
        noted = self._keep_noted()
        with self._guard:
            now_ns = self._now_ns()
            signals_since = now_ns - int(SIGNALS_KEPT_SECONDS * 1e9)
            for key in [key for key, (at, _) in self._signals.items() if at <= signals_since]:
                del self._signals[key]
            since = now_ns - int(SENDER_KEPT_SECONDS * 1e9)
            old = {key: row for key, row in self._rows.items() if row.changed_ns <= since}
            for of_row in [key for key, row in old.items() if not row.sender.is_open]:
                del self._rows[of_row]
            self._end([row for row in old.values() if row.sender.daemon not in noted])
