"""Service of one connection from its first byte to its last.

Law: any failure ends this connection only. Its port is closed and its client notified, always.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio

from sessiond.errors import exhausted
from sessiond.limits import RETRY_AFTER_MS
from sessiond.rpc.dispatch import Dispatcher
from sessiond.service.byte_budget import ByteBudget
from sessiond.transports.base import Port
from sessiond.transports.connection import ASKED_TO_CLOSE, CLIENT_CLOSED, C, Connection

_log = logging.getLogger(__name__)
_USUAL_ENDS: Final = (CLIENT_CLOSED, ASKED_TO_CLOSE)


async def serve_connection(
    port: Port,
    dispatcher: Dispatcher[C],
    make_client: Callable[[Connection[C]], C],
    budget: ByteBudget,
) -> None:
    """Serve one connection until it ends; its memory counts in `budget`."""
    reason = "the connection was cancelled"
    _log.debug("connection opened", extra={"peer": port.peer})
    try:
        async with anyio.create_task_group() as tasks:
            connection = Connection(port, tasks, dispatcher, make_client, budget)
            try:
                await connection.run()
            finally:
                connection.end()
                reason = connection.end_reason
            tasks.cancel_scope.cancel()
    except Exception as error:  # noqa: BLE001  # the law
        short = exhausted(error, RETRY_AFTER_MS)
        if short is None:
            dispatcher.incident("connection", error)
            reason = "a bug ended the connection"
        else:
            reason = short.message
    finally:
        # A close that fails still closes the descriptor.
        with suppress(OSError):
            port.close()
        # Every command is a connection, so those that end normally would fill the log.
        level = logging.DEBUG if reason in _USUAL_ENDS else logging.INFO
        _log.log(level, "connection closed", extra={"peer": port.peer, "reason": reason})
