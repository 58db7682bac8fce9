"""What the anyio client iterates: events of a session, hints of the catalog, requests."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from anyio.lowlevel import checkpoint

from sessiond_client.asked import Asked
from sessiond_client.catalog import CatalogChanged, CatalogFeed
from sessiond_client.driver import FeedDriver, StreamDriver
from sessiond_client.events import Cursor, Event
from sessiond_client.offer_driver import OfferDriver
from sessiond_client.steps import Wait
from sessiond_client.stream import Stream
from sessiond_client.waiting import TaskWaiter

__all__ = ["CatalogSubscription", "Offer", "Subscription"]

E = TypeVar("E")


class _Items(Generic[E]):
    """An endless iterator. Ends when it or its client is closed."""

    def __init__(self, stream: Stream[E], driver: StreamDriver[Any], waiter: TaskWaiter) -> None:
        self._stream = stream
        self._steps = driver
        self._waiter = waiter

    def close(self) -> None:
        """Ends the subscription and its connection."""
        self._steps.close()

    async def __aenter__(self) -> Self:
        try:
            await self._wait(self._steps.start())
            self._stream.require_started()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        if not self._stream.ready:
            # One checkpoint per read of the socket, not per item of it.
            await self._wait(self._steps.next())
        item = self._stream.take()
        if item is None:
            raise StopAsyncIteration
        return item

    async def _wait(self, steps: Generator[Wait, None, None]) -> None:
        await checkpoint()
        with closing(steps):
            for step in steps:
                await self._waiter.wait(step)


class Subscription(_Items[Event]):
    """The events of a session, endless. Ends when it or its client is closed."""

    def __init__(self, driver: FeedDriver, waiter: TaskWaiter) -> None:
        super().__init__(driver.conversation, driver, waiter)
        self._driver = driver

    @property
    def position(self) -> Cursor | None:
        """Where a later subscription goes on: give it as `after`."""
        return self._driver.conversation.position

    def request_flush(self) -> None:
        """Asks for a `Flushed` among the events, behind every entry stored by now."""
        self._driver.request_flush()


class CatalogSubscription(_Items[CatalogChanged]):
    """Hints of the catalog, endless. Ends when it or its client is closed."""

    def __init__(self, driver: StreamDriver[CatalogFeed], waiter: TaskWaiter) -> None:
        super().__init__(driver.conversation, driver, waiter)
        self._driver = driver

    @property
    def revision(self) -> int | None:
        """The newest one known; None before the first answer."""
        return self._driver.conversation.revision


class Offer(_Items[Asked]):
    """What the daemon asks of this client, endless. Ends when it or its client is closed.

    It is read while the next request is asked for: what takes long is done in a task beside, or
    nothing else is heard of meanwhile, not even that it is withdrawn.
    """

    def __init__(self, driver: OfferDriver, waiter: TaskWaiter) -> None:
        super().__init__(driver.conversation, driver, waiter)
        self._driver = driver

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                await self._wait(self._driver.finish())
        finally:
            self.close()
