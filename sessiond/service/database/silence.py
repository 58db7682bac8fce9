"""Daemons that have ended without a word, as their beats tell.

Law: a daemon is silent only if its beats stood still for DAEMON_SILENT_SECONDS in which this daemon asked
for beats again and again, and got answers. So neither a clock of another machine nor an outage of the
database, which silences every daemon, ends the lease of a daemon that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

from msgspec import Struct


class _Heard(Struct):
    """The last beat of a daemon, and the seconds of answered questions since then."""

    beats: int
    seconds: float = 0.0


class Silence:
    """Beats of other daemons, as one daemon hears them."""

    def __init__(self, seconds: float, now: Callable[[], float] = monotonic) -> None:
        """Take a daemon for ended after so many seconds without a beat, by this clock."""
        self._limit = seconds
        self._now = now
        self._heard: dict[str, _Heard] = {}
        self._asked_at: float | None = None
        self.ended: set[str] = set()
        """The daemons that are taken for ended."""

    def outage(self) -> None:
        """Begin to count anew: the database has not answered."""
        self._asked_at = None
        for heard in self._heard.values():
            heard.seconds = 0.0

    def hear(self, beats: Mapping[str, int], concerned: set[str]) -> set[str]:
        """Count the silence of the daemons that hold leases; return those that have just ended."""
        now = self._now()
        passed = 0.0 if self._asked_at is None else now - self._asked_at
        self._asked_at = now
        self._heard = {name: one for name, one in self._heard.items() if name in concerned}
        ended: set[str] = set()
        for name in concerned:
            count = beats.get(name, 0)
            heard = self._heard.get(name)
            # A row that another daemon has removed is no beat.
            if heard is None or (heard.beats != count and name in beats):
                self._heard[name] = _Heard(count)
                if heard is not None:
                    self.ended.discard(name)
                continue
            # A machine that slept has asked nothing meanwhile.
            heard.seconds += min(passed, self._limit / 2)
            if heard.seconds >= self._limit and name not in self.ended:
                ended.add(name)
        self.ended |= ended
        return ended
