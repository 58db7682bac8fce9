"""What is done to processes while they work: killed, stopped for a while, ended politely.

Law: what is done is drawn from the seed and written down before it is done. A client
that was killed is followed by its next incarnation; a daemon that was ended is started
again here, or by the first client that misses it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from random import Random
from typing import Final

from tests.torture.company import Company
from tests.torture.owner import Owner
from tests.torture.records import Killed, Log, now

__all__ = ["Killer"]

PAUSE_SECONDS: Final = (0.1, 1.2)
STOP_SECONDS: Final = (0.2, 3.0)
MISSED_SECONDS: Final = 2.0
"""How long a client may take to start a daemon before one is started here."""


class Killer:
    """One round's misfortunes."""

    def __init__(self, owner: Owner, company: Company, log: Log, chance: Random) -> None:
        self._owner = owner
        self._company = company
        self._log = log
        self._chance = chance

    def rage(self, until: float, progress: Callable[[], None]) -> None:
        """Go on until that time on the monotonic clock; all is alive again at the end."""
        acts = {
            self._kill_daemon: 4,
            self._end_daemon: 2,
            self._stop_daemon: 2,
            self._kill_client: 3,
            self._stop_client: 2,
        }
        # The first things first, so that a short run has them too.
        waiting = [self._kill_daemon, self._kill_client, self._stop_daemon, self._end_daemon]
        while time.monotonic() < until:
            time.sleep(self._chance.uniform(*PAUSE_SECONDS))
            progress()
            self._company.require_alive()
            if not self._owner.is_alive:
                raise AssertionError(f"the daemon ended by itself: {self._owner.said()[-3000:]}")
            act = waiting.pop(0) if waiting else self._drawn(acts)
            act()

    def _drawn(self, acts: dict[Callable[[], None], int]) -> Callable[[], None]:
        (act,) = self._chance.choices(list(acts), list(acts.values()))
        return act

    def _note(self, who: str, how: str) -> None:
        self._log.add(Killed(now(), "killer", who, how))

    def _kill_daemon(self) -> None:
        self._note("daemon", "kill")
        self._owner.end(signal.SIGKILL)
        self._return()

    def _end_daemon(self) -> None:
        self._note("daemon", "term")
        self._owner.end(signal.SIGTERM)
        self._return()

    def _return(self) -> None:
        self._owner.ensure(wait=self._chance.choice([0.0, 0.0, MISSED_SECONDS]))

    def _stop_daemon(self) -> None:
        self._note("daemon", "stop")
        self._owner.send(signal.SIGSTOP)
        self._nap()
        self._owner.send(signal.SIGCONT)

    def _kill_client(self) -> None:
        name = self._company.any_name(self._chance)
        self._note(name, "kill")
        self._company.replace(name)

    def _stop_client(self) -> None:
        name = self._company.any_name(self._chance)
        self._note(name, "stop")
        self._company.send(name, signal.SIGSTOP)
        self._nap()
        self._company.send(name, signal.SIGCONT)

    def _nap(self) -> None:
        low, high = STOP_SECONDS
        time.sleep(low + (high - low) * self._chance.random() ** 2)
