"""Exclusive operation on a session's whole file, for which its actor has to close the file.

    delete, purge, repair: stop the actor, serve the waiting requests, close the file, run
    the operation, tell the subscribers, and only then may the next request open the session.

The operation runs once, even if the asking connection ends: a moved file is not moved back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio import to_thread

from sessiond.errors import Internal, SessiondError, exhausted
from sessiond.limits import RETRY_AFTER_MS
from sessiond.service.environment import Environment
from sessiond.service.log.open_session import OpenSession


class ExclusiveOperation:
    """Exclusive operation and its outcome."""

    def __init__(
        self, reason: str, act: Callable[[OpenSession | None], Any], environment: Environment
    ) -> None:
        self.done = anyio.Event()
        self.told = reason
        """Reason for the subscribers: the given one, or the kind of the operation's error."""
        self._act = act
        self._environment = environment
        self._result: Any = None
        self._error: SessiondError | None = None

    async def run(self, opened: OpenSession | None) -> None:
        """Run the operation in a worker thread."""
        try:
            self._result = await to_thread.run_sync(self._act, opened)
        except SessiondError as error:
            self._error = error
        except Exception as bug:  # noqa: BLE001 - the waiting request must get an answer
            self._error = exhausted(bug, RETRY_AFTER_MS) or Internal(
                "a bug in sessiond",
                incident_id=self._environment.report_bug("act on a session's file", bug),
            )
        if self._error is not None:
            self.told = self._error.kind

    async def outcome(self) -> Any:
        """Return the operation's result, or raise its error. The wait cannot be cancelled."""
        with anyio.CancelScope(shield=True):
            await self.done.wait()
        if self._error is not None:
            raise self._error
        return self._result
