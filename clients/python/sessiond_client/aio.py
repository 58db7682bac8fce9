"""The client for anyio programs.

Tasks may share one client; their calls travel together on one connection. Each
subscription has a connection of its own: a consumer that is slow leaves only that
one unread, the daemon then replays it from the log, and no answer waits behind it.
The price: an event and the answer to the append it tells of come in no order; who
needs the entry in a replica waits for the answer's `seq`.
"""

from __future__ import annotations

import math
import os
import random
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Generic, Self, TypeVar, Unpack, get_args

from msgspec import Raw

from sessiond_client.calls import Call
from sessiond_client.connect_options import ConnectOptions, Hook, OfferOptions, Timed, wire_params
from sessiond_client.connection_state import ConnectionState
from sessiond_client.conversation import Setup
from sessiond_client.driver import CallDriver, StreamDriver
from sessiond_client.events import Event
from sessiond_client.exchange import Exchange
from sessiond_client.feed import Feed
from sessiond_client.generated.async_methods import AsyncMethods
from sessiond_client.generated.messages import CatalogChanged, Cursor, StateChanged
from sessiond_client.generated.options import AcquireOptions, SubscribeOptions
from sessiond_client.limits import TIMEOUT_DEFAULT
from sessiond_client.offering import Asked, Offering
from sessiond_client.reach import way_to
from sessiond_client.stream import HintFeed, Stream
from sessiond_client.task_leases import HeldLease
from sessiond_client.task_waiting import TaskDrivers, TaskWaiter
from sessiond_client.versions import Introduction, warn
from sessiond_client.wire import READ_ANY

__all__ = ["CatalogSubscription", "Client", "Offer", "StateSubscription", "Subscription", "connect"]

S = TypeVar("S", bound=Stream[Any])
E = TypeVar("E")
H = TypeVar("H", bound=CatalogChanged | StateChanged)

_NEW_ENTRY_ID: Final = partial(secrets.token_hex, 16)


class _Items(Generic[S, E]):
    """An endless iterator. Ends when it or its client is closed."""

    def __init__(self, driver: StreamDriver[S, TaskWaiter]) -> None:
        self._driver = driver

    def close(self) -> None:
        """End the subscription and its connection; with the blocking client from any thread."""
        self._driver.close()

    async def __aenter__(self) -> Self:
        try:
            await self._driver.waiter.run(self._driver.start())
            self._driver.conversation.require_started()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                await self._finish()
        finally:
            self.close()

    async def _finish(self) -> None:
        return

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        stream = self._driver.conversation
        if not stream.ready:
            # One checkpoint per read of the socket, not per item of it.
            await self._driver.waiter.run(self._driver.next())
        item: E | None = stream.take()
        if item is None:
            raise StopAsyncIteration
        return item


class Subscription(_Items[Feed, Event]):
    """The events of a session, endless. Ends when it or its client is closed."""

    @property
    def position(self) -> Cursor | None:
        """Return the cursor at which a later subscription goes on: give it as `after`."""
        return self._driver.conversation.position

    def request_flush(self) -> None:
        """Ask for a `Flushed` among the events, behind every entry stored by now."""
        self._driver.act(self._driver.conversation.flush)


class _Hints(_Items[HintFeed[H], H]):
    @property
    def revision(self) -> int | None:
        """The newest revision known; None before the first answer."""
        return self._driver.conversation.revision


class CatalogSubscription(_Hints[CatalogChanged]):
    """Hints of the catalog, endless. Ends when it or its client is closed."""


class StateSubscription(_Hints[StateChanged]):
    """Hints of the state store, endless. Ends when it or its client is closed."""


class Offer(_Items[Offering, Asked]):
    """Requests of the daemon to this client. The iterator ends when it or its client is closed.

    An offer is read while the next request is asked for. Do long work in another task or thread:
    until the next step no further request is seen, and no withdrawal of one.
    """

    async def _finish(self) -> None:
        await self._driver.waiter.run(self._driver.finish())


def connect(
    socket_path: str | os.PathLike[str] | None = None, **options: Unpack[ConnectOptions]
) -> Client:
    """Return a client of the user's daemon, which is started if there is none; use it in `async with`.

    With a `socket_path`: of the daemon that listens there, and none is started. Raises OSError
    (`place.UnsafeFolder`) if the place of the socket is not safe. Entering the client raises
    ForeignSocket if another user listens there.
    """
    return Client(socket_path, options)


