"""Log of the server, told to a client that asked for it."""

from __future__ import annotations

import logging
from typing import Any, Final, cast

from anyio.abc import TaskGroup
from mcp import types

_LEVELS: Final[dict[types.LoggingLevel, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


class ClientLog(logging.Handler):
    """Handler of the records of sessiond that sends those of a level to a client, never with content."""

    def __init__(self, tasks: TaskGroup) -> None:
        super().__init__(logging.WARNING)
        self._tasks = tasks
        self._session: Any = None

    def begin(self, session: Any) -> None:
        """Tell a client from now on."""
        self._session = session

    def take_level(self, level: types.LoggingLevel) -> None:
        """Tell records of this level and above."""
        self.setLevel(_LEVELS[level])
        logging.getLogger("sessiond.mcp").setLevel(_LEVELS[level])

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record."""
        if self._session is None:
            return
        level = cast("types.LoggingLevel", record.levelname.lower())
        told = types.LoggingMessageNotificationParams(
            level=level, logger=record.name, data=record.getMessage()
        )
        note = types.LoggingMessageNotification(params=told)
        self._tasks.start_soon(self._session.send_notification, note)
