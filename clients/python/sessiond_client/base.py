"""The common part of the two clients beside the driver: options become calls and streams."""

from __future__ import annotations

import math
import os
import random
import secrets
from collections.abc import Mapping
from typing import Any, Generic, TypeVar, get_args

from sessiond_client.calls import Call
from sessiond_client.connect_options import ConnectOptions, Hook, OfferOptions
from sessiond_client.conversation import Setup
from sessiond_client.driver import CallDriver, StreamDriver
from sessiond_client.exchange import Exchange
from sessiond_client.limits import TIMEOUT_DEFAULT
from sessiond_client.offering import Offering
from sessiond_client.reach import way_to
from sessiond_client.steps import Waiter
from sessiond_client.stream import Stream

__all__ = ["ClientBase"]


S = TypeVar("S", bound=Stream[Any])
W = TypeVar("W", bound=Waiter)


class ClientBase(Generic[W]):
    """A client without a way to wait."""

    def __init__(
        self, socket_path: str | os.PathLike[str] | None, options: ConnectOptions, waiter: W
    ) -> None:
        hello = {key: value for key, value in options.items() if key in {"client_id", "access"}}
        self._reach = way_to(socket_path, options)
        self._timeout = options.get("timeout", TIMEOUT_DEFAULT)
        self._connect_timeout = options.get("connect_timeout", 0.0)
        self._setup = Setup(hello=hello or None, random=random.random)
        self._waiter = waiter
        self._driver = CallDriver(Exchange(self._setup), self._reach(), waiter)
        self._streams: list[StreamDriver[Any]] = []

    def disconnect(self) -> None:
        """Close every connection; a call that still waits gets `ClientClosed`."""
        for driver in (self._driver, *self._streams):
            driver.close()

    def _new_call(self, method: str, options: Mapping[str, Any]) -> Call:
        params = dict(options)
        deadline = self._deadline(params)
        params.pop("timeout", None)
        on_progress = params.pop("on_progress", None)
        return Call(
            method, params, deadline=deadline, new_id=_new_entry_id, on_progress=on_progress
        )

    def _new_offer(self, options: OfferOptions) -> tuple[StreamDriver[Offering], W]:
        offered, wanted = options.get("hooks", False), options.get("summarize", False)
        hooks = get_args(Hook) if offered is True else tuple(offered or ())
        if not (hooks or wanted):
            raise ValueError("offer something: summarize=True, or hooks")
        deadline = self._deadline(options)
        offering = Offering(self._setup, summarize=wanted, hooks=hooks, deadline=deadline)
        driver, waiter = self._driven(offering)
        offering.reply = lambda asked, frame: driver.act(lambda: offering.put(asked, frame))
        return driver, waiter

    def _driven(self, stream: S) -> tuple[StreamDriver[S], W]:
        """Return what drives a new stream, and what waits for it."""
        with self._waiter.lock:
            waiter = self._waiter.another()
            driver = StreamDriver(stream, self._reach(), waiter)
            self._streams = [known for known in self._streams if not known.is_released]
            self._streams.append(driver)
        return driver, waiter

    def _deadline(self, options: Mapping[str, Any]) -> float:
        timeout = options.get("timeout", self._timeout)
        return math.inf if timeout is None else self._waiter.clock() + timeout


def _new_entry_id() -> str:
    return secrets.token_hex(16)
