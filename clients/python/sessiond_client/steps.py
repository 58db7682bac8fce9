"""What a driver asks of its shell, and what it needs of the world."""

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
        """Held by whoever moves a driver of this shell."""
        ...

    def interrupt(self) -> None:
        """Ends the present `Wait` early, if there is one."""

    def release(self) -> None:
        """There will be no more `Wait`: drops what was needed for it."""


class Shell(Waiter, Protocol):
    """A shell as its client knows the shell."""

    @property
    def clock(self) -> Callable[[], float]:
        """The clock by which times are told."""
        ...


class Outside(Struct, frozen=True):
    """What a driver needs of the world."""

    reach: Callable[[], Reach]
    clock: Callable[[], float]
    waiter: Waiter


class Wait(Struct, frozen=True):
    """Until `on` is readable (or writable, if `write`), until then, or an interrupt."""

    on: Port | Start | None
    write: bool
    until: float


class Turn(Struct, frozen=True):
    """Until somebody calls `call.wake`: it is settled, or it is its turn to lead."""

    call: Call


Steps = Generator[Wait | Turn, None, None] | Generator[Wait, None, None]
