"""Answers that take longer than a step: one task each, which ends with the connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from anyio import CancelScope

from sessiond.errors import Cancelled, Internal, SessiondError, exhausted
from sessiond.limits import RETRY_AFTER_MS
from sessiond.model.deferred import DEFERRED
from sessiond.service.environment import Environment
from sessiond.service.ports import Ticket
from sessiond.service.progress import ProgressTeller


def run_in_background(
    ticket: Ticket,
    job: Callable[[], Awaitable[Any]],
    environment: Environment,
    give_up: Callable[[], bool] = lambda: True,
) -> None:
    """Start `job` and answer with its result.

    Cancelling the request cancels the job if `give_up` allows it. A job that returns DEFERRED has queued
    the request elsewhere. What the job reports to `ticket.progress` is told while it runs.
    """
    scope = CancelScope()

    def cancel() -> None:
        if give_up():
            scope.cancel()

    ticket.defer(cancel)
    # Most requests ask for no progress and need no teller.
    teller = ProgressTeller(ticket) if ticket.progress.token is not None else None

    async def outcome() -> Callable[[], None]:
        """Return the function that sends the answer or the error."""
        try:
            with scope:
                result = await job()
                return _word(ticket, result)
        except SessiondError as error:
            return partial(ticket.fail, error)
        except Exception as bug:  # noqa: BLE001 - one request's bug must not end other requests
            short = exhausted(bug, RETRY_AFTER_MS)
            if short is not None:
                return partial(ticket.fail, short)
            incident_id = environment.report_bug("job", bug)
            return partial(ticket.fail, Internal("a bug in sessiond", incident_id=incident_id))
        return partial(ticket.fail, Cancelled("cancelled while it was being answered"))

    async def settle() -> None:
        say = await outcome()
        if teller is not None:
            teller.end()
        say()
        ticket.flush()

    ticket.client.listener.start(settle)
    if teller is not None:
        teller.start()


def _word(ticket: Ticket, result: Any) -> Callable[[], None]:
    """Return the function that sends the answer.

    For DEFERRED it serves the gathered sessions, since no connection's chunk ends here.
    """
    if result is DEFERRED:
        run_ready: Callable[[], None] = ticket.client.chunk_done
        return run_ready
    return partial(ticket.answer, result)
