"""Misfortunes of running processes: kills, pauses, and polite ends.

Law: each misfortune is drawn from the seed and recorded before it happens. A killed client is
followed by its next incarnation. An ended daemon is started again here, or by the first client
that finds no daemon.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from random import Random
from typing import Final

from tests.kit.patience import paused, soon
from tests.torture.company import Company
from tests.torture.owner import Owner
from tests.torture.records import Killed, Log, now

__all__ = ["Killer", "Misfortune", "rage"]

PAUSE_SECONDS: Final = (0.1, 1.2)
STOP_SECONDS: Final = (0.2, 3.0)
ANSWERS: Final = 20
"""The minimum of answers between two misfortunes."""
MISSED_SECONDS: Final = 2.0
"""The time for a client to start a daemon, before the killer starts one."""


class Killer:
    """The misfortunes, one at a time; all processes are alive again when a method returns."""

    def __init__(self, owner: Owner, company: Company, log: Log, chance: Random) -> None:
        self._owner = owner
        self._company = company
        self._log = log
        self._chance = chance
        self._done = 0

    def so_far(self) -> str:
        """Return a short summary of answers and misfortunes so far."""
        return f"{self._company.answers()} answers, {self._done} misfortunes"

    def wait(self, answers: int) -> None:
        """Wait until `answers` more requests are answered; require that all actors stay alive."""
        wanted = self._company.answers() + answers

        def answered() -> bool:
            if self._company.answers() >= wanted:
                return True
            self._company.require_alive()
            if not self._owner.is_alive:
                raise AssertionError(f"the daemon ended by itself: {self._owner.said()[-3000:]}")
            return False

        soon(answered, lambda: f"no client is answered any more: {self._owner.said()[-3000:]}")

    def _note(self, who: str, how: str) -> None:
        self._done += 1
        self._log.add(Killed(now(), "killer", who, how))

    def kill_daemon(self) -> None:
        """kill -9, and another one."""
        self._owner.end(signal.SIGKILL)
        # Before its end, the daemon may still answer what is asked behind the signal.
        self._note("daemon", "kill")
        self._return()

    def end_daemon(self) -> None:
        """SIGTERM: it serves what was asked, and ends; then another one."""
        self._note("daemon", "term")
        self._owner.end(signal.SIGTERM)
        self._return()

    def _return(self) -> None:
        self._owner.ensure(wait=self._chance.choice([0.0, 0.0, MISSED_SECONDS]))

    def stop_daemon(self) -> None:
        """SIGSTOP for a while."""
        self._note("daemon", "stop")
        self._owner.send(signal.SIGSTOP)
        self._nap()
        self._owner.send(signal.SIGCONT)

    def kill_client(self) -> None:
        """Kill a random actor with SIGKILL and start its next incarnation."""
        name = self._company.any_name(self._chance)
        self._note(name, "kill")
        self._company.replace(name)

    def stop_client(self) -> None:
        """Stop a random actor with SIGSTOP for a while."""
        name = self._company.any_name(self._chance)
        self._note(name, "stop")
        self._company.send(name, signal.SIGSTOP)
        self._nap()
        self._company.send(name, signal.SIGCONT)

    def _nap(self) -> None:
        low, high = STOP_SECONDS
        # Most stops are short.
        paused(self._chance, low, low + (high - low) * self._chance.random())


Misfortune = Callable[[Killer, Random, Callable[[str], None]], None]
"""The misfortunes of a round; its last argument is called with the progress now and then."""


def rage(seconds: float) -> Misfortune:
    """Return random misfortunes for some seconds, from the first answers on."""

    def befall(killer: Killer, chance: Random, progress: Callable[[str], None]) -> None:
        acts = {
            killer.kill_daemon: 4,
            killer.end_daemon: 2,
            killer.stop_daemon: 2,
            killer.kill_client: 3,
            killer.stop_client: 2,
        }
        # The first things first, so that a short run has them too.
        first = [killer.kill_daemon, killer.kill_client, killer.stop_daemon, killer.end_daemon]
        killer.wait(ANSWERS)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            paused(chance, *PAUSE_SECONDS)
            progress(killer.so_far())
            killer.wait(ANSWERS)
            if first:
                first.pop(0)()
            else:
                chance.choices(list(acts), list(acts.values()))[0]()
        killer.wait(ANSWERS)

    return befall
