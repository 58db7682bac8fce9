"""Which call on a `FaultDisk` fails, waits, or was made how often."""

from __future__ import annotations

import errno as errors
import os
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Struct

__all__ = ["Fault", "Faults", "Gate"]


class Fault(Struct):
    """One failure to come. `hit` says that it came, `met` which call it was."""

    op: str | None
    nth: int
    errno: int
    partial: int
    hit: bool = False
    met: str | None = None

    def error(self) -> OSError:
        """What the caller gets."""
        return OSError(self.errno, os.strerror(self.errno))


class Gate(Struct, frozen=True):
    """Calls of one kind wait here: `reached` is set by the first, `open` lets all pass."""

    op: str
    reached: threading.Event
    open: threading.Event


class Faults:
    """The failures and gates that are set up, and what was called."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._mutex = threading.Lock()
        self._faults: list[Fault] = []
        self._gates: list[Gate] = []

    def fail(
        self, op: str | None, *, nth: int = 1, errno: int = errors.EIO, partial: int = 0
    ) -> Fault:
        """Let the nth call of `op` from now fail, once; None counts every call.

        Of a write or sync, `partial` bytes reach the file or the platter all the same.
        """
        fault = Fault(op, nth, errno, partial)
        with self._mutex:
            self._faults.append(fault)
        return fault

    def forget_faults(self) -> None:
        """No failure that did not come yet will come."""
        with self._mutex:
            self._faults.clear()

    @contextmanager
    def hold(self, op: str) -> Generator[Gate]:
        """Let every call of `op` wait until the gate is opened, at the latest at the end."""
        gate = Gate(op, threading.Event(), threading.Event())
        with self._mutex:
            self._gates.append(gate)
        try:
            yield gate
        finally:
            with self._mutex:
                self._gates.remove(gate)
            gate.open.set()

    def meet(self, op: str) -> Fault | None:
        """Count a call, wait at its gate, and find the failure that is meant for it."""
        with self._mutex:
            self.counts[op] += 1
            due: Fault | None = None
            for fault in [fault for fault in self._faults if fault.op in {None, op}]:
                fault.nth -= 1
                if fault.nth == 0:
                    fault.hit, fault.met = True, op
                    self._faults.remove(fault)
                    due = fault
            gates = [gate for gate in self._gates if gate.op == op]
        for gate in gates:
            gate.reached.set()
            gate.open.wait()
        return due

    def arrive(self, op: str) -> None:
        """The same for calls that either work or do not."""
        fault = self.meet(op)
        if fault is not None:
            raise fault.error()
