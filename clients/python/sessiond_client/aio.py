"""The client for anyio programs.

Tasks may share one client; their calls travel together on one connection. Each
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
from sessiond_client.generated.async_methods import AsyncMethods
from sessiond_client.generated.options import AcquireOptions, SubscribeOptions
from sessiond_client.task_leases import HeldLease
from sessiond_client.task_streams import CatalogSubscription, Offer, Subscription
from sessiond_client.task_waiting import TaskWaiter
from sessiond_client.wire import READ_ANY

__all__ = ["Client", "connect"]


def connect(
    socket_path: str | os.PathLike[str] | None = None, **options: Unpack[ConnectOptions]
) -> Client:
    """Return a client of the user's daemon, which is started if there is none; use it in `async with`.

    With a `socket_path`: of the daemon that listens there, and none is started. Raises OSError
    (`place.UnsafeFolder`) if the place of the socket is not safe.
    """
    return Client(socket_path, options)


class Client(AsyncMethods, ClientBase[TaskWaiter]):
    """Calls and subscriptions, kept over lost connections."""

    def __init__(self, socket_path: str | os.PathLike[str] | None, options: ConnectOptions) -> None:
        super().__init__(socket_path, options, TaskWaiter())

    async def __aenter__(self) -> Self:
        try:
            await self._waiter.run(self._driver.open(self._deadline(self._connect_timeout)))
        except BaseException:
            self.disconnect()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.disconnect()

    async def call(self, method: str, /, **params: Any) -> Any:
        """Return the decoded result of any method. `timeout` and `on_progress` stay here, the rest is sent."""
        return READ_ANY(await self._ask(method, params))

    async def call_raw(self, method: str, /, **params: Any) -> bytes:
        """Return the result as the bytes that came."""
        return bytes(await self._ask(method, params))

    def lease(
        self, session_id: str, ttl: float = 30.0, **options: Unpack[AcquireOptions]
    ) -> HeldLease:
        """Hold a head for this client inside the `async with`: acquired, renewed, released.

        `ttl` in seconds: other clients wait that long if this program is stopped or cut off. Moves name
        `lease_id=lease.id`, which raises `LeaseLost` once it is over.
        """
        return HeldLease(self, self._driver.conversation.standing, session_id, ttl, options)

    def subscribe(self, session_id: str, **options: Unpack[SubscribeOptions]) -> Subscription:
        """Iterate the session's events, in order and each once; from `after`, else from now.

        "Now" is when the `async with` is entered, or the first event is asked for.
        """
        with self._waiter.lock:
            waiter = self._waiter.another()
            return Subscription(self._new_feed(session_id, options, waiter), waiter)

    def subscribe_catalog(self, **options: Unpack[Timed]) -> CatalogSubscription:
        """Hints that `list` shows something else. `timeout` bounds the first answer only."""
        with self._waiter.lock:
            waiter = self._waiter.another()
            return CatalogSubscription(self._new_catalog_feed(options, waiter), waiter)

    def offer(self, **options: Unpack[OfferOptions]) -> Offer:
        """Offer help to the daemon inside the `async with`: what it asks, each to be answered.

        On a connection of its own, offered anew on every one that is made. A compaction that this
        client calls for asks its own offer first if `connect` was given a `client_id`.
        """
        with self._waiter.lock:
            waiter = self._waiter.another()
            return Offer(self._new_offer(options, waiter), waiter)

    async def _ask(self, method: str, options: Mapping[str, Any], /, **named: Any) -> Raw:
        call = self._new_call(method, {**named, **options})
        await self._waiter.run(self._driver.drive(call))
        return call.outcome()
