"""A stream of items that a consumer reads, over any number of connections of its own. Pure.

Law: items are put into `ready` in their order and taken once. The stream ends when it is closed,
or with one error; a lost connection is no error.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import deque
from typing import Generic, TypeVar

from msgspec import Raw

from sessiond_client.conversation import Conversation, Setup
from sessiond_client.errors import ClientClosed, RpcError, SessiondClientError, Timeout

__all__ = ["Stream"]

E = TypeVar("E")


class Stream(Conversation, Generic[E]):
    """The items that the consumer has not taken yet, and the end of the stream."""

    def __init__(self, setup: Setup, *, deadline: float) -> None:
        super().__init__(setup)
        self.ready: deque[E] = deque()
        self.error: SessiondClientError | None = None
        self.is_closed = False
        self.is_started = False
        """True once the first answer came; until then `deadline` holds."""
        self._deadline = deadline
        self._last_loss: Exception | None = None

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

    def sent(self, call_ids: list[int]) -> None:
        """Do nothing: a subscription may always be asked for again."""

    def tick(self, now: float) -> None:
        if not self.is_started and not self.is_over and now >= self._deadline:
            reason = "" if self._last_loss is None else f": {self._last_loss}"
            self.error = Timeout(f"not subscribed in time{reason}", outcome_unknown=False)
            self.error.__cause__ = self._last_loss

    def wake_at(self) -> float:
        return math.inf if self.is_started else self._deadline

    def close(self) -> None:
        self.is_closed = True

    @abstractmethod
    def _result(self, call_id: int, result: Raw) -> None:
        """One of our requests was done."""

    def _answer(self, call_id: int, answer: Raw | RpcError) -> None:
        if isinstance(answer, RpcError):
            self._last_loss = answer
            self._hang_up(answer)
            if not answer.retryable:
                self.error = answer
        else:
            self._result(call_id, answer)

    def _lost(self, error: Exception) -> None:
        self._last_loss = error

    def _refused(self, error: RpcError) -> None:
        self.error = error
