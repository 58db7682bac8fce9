"""The iterators of the blocking client: events of a session, hints of the catalog, requests.

Generated from task_streams.py by scripts/unasync; run: make fix
"""

from __future__ import annotations

from typing import Any, Generic, Self, TypeVar

from sessiond_client.asked import Asked
from sessiond_client.catalog import CatalogFeed
from sessiond_client.driver import FeedDriver, OfferDriver, StreamDriver
from sessiond_client.events import Event
from sessiond_client.generated.messages import CatalogChanged, Cursor
from sessiond_client.thread_waiting import ThreadWaiter

__all__ = ["BlockingCatalogSubscription", "BlockingOffer", "BlockingSubscription"]

D = TypeVar("D", bound=StreamDriver[Any])
E = TypeVar("E")


class _Items(Generic[D, E]):
    """An endless iterator. Ends when it or its client is closed."""

    def __init__(self, driver: D, waiter: ThreadWaiter) -> None:
        self._driver = driver
        self._waiter = waiter

    def close(self) -> None:
        """End the subscription and its connection; with the blocking client from any thread."""
        with self._waiter.lock:
            self._driver.close()

    def __enter__(self) -> Self:
        try:
            self._waiter.run(self._driver.start())
            self._driver.conversation.require_started()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self.close()

    def _finish(self) -> None:
        return

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> E:
        stream = self._driver.conversation
        if not stream.ready:
            # One checkpoint per read of the socket, not per item of it.
            self._waiter.run(self._driver.next())
        item: E | None = stream.take()
        if item is None:
            raise StopIteration
        return item


class BlockingSubscription(_Items[FeedDriver, Event]):
    """The events of a session, endless. Ends when it or its client is closed."""

    @property
    def position(self) -> Cursor | None:
        """Return the cursor at which a later subscription goes on: give it as `after`."""
        return self._driver.conversation.position

    def request_flush(self) -> None:
        """Ask for a `Flushed` among the events, behind every entry stored by now."""
        with self._waiter.lock:
            self._driver.request_flush()


class BlockingCatalogSubscription(_Items[StreamDriver[CatalogFeed], CatalogChanged]):
    """Hints of the catalog, endless. Ends when it or its client is closed."""

    @property
    def revision(self) -> int | None:
        """The newest revision known; None before the first answer."""
        return self._driver.conversation.revision


class BlockingOffer(_Items[OfferDriver, Asked]):
    """Requests of the daemon to this client. The iterator ends when it or its client is closed.

    An offer is read while the next request is asked for. Do long work in another task or thread:
    until the next step no further request is seen, and no withdrawal of one.
    """

    def _finish(self) -> None:
        self._waiter.run(self._driver.finish())
