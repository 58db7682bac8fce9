"""Mutation that a task of the daemon makes and waits for, instead of a connection.

The mutation has its place in the inbox. Cancelled while it waits there, it changes nothing. Once
the writer has taken it, it completes, and the waiting task gets the result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import anyio
from msgspec import UNSET, Raw, UnsetType

from sessiond.errors import SessiondError
from sessiond.model.deferred import DEFERRED
from sessiond.model.events import Figures
from sessiond.model.requests import Reply
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.inbox import Command
from sessiond.service.log.out_of_sight import out_of_sight
from sessiond.session.draft import Draft
from sessiond.session.index import Session


class _NoListener:
    """Listener that drops every frame, and leaves jobs to the task that waits."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], Awaitable[Any]]] = []

    def start(self, function: Callable[..., Awaitable[Any]], *args: object) -> None:
        """Keep a job."""
        self.jobs.append(partial(function, *args))

    def put(self, frame: bytes) -> None:
        """Drop the frame."""

    def flush(self) -> None:
        """Do nothing."""

    def request(
        self, _method: str, _params: bytes, settle: Callable[[Reply], None]
    ) -> Callable[[], None]:
        """Reply at once that the client is gone."""
        settle(Reply(None, "gone"))
        return self.flush


class SystemClient:
    """Client of the daemon's own mutations."""

    client_id = None
    name = None
    openings = None

    def __init__(self) -> None:
        self.listener = _NoListener()


class _Unheard:
    token = None
    latest: Figures | None = None

    def report(self, done: int, total: int | None, unit: str) -> None:
        """Do nothing."""


class _Awaited:
    """Ticket of one mutation."""

    progress = _Unheard()
    result_meta: bytes | None = None

    def __init__(self, client: Any, origin_id: Raw | UnsetType) -> None:
        self.client = client
        self.origin_id = origin_id
        self.settled = anyio.Event()
        self.result: Any = None
        self.error: SessiondError | None = None
        self.give_up: Callable[[], None] = _nothing

    def answer(self, result: Any) -> None:
        """Keep the result and wake the waiting task."""
        self.result = result
        self.settled.set()

    def fail(self, error: SessiondError) -> None:
        """Keep the error and wake the waiting task."""
        self.error = error
        self.settled.set()

    def flush(self) -> None:
        """Do nothing."""

    def defer(self, on_cancel: Callable[[], None]) -> None:
        """Keep the function that cancels the mutation."""
        self.give_up = on_cancel


async def submit_and_wait(
    actor: SessionActor,
    stage: Callable[[Draft], Any],
    client: Any,
    origin_id: Raw | UnsetType = UNSET,
    reads: Callable[[Session], Iterable[int]] | None = None,
) -> Any:
    """Return the receipt of a mutation made in the name of a client (or `SystemClient`).

    Raises the error that refused the mutation.
    """
    ticket = _Awaited(client, origin_id)
    actor.submit(Command(ticket, lambda receipt, _durability: receipt, stage, reads=reads))
    if actor.in_memory:
        # No connection's chunk ends here, which would serve a session in memory.
        actor.run_ready()
    try:
        await ticket.settled.wait()
    finally:
        if not ticket.settled.is_set():
            ticket.give_up()
            with anyio.CancelScope(shield=True):
                await ticket.settled.wait()
    return _outcome(ticket)


async def look_again(actor: SessionActor) -> None:
    """Bring an open session to the position that the store has now. Raises SessiondError."""
    await _asked(actor, actor.ask_behind_a_look)


async def look_at_the_file(actor: SessionActor) -> None:
    """Take in the lines of other programs, unless a batch is on its way that did. Raises SessiondError."""
    await _asked(actor, actor.ask_of_the_file)


async def _asked(actor: SessionActor, ask: Callable[[Any, Callable[[], None]], Any]) -> None:
    """Wait until a question could be answered."""
    ticket = _Awaited(SystemClient(), UNSET)
    if ask(ticket, _nothing) is DEFERRED:
        if actor.in_memory:
            actor.run_ready()
        async with anyio.create_task_group() as tasks:
            for job in ticket.client.listener.jobs:
                tasks.start_soon(job)
            await ticket.settled.wait()
        _outcome(ticket)
    if ticket.result_meta is not None:
        raise out_of_sight(actor.session_id)


def _outcome(ticket: _Awaited) -> Any:
    if ticket.error is not None:
        raise ticket.error
    return ticket.result


def _nothing() -> None:
    """Do nothing: there is nothing to cancel, or to find out."""
