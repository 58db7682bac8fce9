"""End of a service, in the order that keeps its promises.

Every client is told, then the received requests are served and made durable, then every answer is
sent, then the files are closed.
"""

from __future__ import annotations

from typing import Final

import anyio

from sessiond.limits import RETRY_AFTER_MS
from sessiond.model.events import Draining
from sessiond.service.log.events import notification
from sessiond.service.service import Service

# How long clients may take to read the last answers once all requests are served.
_LAST_ANSWERS_SECONDS: Final = 5.0


async def end_service(service: Service) -> None:
    """Tell every client, serve the received requests, close every file and connection."""
    told = notification("server/draining", Draining(RETRY_AFTER_MS))
    for client in service.clients:
        client.listener.put(client.listener.encode(told))
        client.listener.flush()
    await service.registry.drain()
    await service.states.drain()
    await service.secrets.states.drain()
    for client in list(service.clients):
        client.listener.close()
    with anyio.move_on_after(_LAST_ANSWERS_SECONDS):
        await service.deserted()
    for pool in service.pools:
        pool.end()
