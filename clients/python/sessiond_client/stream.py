"""Streams of items that a consumer reads, over any number of connections of their own. Pure.

Law: items are put into `ready` in their order and taken once. A stream ends when it is closed,
or with one error; a lost connection is no error.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

from msgspec import Raw

from sessiond_client import wire
from sessiond_client.conversation import Conversation, Setup
from sessiond_client.errors import (
    ClientClosed,
    ProtocolViolation,
    RpcError,
    SessiondClientError,
    Timeout,
)
from sessiond_client.generated.messages import CatalogChanged, StateChanged, WatchResult

__all__ = ["SUBSCRIBE_ID", "HintFeed", "Stream"]

E = TypeVar("E")
H = TypeVar("H", bound=CatalogChanged | StateChanged)

SUBSCRIBE_ID: Final = 1


class Stream(Conversation, Generic[E]):
    """The items that the consumer has not taken yet, and the end of the stream."""

    def __init__(self, setup: Setup, *, deadline: float) -> None:
        super().__init__(setup)
        self.ready: deque[E] = deque()
        self.error: SessiondClientError | None = None
        self.is_started = False
        """True once the first answer came; until then `deadline` holds."""
        self._deadline = deadline

    @property
    def is_over(self) -> bool:
        """True if no more items will come."""
        return self.is_closed or self.error is not None

    def take(self) -> E | None:
        """Return the next item; None if there is none. Raises, once, what ended the stream."""
        if self.ready:
            return self.ready.popleft()
        if self.error is not None and not self.is_closed:
            self.is_closed = True
            raise self.error
        return None

    def require_started(self) -> None:
        """Raise the error that ended the stream before it began."""
        if not self.is_started:
            self.take()
            raise ClientClosed("closed before it was subscribed")

    def tick(self, now: float) -> None:
        if not self.is_started and not self.is_over and now >= self._deadline:
            reason = "" if self.last_loss is None else f": {self.last_loss}"
            self.error = Timeout(f"not subscribed in time{reason}", outcome_unknown=False)
            self.error.__cause__ = self.last_loss

    def wake_at(self) -> float:
        return math.inf if self.is_started else self._deadline

    def _message(self, message: wire.Incoming) -> None:
        # A given-up connection decides nothing more: the next one asks again what was asked on it.
        if self.broken is None:
            super()._message(message)

    def _answer(self, call_id: int, answer: Raw | RpcError) -> None:
        if isinstance(answer, RpcError):
            self._hang_up(answer)
            if not answer.retryable:
                self.error = answer
        else:
            self._result(call_id, answer)

    def _result(self, call_id: int, result: Raw) -> None:  # noqa: ARG002 - nothing is asked here
        """One of our requests was done."""
        raise ProtocolViolation(f"an answer to {call_id}, which was not asked")

    def _refused(self, error: RpcError) -> None:
        self.error = error


class HintFeed(Stream[H]):
    """Hints that something has changed; what is true is what `list` and `state_get` say.

    A hint that may have been missed while there was no connection is made up for by one that says "many".
    """

    revision: int | None = None
    """The newest one known."""

    def __init__(
        self, setup: Setup, kind: type[H], params: Mapping[str, Any], *, deadline: float
    ) -> None:
        """Take the hints of a kind; `params` are those of the subscription and of a "many"."""
        super().__init__(setup, deadline=deadline)
        self._kind = kind
        self._params = params
        self._area = "catalog" if kind is CatalogChanged else "state"

    def _begin(self) -> None:
        self.outgoing.put(wire.request(SUBSCRIBE_ID, f"{self._area}/subscribe", self._params))

    def _result(self, call_id: int, result: Raw) -> None:  # noqa: ARG002 - there is one request
        revision = wire.read(WatchResult, result).revision
        # Namespaces become durable in any order, so the store's revision does not show what was missed.
        if self.revision is not None and (self._area == "state" or revision != self.revision):
            self.ready.append(self._kind(revision, **self._params))
        self.revision = revision
        self.is_started = True

    def _notification(self, method: str, params: Raw) -> None:
        if method == f"{self._area}/changed":
            changed = wire.read(self._kind, params)
            self.revision = changed.revision
            self.ready.append(changed)
