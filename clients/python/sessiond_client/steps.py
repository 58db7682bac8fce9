"""The steps of a driver, each a wait, and the part of a shell that does the waiting."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from sessiond_client.calls import Call
from sessiond_client.reach import Port, Start

__all__ = ["Steps", "Wait", "Waiter"]


class Wait(Struct, frozen=True):
    """A wait until `on` is readable (writable if `write`), until a time, or until an interrupt."""

    on: Port | Start | None
    write: bool
    until: float


Steps = Generator[Wait | Call, None, None]
"""The waits of a driver. A `Call` is a wait until its `wake` is called, because the call is settled
or has to lead now."""


class Waiter(Protocol):
    """The part of a shell that waits, as far as a driver knows it."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock that is held while a driver of this shell moves."""
        ...

    def clock(self) -> float:
        """Return the time of the clock by which deadlines are told."""
        ...

    def interrupt(self) -> None:
        """End the present `Wait` early, if there is one."""

    def release(self) -> None:
        """Drop what the waits needed: no more will come."""

    def leave_to_parent(self) -> None:
        """Let go of what the waits of the process that this one was forked from need."""

    def soon(self, act: Callable[[], None]) -> None:
        """Call a function where the waits are: at once, unless that is another event loop that runs."""