class Client(AsyncMethods):
    """Calls and subscriptions, kept over lost connections."""

    def __init__(self, socket_path: str | os.PathLike[str] | None, options: ConnectOptions) -> None:
        hello = {key: value for key, value in options.items() if key in {"client_id", "access"}}
        self._reach = way_to(socket_path, options)
        self._timeout = options.get("timeout", TIMEOUT_DEFAULT)
        self._connect_timeout = options.get("connect_timeout", 0.0)
        self._setup = Setup(hello=hello or None, random=random.random)
        met = Introduction(options.get("on_daemon", warn))
        calls = Setup(hello=hello, random=random.random, introduction=met)
        self._drivers = TaskDrivers(
            lambda waiter: CallDriver(Exchange(calls), self._reach(for_calls=True), waiter)
        )
        self._streams: list[StreamDriver[Any, TaskWaiter]] = []

    async def __aenter__(self) -> Self:
        try:
            driver = self._drivers.here()
            await driver.waiter.run(driver.open(TaskWaiter.clock() + self._connect_timeout))
        except BaseException:
            self.disconnect()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        """Close every connection; a call that still waits gets `ClientClosed`."""
        self._drivers.close()
        for driver in self._streams:
            driver.close()

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
        return HeldLease(self, self._standing, session_id, ttl, options)

    def subscribe(self, session_id: str, **options: Unpack[SubscribeOptions]) -> Subscription:
        """Iterate the session's events, in order and each once; from `after`, else from now.

        "Now" is when the `async with` is entered, or the first event is asked for.
        """
        feed = Feed(self._setup, session_id, options, deadline=self._deadline(options))
        return Subscription(self._driven(feed))

    def subscribe_catalog(self, **options: Unpack[Timed]) -> CatalogSubscription:
        """Hints that `list` shows something else. `timeout` bounds the first answer only."""
        feed = HintFeed(self._setup, CatalogChanged, {}, deadline=self._deadline(options))
        return CatalogSubscription(self._driven(feed))

    def subscribe_state(
        self, namespace: str | None = None, **options: Unpack[Timed]
    ) -> StateSubscription:
        """Iterate hints that values have changed. `timeout` bounds the first answer only."""
        params = {} if namespace is None else {"namespace": namespace}
        feed = HintFeed(self._setup, StateChanged, params, deadline=self._deadline(options))
        return StateSubscription(self._driven(feed))

    def offer(self, **options: Unpack[OfferOptions]) -> Offer:
        """Offer help to the daemon inside the `async with`: what it asks, each to be answered.

        On a connection of its own, offered anew on every one that is made. A summary that this
        client calls for asks its own offer first if `connect` was given a `client_id`.
        """
        offered, wanted = options.get("hooks", False), options.get("summarize", False)
        hooks = get_args(Hook) if offered is True else tuple(offered or ())
        summarize = wanted if isinstance(wanted, bool) else tuple(wanted)
        if not (hooks or summarize):
            raise ValueError("offer something: summarize=True, or hooks")
        deadline = self._deadline(options)
        offering = Offering(self._setup, summarize=summarize, hooks=hooks, deadline=deadline)
        driver = self._driven(offering)
        offering.reply = lambda asked, frame: driver.act(lambda: offering.put(asked, frame))
        return Offer(driver)

    async def _ask(self, method: str, options: Mapping[str, Any], /, **named: Any) -> Raw:
        call = Call(
            method,
            {**named, **wire_params(options)},
            deadline=self._deadline(options),
            new_id=_NEW_ENTRY_ID,
            on_progress=options.get("on_progress"),
            patience=options.get("timeout", self._timeout) or 0.0,
        )
        driver = self._drivers.here()
        await driver.waiter.run(driver.ask(call))
        return call.outcome()

    def _standing(self) -> ConnectionState:
        return self._drivers.here().conversation.standing

    def _driven(self, stream: S) -> StreamDriver[S, TaskWaiter]:
        """Return what drives a new stream."""
        with self._drivers.lock:
            driver = StreamDriver(stream, self._reach(), self._drivers.waiter())
            self._streams = [known for known in self._streams if not known.is_released]
            self._streams.append(driver)
        return driver

    def _deadline(self, options: Mapping[str, Any]) -> float:
        timeout = options.get("timeout", self._timeout)
        return math.inf if timeout is None else TaskWaiter.clock() + timeout
