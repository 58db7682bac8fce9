"""An act on a session's file as a whole, for which its host has to let go of it.

    delete, purge, repair: stop the host, serve what waits, close the file, act,
    tell the subscribers, and only then may the next request open the session.

It runs once, whoever asked stays or goes: a file that was moved is not moved
back because a connection ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio import to_thread

from sessiond.errors import Internal, SessiondError, exhausted
from sessiond.limits import RETRY_AFTER_MS
from sessiond.service.environment import Environment
from sessiond.service.log.open_session import Opened

__all__ = ["Retirement"]


class Retirement:
    """One such act, and what came of it."""

    def __init__(
        self, reason: str, act: Callable[[Opened | None], Any], environment: Environment
    ) -> None:
        self.done = anyio.Event()
        self.told = reason
        """What subscribers are told: the reason, or the kind of error that it came to."""
        self._act = act
        self._environment = environment
        self._result: Any = None
        self._error: SessiondError | None = None

    async def run(self, opened: Opened | None) -> None:
        """Act in a worker thread."""
        try:
            self._result = await to_thread.run_sync(self._act, opened)
        except SessiondError as error:
            self._error = error
        except Exception as bug:  # noqa: BLE001 - whoever waits must be told
            self._error = exhausted(bug, RETRY_AFTER_MS) or Internal(
                "a bug in sessiond",
                incident_id=self._environment.report_bug("act on a session's file", bug),
            )
        if self._error is not None:
            self.told = self._error.kind

    async def outcome(self) -> Any:
        """What the act gave, or raises what it came to. Waiting for it cannot be cancelled."""
        with anyio.CancelScope(shield=True):
            await self.done.wait()
        if self._error is not None:
            raise self._error
        return self._result
