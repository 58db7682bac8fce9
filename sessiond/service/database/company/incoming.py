"""Signals and presence of other daemons, as the looks of one opening find them.

Law 1: each signal is returned once, in the order of its sender, or counted as lost: the ordinal that a look
shows says how many there were, and what the database lacks of them is gone.
Law 2: presence ends with its connection, its opening or its daemon, and never with a row that is missing: a
crash of the database empties the table, and each daemon that lives writes its row again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.limits import SENDER_KEPT_SECONDS, SENDERS_REMEMBERED_MAX
from sessiond.model.events import Departure
from sessiond.service.database.company_rows import Sender, StoredPresence, StoredSignal
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.service.pubsub.company import CompanyNews, RelayedSignal
from sessiond.service.pubsub.presence import Arrived

_NS: Final = 1e9
_in_order: Final = attrgetter("after_seq", "ordinal")


class _Body(Struct, frozen=True, omit_defaults=True):
    """Presence at one daemon, as it is stored."""

    present: list[Arrived]
    left: Departure | None = None


_decode: Final = typed.decoder(_Body).decode
_encode: Final = msgspec.json.Encoder().encode


def presence_body(present: Sequence[Arrived], left: Departure | None) -> bytes:
    """Return presence as it is stored; empty without any."""
    return _encode(_Body(list(present), left)) if present or left else b""


def _read_body(body: bytes) -> _Body:
    """Return presence as it is stored; none if a person has changed it into what is none."""
    try:
        return _decode(body) if body else _Body([])
    except ValueError:
        # msgspec's own errors are ValueErrors, too.
        return _Body([])


class _Shown(Struct):
    """Presence at a sender as it was read last."""

    daemon: str
    presence: int
    present: list[Arrived]


class Found(Struct, frozen=True):
    """Readings of a look, which take effect with the lines that the look found."""

    head: Head
    lost: int
    signals: list[StoredSignal]
    presences: list[StoredPresence]


class Incoming:
    """Signals and presence of other daemons.

    One thread at a time looks. The event loop asks meanwhile what waits for nothing: `is_new`, `is_stale`
    and `daemons`.
    """

    def __init__(
        self, database: SessionDatabase, head: Head, daemon: str, is_silent: Callable[[str], bool]
    ) -> None:
        """Begin behind the signals that `head` shows; `is_silent` tells that a daemon has ended."""
        self._database = database
        self._number = head.number
        self._daemon = daemon
        self._is_silent = is_silent
        self._known: dict[str, Sender] | None = None
        """The senders elsewhere that the last look has taken in, by name; None before the first one."""
        self._cursors = {sender.name: sender.ordinal for sender in head.senders or ()}
        self._seen_ns = head.now_ns
        """Time of the last answer of the database, by the database's clock."""
        self._missed = 0
        self._shown: dict[str, _Shown] = {}
        self._is_renumbered = False

    def follow(self, before: Incoming, *, is_heard: bool) -> None:
        """Go on where the session's last opening at this daemon stopped. Raises StorageError."""
        if before._number == self._number:
            self._cursors, self._shown = before._cursors, before._shown
            self._seen_ns = before._seen_ns
            return
        # The session of before was replaced: what was sent there is counted, and not read.
        self._is_renumbered = True
        for head in self._database.heads([before._number]) if is_heard else ():
            self._missed += sum(map(_length, before._unread(head).values()))

    # -- looks -----------------------------------------------------------------------------

    def is_new(self, there: Head) -> bool:
        """Take note of a row as it was seen; return whether a look would find something."""
        if self._elsewhere(there) != self._known or self._was_away(there):
            return True
        self._seen_ns = max(self._seen_ns, there.now_ns)
        return False

    def _was_away(self, there: Head) -> bool:
        """Return whether rows of senders may have been removed since the database answered last."""
        return there.now_ns - self._seen_ns > SENDER_KEPT_SECONDS * _NS

    def _unread(self, there: Head) -> dict[str, tuple[int, int]]:
        """Return the ordinals of signals that were not taken in, for each sender elsewhere."""
        rows = self._elsewhere(there).values()
        cursors = ((one, self._cursors.get(one.name, 0)) for one in rows)
        return {one.name: (first, one.ordinal) for one, first in cursors if one.ordinal > first}

    def _elsewhere(self, there: Head) -> dict[str, Sender]:
        return {one.name: one for one in there.senders or () if one.daemon != self._daemon}

    def read(self, there: Head, *, is_heard: bool) -> Found:
        """Read what a look finds, without any effect before `hear`. Raises StorageError."""
        company = self._database.company
        lost, signals = 0, list[StoredSignal]()
        if is_heard:
            unread = self._unread(there)
            if unread:
                signals = company.signals(self._number, unread)
            lost = sum(map(_length, unread.values())) - len(signals)
            # Senders that have come and gone meanwhile have left no trace.
            lost += self._was_away(there)
        changed = [
            one.name
            for one in self._elsewhere(there).values()
            if one.is_open and one.presence > self._presence_of(one.name)
        ]
        presences = company.presences(self._number, changed) if changed else []
        return Found(there, lost, signals, presences)

    def _presence_of(self, sender: str) -> int:
        shown = self._shown.get(sender)
        return 0 if shown is None else shown.presence

    def hear(self, found: Found) -> CompanyNews | None:
        """Take in what a look has read; return the news, None without any."""
        there = found.head
        was_away = self._was_away(there)
        rows = self._known = self._elsewhere(there)
        for sender in rows.values():
            cursor = max(sender.ordinal, self._cursors.pop(sender.name, 0))
            self._cursors[sender.name] = cursor
        while len(self._cursors) > len(rows) + SENDERS_REMEMBERED_MAX:
            # Those that are there were put behind the rest.
            del self._cursors[next(iter(self._cursors))]
        self._seen_ns = max(self._seen_ns, there.now_ns)
        left, is_changed = self._take_presences(found.presences, rows)
        is_changed |= self._drop_ended(rows, was_away=was_away) or self._is_renumbered
        self._is_renumbered = False
        lost, self._missed = found.lost + self._missed, 0
        if not (lost or found.signals or is_changed):
            return None
        return CompanyNews(
            lost,
            [
                RelayedSignal(one.after_seq, one.body)
                for one in sorted(found.signals, key=_in_order)
            ],
            self._present() if is_changed else None,
            left,
        )

    # -- presence --------------------------------------------------------------------------

    def _take_presences(
        self, presences: Sequence[StoredPresence], rows: Mapping[str, Sender]
    ) -> tuple[list[Departure], bool]:
        """Take over what was read; return who has left with a reason, and whether presence changed."""
        left = list[Departure]()
        for one in presences:
            body = _read_body(one.body)
            if body.left is not None:
                left.append(body.left)
            daemon = rows[one.sender].daemon
            self._shown[one.sender] = _Shown(daemon, one.presence, body.present)
        return left, bool(presences)

    def _drop_ended(self, rows: Mapping[str, Sender], *, was_away: bool) -> bool:
        """Drop presence of openings and daemons that have ended; return whether there was any."""
        shown = self._shown.items()
        ended = [
            name for name, one in shown if self._has_ended(one, rows.get(name), was_away=was_away)
        ]
        dropped = [self._shown.pop(name) for name in ended]
        return any(one.present for one in dropped)

    def _has_ended(self, shown: _Shown, row: Sender | None, *, was_away: bool) -> bool:
        if row is not None:
            return not row.is_open
        # A crash has removed the row, which a daemon that lives writes again.
        return was_away or self._is_silent(shown.daemon)

    def _present(self) -> list[Arrived]:
        return [arrived for one in self._shown.values() for arrived in one.present]

    @property
    def is_stale(self) -> bool:
        """True if a daemon without a row was taken for ended since the last look."""
        rows = self._known or {}
        shown = list(self._shown.items())
        return any(self._has_ended(one, rows.get(name), was_away=False) for name, one in shown)

    @property
    def daemons(self) -> set[str]:
        """The other daemons of which connections are shown."""
        return {one.daemon for one in list(self._shown.values()) if one.present}


def _length(ordinals: tuple[int, int]) -> int:
    first, last = ordinals
    return last - first
