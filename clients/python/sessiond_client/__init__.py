"""A client of sessiond, the daemon that owns coding-agent sessions.

    async with sessiond_client.connect(socket_path) as client:
        session = (await client.create(cwd="/my/project")).session
        await client.append(session.id, message={"role": "user", "content": "hi"})

`connect` is for anyio programs, `connect_blocking` for scripts and threads; the
surface is the same. It imports nothing of sessiond: the wire is all they share.
"""

from __future__ import annotations

from sessiond_client.aio import Client, Subscription, connect
from sessiond_client.blocking import BlockingClient, BlockingSubscription, connect_blocking
from sessiond_client.errors import (
    ClientClosed,
    ConnectionLost,
    ProtocolViolation,
    RpcError,
    SessiondClientError,
    Timeout,
)
from sessiond_client.events import (
    Cursor,
    EntryEvent,
    Event,
    Flushed,
    Lagged,
    Notice,
    Replaced,
    Synced,
)

__all__ = [
    "BlockingClient",
    "BlockingSubscription",
    "Client",
    "ClientClosed",
    "ConnectionLost",
    "Cursor",
    "EntryEvent",
    "Event",
    "Flushed",
    "Lagged",
    "Notice",
    "ProtocolViolation",
    "Replaced",
    "RpcError",
    "SessiondClientError",
    "Subscription",
    "Synced",
    "Timeout",
    "__version__",
    "connect",
    "connect_blocking",
]

__version__ = "0.1.0"
