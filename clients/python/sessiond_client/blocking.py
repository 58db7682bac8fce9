"""The client for plain scripts and threads.

Generated from aio.py by scripts/unasync; run: make fix

Threads may share one client; their calls travel together on one connection. Each
subscription has a connection of its own: a consumer that is slow leaves only that
one unread, the daemon then replays it from the log, and no answer waits behind it.
The price: an event and the answer to the append it tells of come in no order; who
needs the entry in a replica waits for the answer's `seq`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self, Unpack

from msgspec import Raw

from sessiond_client.base import ClientBase
from sessiond_client.connect_options import ConnectOptions, OfferOptions, Timed
from sessiond_client.generated.blocking_methods import BlockingMethods
from sessiond_client.generated.options import AcquireOptions, SubscribeOptions
from sessiond_client.thread_leases import BlockingHeldLease
from sessiond_client.thread_streams import (
    BlockingCatalogSubscription,
    BlockingOffer,
    BlockingSubscription,
)
from sessiond_client.thread_waiting import ThreadWaiter
from sessiond_client.wire import READ_ANY

__all__ = ["BlockingClient", "connect_blocking"]


def connect_blocking(
    socket_path: str | os.PathLike[str] | None = None, **options: Unpack[ConnectOptions]
) -> BlockingClient:
    """Return a client of the user's daemon, which is started if there is none; use it in `with`.

    With a `socket_path`: of the daemon that listens there, and none is started. Raises OSError
    (`place.UnsafeFolder`) if the place of the socket is not safe.
    """
    return BlockingClient(socket_path, options)


class BlockingClient(BlockingMethods, ClientBase[ThreadWaiter]):
    """Calls and subscriptions, kept over lost connections."""

    def __init__(self, socket_path: str | os.PathLike[str] | None, options: ConnectOptions) -> None:
        super().__init__(socket_path, options, ThreadWaiter())

    def __enter__(self) -> Self:
        try:
            self._waiter.run(self._driver.open(self._deadline(self._connect_timeout)))
        except BaseException:
            self.disconnect()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def call(self, method: str, /, **params: Any) -> Any:
        """Return the decoded result of any method. `timeout` and `on_progress` stay here, the rest is sent."""
        return READ_ANY(self._ask(method, params))

    def call_raw(self, method: str, /, **params: Any) -> bytes:
        """Return the result as the bytes that came."""
        return bytes(self._ask(method, params))

    def lease(
        self, session_id: str, ttl: float = 30.0, **options: Unpack[AcquireOptions]
    ) -> BlockingHeldLease:
        """Hold a head for this client inside the `with`: acquired, renewed, released.

        `ttl` in seconds: other clients wait that long if this program is stopped or cut off. Moves name
        `lease_id=lease.id`, which raises `LeaseLost` once it is over.
        """
        return BlockingHeldLease(self, self._driver.conversation.standing, session_id, ttl, options)

    def subscribe(
        self, session_id: str, **options: Unpack[SubscribeOptions]
    ) -> BlockingSubscription:
        """Iterate the session's events, in order and each once; from `after`, else from now.

        "Now" is when the `with` is entered, or the first event is asked for.
        """
        with self._waiter.lock:
            waiter = self._waiter.another()
            return BlockingSubscription(self._new_feed(session_id, options, waiter), waiter)

    def subscribe_catalog(self, **options: Unpack[Timed]) -> BlockingCatalogSubscription:
        """Hints that `list` shows something else. `timeout` bounds the first answer only."""
        with self._waiter.lock:
            waiter = self._waiter.another()
            return BlockingCatalogSubscription(self._new_catalog_feed(options, waiter), waiter)

    def offer(self, **options: Unpack[OfferOptions]) -> BlockingOffer:
        """BlockingOffer help to the daemon inside the `with`: what it asks, each to be answered.

        On a connection of its own, offered anew on every one that is made. A compaction that this
        client calls for asks its own offer first if `connect_blocking` was given a `client_id`.
        """
        with self._waiter.lock:
            waiter = self._waiter.another()
            return BlockingOffer(self._new_offer(options, waiter), waiter)

    def _ask(self, method: str, options: Mapping[str, Any], /, **named: Any) -> Raw:
        call = self._new_call(method, {**named, **options})
        self._waiter.run(self._driver.drive(call))
        return call.outcome()
