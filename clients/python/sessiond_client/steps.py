"""The requests of a driver to its shell, and the driver's needs of the world."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from sessiond_client.calls import Call
from sessiond_client.port import Port
from sessiond_client.starting import Reach, Start

__all__ = ["Outside", "Shell", "Steps", "Turn", "Wait", "Waiter"]


class Waiter(Protocol):
    """The part of a shell that waits, as far as a driver knows it."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock that is held while a driver of this shell moves."""
        ...

    def interrupt(self) -> None:
        """End the present `Wait` early, if there is one."""

    def release(self) -> None:
        """There will be no more `Wait`: drops what was needed for it."""


class Shell(Waiter, Protocol):
    """A shell as its client knows the shell."""

    @property
    def clock(self) -> Callable[[], float]:
        """The clock by which times are told."""
        ...


class Outside(Struct, frozen=True):
    """The functions of the world that a driver needs."""

    reach: Callable[[], Reach]
    clock: Callable[[], float]
    waiter: Waiter


class Wait(Struct, frozen=True):
    """A wait until `on` is readable (writable if `write`), until a time, or until an interrupt."""

    on: Port | Start | None
    write: bool
    until: float


class Turn(Struct, frozen=True):
    """A wait until `call.wake` is called: the call is settled, or it is the call's turn to lead."""

    call: Call


Steps = Generator[Wait | Turn, None, None] | Generator[Wait, None, None]
