"""What the blocking client iterates: events of a session, hints of the catalog, requests."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from sessiond_client.asked import Asked
from sessiond_client.catalog import CatalogChanged, CatalogFeed
from sessiond_client.driver import FeedDriver, StreamDriver
from sessiond_client.events import Cursor, Event
from sessiond_client.offer_driver import OfferDriver
from sessiond_client.steps import Wait
from sessiond_client.stream import Stream
from sessiond_client.waiting import ThreadWaiter

__all__ = ["BlockingCatalogSubscription", "BlockingOffer", "BlockingSubscription"]

E = TypeVar("E")


class _Items(Generic[E]):
    """An endless iterator. Ends when it or its client is closed."""

    def __init__(self, stream: Stream[E], driver: StreamDriver[Any], waiter: ThreadWaiter) -> None:
        self._stream = stream
        self._steps = driver
        self._waiter = waiter

    def close(self) -> None:
        """Ends the subscription and its connection; from any thread."""
        with self._waiter.lock:
            self._steps.close()

    def __enter__(self) -> Self:
        try:
            self._wait(self._steps.start())
            self._stream.require_started()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> E:
        if not self._stream.ready:
            self._wait(self._steps.next())
        item = self._stream.take()
        if item is None:
            raise StopIteration
        return item

    def _wait(self, steps: Generator[Wait, None, None]) -> None:
        with self._waiter.lock, closing(steps):
            for step in steps:
                self._waiter.wait(step)


class BlockingSubscription(_Items[Event]):
    """The events of a session, endless. Ends when it or its client is closed."""

    def __init__(self, driver: FeedDriver, waiter: ThreadWaiter) -> None:
        super().__init__(driver.conversation, driver, waiter)
        self._driver = driver

    @property
    def position(self) -> Cursor | None:
        """Where a later subscription goes on: give it as `after`."""
        return self._driver.conversation.position

    def request_flush(self) -> None:
        """Asks for a `Flushed` among the events, behind every entry stored by now."""
        with self._waiter.lock:
            self._driver.request_flush()


class BlockingCatalogSubscription(_Items[CatalogChanged]):
    """Hints of the catalog, endless. Ends when it or its client is closed."""

    def __init__(self, driver: StreamDriver[CatalogFeed], waiter: ThreadWaiter) -> None:
        super().__init__(driver.conversation, driver, waiter)
        self._driver = driver

    @property
    def revision(self) -> int | None:
        """The newest one known; None before the first answer."""
        return self._driver.conversation.revision


class BlockingOffer(_Items[Asked]):
    """What the daemon asks of this client, endless. Ends when it or its client is closed.

    It is read while the next request is asked for: what takes long is done in a thread beside, or
    nothing else is heard of meanwhile, not even that it is withdrawn.
    """

    def __init__(self, driver: OfferDriver, waiter: ThreadWaiter) -> None:
        super().__init__(driver.conversation, driver, waiter)
        self._driver = driver

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._wait(self._driver.finish())
        finally:
            self.close()
