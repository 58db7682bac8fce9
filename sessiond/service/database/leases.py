"""Leases in the row of a session. Blocking, but for what was seen last.

Law: each change counts the version of the row up, so that no append that was staged before lands behind
the change. A lease whose grant was not answered has no holder: the next change ends the lease, and keeps
a grant that is still under way from taking effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.errors import StorageError
from sessiond.journal.store import Replaced
from sessiond.service.database.database import Head, Unsent
from sessiond.service.database.refusals import outpaced
from sessiond.service.store.lease_table import LeaseChange, Leased, Leasing

_DECODER = typed.decoder(tuple[Leased, ...])
_NS = 1_000_000_000
_TRIES = 100


class _Leasing(Struct):
    """The leases of a session while they are changed."""

    now_ns: int
    daemon: str
    by_head: dict[str, Leased]
    new_epoch: Callable[[], int]


class LeasedLog(Protocol):
    """The log whose row has the leases."""

    head: Head
    read_at: float
    name: Path

    def there(self) -> Head:
        """Return the row as it is now. Raises StorageError, Replaced."""
        ...

    def stay(self, there: Head) -> None:
        """Take note of a row."""
        ...

    def lease(self, at: Head, leases: bytes) -> bool:
        """Replace the leases; return False if the row has changed. Raises StorageError."""
        ...


class DatabaseLeases:
    """The leases of one open session. Used between two batches of its writer."""

    def __init__(
        self,
        log: LeasedLog,
        daemon: str,
        new_epoch: Callable[[], int],
        is_silent: Callable[[str], bool],
        report: Callable[[str], None],
    ) -> None:
        """Take this daemon's name, and what tells that another daemon has ended; `report` tells people."""
        self._log = log
        self._daemon = daemon
        self._new_epoch = new_epoch
        self._is_silent = is_silent
        self._report = report
        self._known = b""
        self._seen: tuple[Leased, ...] = ()
        self._in_doubt: set[str] = set()
        """Leases that no client was told of, and that the row may have, now or later."""

    def seen(self) -> tuple[Leased, ...]:
        """Return the leases as they were seen last: an equal object means equal leases."""
        known = self._log.head.leases
        if known != self._known:
            self._known, self._seen = known, self._decoded(known)
        return self._seen

    def _decoded(self, leases: bytes) -> tuple[Leased, ...]:
        """Return leases as they are stored; none if a person has changed them into what is none."""
        try:
            return _DECODER.decode(leases) if leases else ()
        except ValueError:
            # msgspec's own errors are ValueErrors, too.
            name = self._log.name
            self._report(f"the leases in the row of {name} cannot be read, and count as none")
            return ()

    def seconds_left(self, lease: Leased) -> float:
        """Return how long a lease lasts by the database's clock."""
        head = self._log.head
        passed = time.monotonic() - self._log.read_at
        return (lease.ends_ns - head.now_ns) / _NS - passed

    @property
    def is_stale(self) -> bool:
        """True if there may be leases without a holder, which the next change drops."""
        return bool(self._in_doubt) or any(self._is_silent(one.daemon) for one in self.seen())

    @property
    def holders(self) -> set[str]:
        """The daemons whose connections hold leases."""
        return {one.daemon for one in self.seen()}

    def change(self, changes: Sequence[LeaseChange]) -> list[Any]:
        """Make all changes, or none, and return their outcomes."""
        for _ in range(_TRIES):
            there = self._log.there()
            kept = {
                one.head: one
                for one in self._decoded(there.leases)
                if one.ends_ns > there.now_ns
                and not self._is_silent(one.daemon)
                and one.lease_id not in self._in_doubt
            }
            before = {one.lease_id for one in kept.values()}
            leasing = _Leasing(there.now_ns, self._daemon, kept, self._new_epoch)
            outcomes = [change(leasing) for change in changes]
            leases = _encoded(leasing)
            # A grant in doubt that comes late finds another version.
            if leases == there.leases and not self._in_doubt:
                self._log.stay(there)
                return outcomes
            try:
                is_stored = self._log.lease(there, leases)
            except Unsent:
                raise
            except StorageError:
                self._in_doubt |= {one.lease_id for one in kept.values()} - before
                raise
            if is_stored:
                self._in_doubt.clear()
                return outcomes
        raise outpaced("lease a head of", self._log.name)

    def end_own(self) -> None:
        """End the leases of this daemon's connections; after a failure they end with their time."""
        if self._in_doubt or self._daemon in self.holders:
            with suppress(StorageError, Replaced):
                self.change([_without_own])


def leases_in(changes: Sequence[LeaseChange], now_ns: int, daemon: str) -> bytes:
    """Return what the row of a new session has of the leases that these changes put there."""
    leasing = _Leasing(now_ns, daemon, {}, _no_epoch)
    for change in changes:
        change(leasing)
    return _encoded(leasing)


def _encoded(leasing: _Leasing) -> bytes:
    return msgspec.json.encode(list(leasing.by_head.values())) if leasing.by_head else b""


def _no_epoch() -> int:
    raise AssertionError("a lease that is brought has its epoch")


def _without_own(leasing: Leasing) -> None:
    for head, one in list(leasing.by_head.items()):
        if one.daemon == leasing.daemon:
            del leasing.by_head[head]
