"""The common part of the two clients beside the driver: options become calls and feeds."""

from __future__ import annotations

import math
import os
import random
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar, get_args

from sessiond_client.calls import Call
from sessiond_client.catalog import CatalogFeed
from sessiond_client.connect_options import ConnectOptions, Hook, OfferOptions
from sessiond_client.conversation import Setup
from sessiond_client.driver import CallDriver, FeedDriver, OfferDriver, StreamDriver
from sessiond_client.exchange import Exchange
from sessiond_client.feed import Feed
from sessiond_client.limits import TIMEOUT_DEFAULT
from sessiond_client.offering import Offering
from sessiond_client.place import socket_place
from sessiond_client.port import Port
from sessiond_client.requests import prepare
from sessiond_client.starting import Reach, Start, start_command
from sessiond_client.steps import Outside, Shell, Waiter

__all__ = ["ClientBase"]


D = TypeVar("D", bound=StreamDriver[Any])
W = TypeVar("W", bound=Shell)


class ClientBase(Generic[W]):
    """A client without a way to wait."""

    def __init__(
        self, socket_path: str | os.PathLike[str] | None, options: ConnectOptions, waiter: W
    ) -> None:
        hello = {key: value for key, value in options.items() if key in {"client_id", "access"}}
        self._reach = _reach(socket_path, options)
        self._timeout = options.get("timeout", TIMEOUT_DEFAULT)
        self._connect_timeout = options.get("connect_timeout", 0.0)
        self._setup = Setup(hello=hello or None, random=random.random)
        self._waiter = waiter
        self._driver = CallDriver(Exchange(self._setup), self._outside(waiter))
        self._streams: list[StreamDriver[Any]] = []

    def disconnect(self) -> None:
        """Close every connection; a call that still waits gets `ClientClosed`."""
        with self._waiter.lock:
            self._driver.close()
            for stream in self._streams:
                stream.close()

    def _new_call(self, method: str, params: Mapping[str, Any]) -> Call:
        wanted = dict(params)
        deadline = self._deadline(wanted.pop("timeout", self._timeout))
        on_progress = wanted.pop("on_progress", None)
        return Call(prepare(method, wanted, new_id=_new_entry_id), deadline, on_progress)

    def _new_feed(self, session_id: str, params: Mapping[str, Any], waiter: Waiter) -> FeedDriver:
        wanted = dict(params)
        deadline = self._deadline(wanted.pop("timeout", self._timeout))
        feed = Feed(self._setup, session_id, wanted, deadline=deadline)
        return self._keep(FeedDriver(feed, self._outside(waiter)))

    def _new_catalog_feed(
        self, params: Mapping[str, Any], waiter: Waiter
    ) -> StreamDriver[CatalogFeed]:
        deadline = self._deadline(params.get("timeout", self._timeout))
        feed = CatalogFeed(self._setup, deadline=deadline)
        return self._keep(StreamDriver(feed, self._outside(waiter)))

    def _new_offer(self, options: OfferOptions, waiter: Waiter) -> OfferDriver:
        offered, wanted = options.get("hooks", False), options.get("summarize", False)
        hooks = get_args(Hook) if offered is True else tuple(offered or ())
        if not (hooks or wanted):
            raise ValueError("offer something: summarize=True, or hooks")
        deadline = self._deadline(options.get("timeout", self._timeout))
        offering = Offering(self._setup, summarize=wanted, hooks=hooks, deadline=deadline)
        return self._keep(OfferDriver(offering, self._outside(waiter)))

    def _keep(self, driver: D) -> D:
        self._streams = [other for other in self._streams if not other.is_released]
        self._streams.append(driver)
        return driver

    def _outside(self, waiter: Waiter) -> Outside:
        return Outside(reach=self._reach, clock=self._waiter.clock, waiter=waiter)

    def _deadline(self, timeout: float | None) -> float:
        return math.inf if timeout is None else self._waiter.clock() + timeout


def _reach(
    socket_path: str | os.PathLike[str] | None, options: ConnectOptions
) -> Callable[[], Reach]:
    profile, home = options.get("profile"), options.get("home")
    # Said once: a change of the environment does not lead a client to another daemon.
    environ = dict(os.environ)
    place = socket_place(environ, socket=socket_path, profile=profile, home=home)

    def launch(until: float) -> Start:
        command = partial(start_command, environ, socket=socket_path, profile=profile, home=home)
        return Start(command, environ, until=until)

    may_start = options.get("start", socket_path is None)
    return partial(Reach, partial(Port, place), launch if may_start else None)


def _new_entry_id() -> str:
    return secrets.token_hex(16)
