"""Calls and an exchange without a socket, for the tests of the client's core."""

from __future__ import annotations

from typing import Any

from sessiond_client.calls import Call
from sessiond_client.conversation import Setup
from sessiond_client.exchange import Exchange
from tests.kit.far_end import Daemon

SETUP = Setup(hello=None, random=lambda: 1.0)
OVERLOADED = {"code": -32001, "kind": "overloaded", "retryable": True}
DRAINING = {"code": -32023, "kind": "draining", "retryable": True, "retry_after_ms": 700}


def new_call(method: str, params: dict[str, Any] | None = None, *, deadline: float = 30.0) -> Call:
    """Return a call, the ids of which are id0, id1 and so on."""
    ids = iter(f"id{number}" for number in range(100))
    return Call(method, params or {}, deadline=deadline, new_id=lambda: next(ids))


def exchange_with(*calls: Call) -> tuple[Exchange, Daemon]:
    """Return an exchange with these calls, and the far end of the exchange."""
    exchange = Exchange(SETUP)
    for call in calls:
        exchange.submit(call)
    return exchange, Daemon(exchange)
