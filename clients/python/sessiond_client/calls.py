"""One request and what becomes of it. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum, auto

from msgspec import Raw

from sessiond_client.connect_options import OnProgress
from sessiond_client.errors import SessiondClientError
from sessiond_client.requests import Request

__all__ = ["Call", "CallState"]


class CallState(Enum):
    """The progress of a call."""

    QUEUED = auto()  # no byte has left
    SENT = auto()
    DELAYED = auto()  # refused for now, `due` says when to send again
    SETTLED = auto()


class Call:
    """One request and its outcome."""

    def __init__(
        self, request: Request, deadline: float, on_progress: OnProgress | None = None
    ) -> None:
        self.request = request
        self.deadline = deadline
        self.on_progress = on_progress
        self.result: Raw | None = None
        self.error: SessiondClientError | None = None
        self.wake: Callable[[], None] | None = None
        """Set by the caller that waits while another call reads for both."""
        self.id = 0
        self.frame = b""
        self.state = CallState.QUEUED
        self.due = math.inf
        self.losses = 0
        self.refusals = 0
        self.is_outcome_unknown = False

    @property
    def is_settled(self) -> bool:
        """True once the call has its answer or its error."""
        return self.state is CallState.SETTLED

    def outcome(self) -> Raw:
        """Return the result of a settled call, or its error raised."""
        if self.error is not None:
            raise self.error
        assert self.result is not None, "not settled, or abandoned"
        return self.result

    def settle(self, outcome: Raw | SessiondClientError | None) -> None:
        """End the call and wakes its waiter."""
        assert self.state is not CallState.SETTLED
        self.state = CallState.SETTLED
        if isinstance(outcome, SessiondClientError):
            self.error = outcome
        else:
            self.result = outcome
        if self.wake is not None:
            self.wake()
