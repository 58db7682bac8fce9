"""A client of sessiond, the daemon that owns coding-agent sessions.

    async with sessiond_client.connect(socket_path) as client:
        session = (await client.create(cwd="/my/project")).session
        await client.append(session.id, message={"role": "user", "content": "hi"})

`connect` is for anyio programs, `connect_blocking` for scripts and threads; both have equal
methods. The package imports nothing of sessiond: client and daemon share the wire only.

The names below are imported at their first use: a program that only looks for the
daemon (`sessiond_client.place`) does not wait for anyio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessiond_client.aio import Client, connect
    from sessiond_client.asked import Asked, BeforeBranch, BeforeCompact, BeforeFork, Summarize
    from sessiond_client.blocking import BlockingClient, connect_blocking
    from sessiond_client.errors import (
        ClientClosed,
        ConnectionLost,
        LeaseLost,
        ProtocolViolation,
        RpcError,
        SessiondClientError,
        Timeout,
    )
    from sessiond_client.events import (
        CatalogChanged,
        Changed,
        Cursor,
        EntryEvent,
        Event,
        Flushed,
        Lagged,
        Notice,
        Presence,
        Present,
        Replaced,
        Signal,
        Synced,
    )
    from sessiond_client.task_leases import HeldLease
    from sessiond_client.task_streams import CatalogSubscription, Offer, Subscription
    from sessiond_client.thread_leases import BlockingHeldLease
    from sessiond_client.thread_streams import (
        BlockingCatalogSubscription,
        BlockingOffer,
        BlockingSubscription,
    )

__all__ = [
    "Asked",
    "BeforeBranch",
    "BeforeCompact",
    "BeforeFork",
    "BlockingCatalogSubscription",
    "BlockingClient",
    "BlockingHeldLease",
    "BlockingOffer",
    "BlockingSubscription",
    "CatalogChanged",
    "CatalogSubscription",
    "Changed",
    "Client",
    "ClientClosed",
    "ConnectionLost",
    "Cursor",
    "EntryEvent",
    "Event",
    "Flushed",
    "HeldLease",
    "Lagged",
    "LeaseLost",
    "Notice",
    "Offer",
    "Presence",
    "Present",
    "ProtocolViolation",
    "Replaced",
    "RpcError",
    "SessiondClientError",
    "Signal",
    "Subscription",
    "Summarize",
    "Synced",
    "Timeout",
    "__version__",
    "connect",
    "connect_blocking",
]

__version__ = "0.1.0"

# What the names above come from, the quicker to import first.
_MODULES = (
    *("errors", "events", "asked", "thread_streams", "thread_leases", "blocking"),
    *("task_streams", "task_leases", "aio"),
)

if not TYPE_CHECKING:  # a checker would take it for leave to ask for anything

    def __getattr__(name):
        """Import a name at its first use, and keep it here."""
        from importlib import import_module

        for home in _MODULES if name in __all__ else ():
            module = import_module(f"{__name__}.{home}")
            if name in vars(module):
                value = globals()[name] = getattr(module, name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
