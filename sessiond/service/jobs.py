"""Answers that take longer than a step: a task each, which ends with the connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from anyio import CancelScope

from sessiond.errors import Cancelled, Internal, SessiondError
from sessiond.service.ports import Environment, Ticket

__all__ = ["answer_later"]


def answer_later(
    ticket: Ticket, job: Callable[[], Awaitable[Any]], environment: Environment
) -> None:
    """Start `job` and answer with its result; cancelling the request cancels it."""
    scope = CancelScope()
    ticket.defer(scope.cancel)

    async def run() -> None:
        with scope:
            ticket.answer(await job())
        if scope.cancelled_caught:
            ticket.fail(Cancelled("cancelled while it was being answered"))

    async def settle() -> None:
        try:
            await run()
        except SessiondError as error:
            ticket.fail(error)
        except Exception as bug:  # noqa: BLE001 - one request's bug must not end the others
            incident_id = environment.report_bug("job", bug)
            ticket.fail(Internal("a bug in sessiond", incident_id=incident_id))
        ticket.flush()

    ticket.client.listener.start(settle)
