"""Faults of a `FaultDisk`: calls that fail or wait, and counts of calls."""

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
    """A planned failure. `hit` is set when it happened, `met` names the call that failed."""

    op: str | None
    nth: int
    errno: int
    partial: int
    hit: bool = False
    met: str | None = None

    def error(self) -> OSError:
        """Return the error that the caller gets."""
        return OSError(self.errno, os.strerror(self.errno))


class Gate(Struct, frozen=True):
    """A gate for calls of one kind: `reached` is set by the first call, `open` lets all pass."""

    op: str
    reached: threading.Event
    open: threading.Event


class Faults:
    """The planned failures and gates, and the counts of calls."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._mutex = threading.Lock()
        self._faults: list[Fault] = []
        self._gates: list[Gate] = []

    def fail(
        self, op: str | None, *, nth: int = 1, errno: int = errors.EIO, partial: int = 0
    ) -> Fault:
        """Let the nth call of `op` from now fail, once; with None, every call counts.

        Of a write or sync, `partial` bytes reach the file or the platter despite the failure.
        """
        fault = Fault(op, nth, errno, partial)
        with self._mutex:
            self._faults.append(fault)
        return fault

    def forget_faults(self) -> None:
        """Cancel all failures that have not happened yet."""
        with self._mutex:
            self._faults.clear()

    @contextmanager
    def hold(self, op: str) -> Generator[Gate]:
        """Let every call of `op` wait until the gate is opened, or until the end of the block."""
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
        """Count a call, wait at its gate, and return the failure planned for the call."""
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
        """Count a call, wait at its gate, and raise the failure planned for the call."""
        fault = self.meet(op)
        if fault is not None:
            raise fault.error()
