"""Signals in a siege: clients that send them, subscribers that hear them, and what they prove.

A sender is one connection, which sends signals and entries by turns, each with the next number. A stay is one
subscription at one daemon. In each stay the numbers of each sender go up: no signal comes twice, or on the
wrong side of an entry. In the last stay of a subscriber, each signal that was answered since it began has come,
or is counted as dropped. A daemon that ends takes the signals with it that it has not written: those that it
answered before do not count.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from threading import Event, Lock
from typing import Any, Final

import msgspec

from tests.kit.link import Link, Refused
from tests.kit.patience import paused
from tests.postgresql.sharing_daemon import SharingDaemon

__all__ = ["Heard", "Signalling"]

_KIND: Final = "siege"
# A daemon that had lost the database comes back within this time.
_SILENCE_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.01


class Heard:
    """Notices that one subscriber has heard during one stay."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.since = time.monotonic()
        self.numbers: dict[str, list[int]] = {}
        """Numbers of signals and entries of each sender, as they came."""
        self.signals: dict[str, set[int]] = {}
        self.dropped = 0
        self.faults: list[str] = []

    def take(self, message: dict[str, Any]) -> None:
        """Note a notification."""
        params = message["params"]
        match message["method"]:
            case "session/event":
                sender, _, number = params["entry"].get("id", "").rpartition("-")
                if sender.startswith("g"):
                    self._note(sender, int(number), "entry")
            case "session/signal":
                sender, number = params["data"]
                self.signals.setdefault(sender, set()).add(number)
                self._note(sender, number, "signal")
            case "session/lagged":
                self.dropped += params["dropped_signals"]
            case _:
                """Says nothing of signals."""

    def _note(self, sender: str, number: int, kind: str) -> None:
        numbers = self.numbers.setdefault(sender, [])
        if numbers and number <= numbers[-1]:
            text = f"{self.name} heard {kind} {sender}-{number} behind {sender}-{numbers[-1]}"
            self.faults.append(text)
        numbers.append(number)


class Signalling:
    """The senders and subscribers of one siege."""

    def __init__(
        self,
        session_id: str,
        daemons: list[SharingDaemon],
        count: Callable[[str], None],
        acknowledged: dict[str, int],
    ) -> None:
        """Take what counts happenings, and where the seqs of acknowledged entries are noted."""
        self._session_id = session_id
        self._daemons = daemons
        self._count = count
        self._acknowledged = acknowledged
        self._guard = Lock()
        self._ended_at = dict.fromkeys(range(len(daemons)), 0.0)
        self._answered: list[tuple[str, int, int, float, float]] = []
        """Signals by sender, number and daemon, each with the times of the call and of its answer."""
        self._last_stays: dict[str, Heard] = {}
        self._faults: list[str] = []

    def has_ended(self, daemon: SharingDaemon) -> None:
        """Note that a daemon has ended, or is about to be killed."""
        self._ended_at[self._daemons.index(daemon)] = time.monotonic()

    # -- what clients do -------------------------------------------------------------------

    def send(self, name: str, chance: random.Random, is_over: Event) -> None:
        """Send signals and entries until the end, at one daemon after another."""
        stay = 0
        while not is_over.is_set():
            at, stay = chance.randrange(len(self._daemons)), stay + 1
            try:
                with Link(self._daemons[at].socket_path) as link:
                    self._send_some(link, f"{name}-{stay}", at, chance, is_over)
            except (OSError, AssertionError, Refused):
                # Killed, cut off or stopping.
                self._count("senders cut off")
                paused(chance, 0, 0.2)

    def _send_some(
        self, link: Link, sender: str, at: int, chance: random.Random, is_over: Event
    ) -> None:
        for number in range(chance.randint(1, 300)):
            if is_over.is_set():
                return
            if chance.random() < 0.1:
                said = {"role": "user", "content": sender}
                entry = {"type": "message", "id": f"{sender}-{number}", "message": said}
                answer = link.ask("append", session_id=self._session_id, entry=entry)
                self._acknowledged[f"{sender}-{number}"] = answer["entries"][0]["seq"]
                continue
            begun = time.monotonic()
            data = [sender, number]
            link.ask("session/signal", session_id=self._session_id, kind=_KIND, data=data)
            with self._guard:
                self._answered.append((sender, number, at, begun, time.monotonic()))
            self._count("signals sent")
            paused(chance, 0, chance.choice([0, 0, 0.002, 0.04]))

    def hear(self, name: str, chance: random.Random, quiet: Event) -> None:
        """Hear signals to the end, at one daemon after another; a stay ends with its connection."""
        stay = 0
        while True:
            stay += 1
            try:
                with Link(chance.choice(self._daemons).socket_path) as link:
                    link.ask("subscribe", session_id=self._session_id)
                    heard = Heard(f"{name}-{stay}")
                    if self._hear_to_the_end(link, heard, quiet):
                        self._last_stays[name] = heard
                        return
                    self._faults += heard.faults
            except (OSError, AssertionError, Refused):
                self._count("subscribers of signals cut off")
                paused(chance, 0, 0.2)

    def _hear_to_the_end(self, link: Link, heard: Heard, quiet: Event) -> bool:
        """Return whether the connection lasted until nothing more came."""
        last = time.monotonic()
        while not quiet.is_set() or time.monotonic() - last < _SILENCE_SECONDS:
            if not link.has_more(_LOOK_SECONDS):
                continue
            line = link.line()
            if line is None:
                return False
            heard.take(msgspec.json.decode(line))
            self._count("notifications to subscribers of signals")
            last = time.monotonic()
        return True

    # -- the verdict -----------------------------------------------------------------------

    def faults(self) -> list[str]:
        """Return each broken promise in words."""
        faults = list(self._faults)
        for name, heard in self._last_stays.items():
            faults += heard.faults
            missing = [
                f"{sender}-{number}"
                for sender, number, at, begun, answered in self._answered
                if begun > heard.since and answered > self._ended_at[at]
                if number not in heard.signals.get(sender, ())
            ]
            if len(missing) > heard.dropped:
                faults.append(
                    f"{name} knows of {heard.dropped} dropped signals, and did not hear"
                    f" {len(missing)}, {missing[0]} the first"
                )
        return faults
