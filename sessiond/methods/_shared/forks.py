"""The number of forks of a session."""

from __future__ import annotations

from sessiond.catalog.finding import count_forks
from sessiond.errors import StorageError
from sessiond.rpc.calls import Call
from sessiond.service.client import Client


async def fork_count(client: Client, call: Call[Client], session_id: str) -> int | None:
    """Return how many sessions in the lists name this one as their parent; None if they cannot be read."""
    try:
        return await client.service.live_catalog.ask(
            lambda catalog: catalog.ask(lambda connection: count_forks(connection, session_id)),
            call,
        )
    except StorageError:
        # A session can be read although the lists cannot.
        return None
