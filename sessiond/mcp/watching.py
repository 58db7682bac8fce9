"""Notifications of one client: driven by the daemon, at most one unsent for each URI.

A subscription of `sessiond_client` resumes by itself where it stood, so an entry that was stored
while the connection was away is announced afterwards. No entry is kept here: an event only marks
its URI.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
from anyio.abc import TaskGroup

from sessiond_client import Client, EntryEvent, Replaced, SessiondClientError

__all__ = ["Watch"]

LIST_CHANGED = ""
"""Mark of the list, which has no URI."""


class Watch:
    """Watched sessions and the list, and the marks that wait for the client."""

    def __init__(
        self, client: Client, tasks: TaskGroup, send: Callable[[str], Awaitable[None]]
    ) -> None:
        self._client = client
        self._tasks = tasks
        self._send = send
        self._marks: dict[str, None] = {}
        self._is_marked = anyio.Event()
        self._scopes: dict[str, anyio.CancelScope] = {}

    async def run(self) -> None:
        """Send marks, one after another, until cancelled."""
        while True:
            await self._is_marked.wait()
            self._is_marked = anyio.Event()
            while self._marks:
                mark = next(iter(self._marks))
                del self._marks[mark]
                await self._send(mark)

    async def add(self, uri: str, session_id: str) -> None:
        """Watch a session from now on; return when no later entry can be missed."""
        if uri not in self._scopes:
            self._scopes[uri] = scope = anyio.CancelScope()
            try:
                await self._tasks.start(self._follow, uri, session_id, scope)
            except BaseException:
                self._scopes.pop(uri, None)
                raise

    async def add_list(self) -> None:
        """Watch the list of sessions from now on."""
        if LIST_CHANGED not in self._scopes:
            self._scopes[LIST_CHANGED] = scope = anyio.CancelScope()
            await self._tasks.start(self._follow_list, scope)

    def remove(self, uri: str) -> None:
        """Stop watching a session."""
        self._marks.pop(uri, None)
        if (scope := self._scopes.pop(uri, None)) is not None:
            scope.cancel()

    def _mark(self, uri: str) -> None:
        self._marks[uri] = None
        self._is_marked.set()

    async def _follow(
        self,
        uri: str,
        session_id: str,
        scope: anyio.CancelScope,
        *,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        has_started = False
        with scope:
            try:
                async with self._client.subscribe(session_id, timeout=10.0) as events:
                    has_started = True
                    task_status.started()
                    async for event in events:
                        if isinstance(event, EntryEvent | Replaced):
                            self._mark(uri)
            except SessiondClientError:
                if not has_started:
                    raise
                # The session was deleted: a reader that looks is told so.
                self._mark(uri)
            if self._scopes.get(uri) is scope:
                del self._scopes[uri]

    async def _follow_list(
        self, scope: anyio.CancelScope, *, task_status: anyio.abc.TaskStatus[None]
    ) -> None:
        with scope:
            task_status.started()
            # A daemon that refuses hints for good leaves the list as good as a question finds it.
            with suppress(SessiondClientError):
                async with self._client.subscribe_catalog(timeout=None) as hints:
                    async for _ in hints:
                        self._mark(LIST_CHANGED)
