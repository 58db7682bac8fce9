"""The end of a service, in the order that keeps its promises.

Everybody is told, then what was asked is served and made durable, then every
answer is sent, then the files are let go.
"""

from __future__ import annotations

from typing import Final

import anyio

from sessiond.limits import RETRY_AFTER_MS
from sessiond.model.events import Draining
from sessiond.service.log.events import notification
from sessiond.service.service import Service

__all__ = ["end_service"]

# How long the last answers may take to be read once everything is served.
_LAST_ANSWERS_SECONDS: Final = 5.0


async def end_service(service: Service) -> None:
    """Tell everybody, serve what was asked, let go of every file, close every connection."""
    told = notification("server/draining", Draining(RETRY_AFTER_MS))
    for client in service.clients:
        client.listener.put(client.listener.encode(told))
        client.listener.flush()
    await service.hosts.drain()
    for client in list(service.clients):
        client.listener.close()
    with anyio.move_on_after(_LAST_ANSWERS_SECONDS):
        await service.deserted()
