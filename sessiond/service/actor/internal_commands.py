"""A mutation that a task of the daemon makes and waits for, instead of a connection.

It has its place in line like any other. Given up while it waits there, it changes nothing; once
the writer has taken it, it completes, and whoever waits hears what became of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from msgspec import UNSET, Raw, UnsetType

from sessiond.errors import SessiondError
from sessiond.model.events import Figures
from sessiond.model.requests import Reply
from sessiond.service.actor.actor import Host
from sessiond.service.actor.inbox import Command
from sessiond.session.draft import Draft

__all__ = ["Nobody", "carried_out"]


class _NoListener:
    """What is sent to nobody."""

    def put(self, frame: bytes) -> None:
        """Drop it."""

    def flush(self) -> None:
        """There is nothing."""

    def request(
        self, _method: str, _params: bytes, settle: Callable[[Reply], None]
    ) -> Callable[[], None]:
        """Nobody answers."""
        settle(Reply(None, "gone"))
        return self.flush


class Nobody:
    """Stands for a client where the daemon does something by itself."""

    client_id = None
    name = None

    def __init__(self) -> None:
        self.listener = _NoListener()


class _Unheard:
    token = None
    latest: Figures | None = None

    def report(self, done: int, total: int | None, unit: str) -> None:
        """Nobody asked to be told."""


class _Awaited:
    """The ticket of one mutation."""

    progress = _Unheard()

    def __init__(self, client: Any, told_id: Raw | UnsetType) -> None:
        self.client = client
        self.told_id = told_id
        self.settled = anyio.Event()
        self.result: Any = None
        self.error: SessiondError | None = None
        self.give_up: Callable[[], None] = _nothing

    def answer(self, result: Any) -> None:
        """It was stored."""
        self.result = result
        self.settled.set()

    def fail(self, error: SessiondError) -> None:
        """It was refused."""
        self.error = error
        self.settled.set()

    def flush(self) -> None:
        """Nothing is sent."""

    def defer(self, on_cancel: Callable[[], None]) -> None:
        """This is how it is given up."""
        self.give_up = on_cancel


async def carried_out(
    host: Host, stage: Callable[[Draft], Any], client: Any, told_id: Raw | UnsetType = UNSET
) -> Any:
    """The receipt of a mutation, made in the name of a client (or `Nobody`). Raises its refusal."""
    ticket = _Awaited(client, told_id)
    host.submit(Command(ticket, lambda receipt, _durability: receipt, stage))
    if host.in_memory:
        # No chunk of a connection ends here to have it served.
        host.run_ready()
    try:
        await ticket.settled.wait()
    finally:
        if not ticket.settled.is_set():
            ticket.give_up()
            with anyio.CancelScope(shield=True):
                await ticket.settled.wait()
    if ticket.error is not None:
        raise ticket.error
    return ticket.result


def _nothing() -> None:
    """It is in no line yet."""
