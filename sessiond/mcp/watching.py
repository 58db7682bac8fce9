"""Notifications of one client: driven by the daemon, at most one unsent for each URI.

A subscription of `sessiond_client` resumes by itself where it stood, so an entry that was stored
while the connection was away is announced afterwards. No entry is kept here: an event only marks
its URI.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import anyio
from anyio.abc import TaskGroup

from sessiond_client import Client, EntryEvent, Replaced, SessiondClientError

LIST_CHANGED = ""
"""Mark of the list, which has no URI."""


class _Watched(NamedTuple):
    """A session that is watched, or about to be."""

    scope: anyio.CancelScope
    has_begun: anyio.Event


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
        self._watched: dict[str, _Watched] = {}

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
        while (known := self._watched.get(uri)) is not None:
            if known.has_begun.is_set():
                return
            await known.has_begun.wait()
        self._watched[uri] = mine = _Watched(anyio.CancelScope(), anyio.Event())
        try:
            await self._tasks.start(self._follow, uri, session_id, mine)
        except BaseException:
            self._forget(uri, mine)
            raise
        finally:
            mine.has_begun.set()

    async def add_list(self) -> None:
        """Watch the list of sessions from now on."""
        if LIST_CHANGED not in self._watched:
            self._watched[LIST_CHANGED] = mine = _Watched(anyio.CancelScope(), anyio.Event())
            await self._tasks.start(self._follow_list, mine.scope)

    def remove(self, uri: str) -> None:
        """Stop watching a session, also one that is only about to be watched."""
        self._marks.pop(uri, None)
        if (known := self._watched.pop(uri, None)) is not None:
            known.scope.cancel()

    def _forget(self, uri: str, watched: _Watched) -> None:
        if self._watched.get(uri) is watched:
            del self._watched[uri]

    def _mark(self, uri: str) -> None:
        self._marks[uri] = None
        self._is_marked.set()

    async def _follow(
        self,
        uri: str,
        session_id: str,
        mine: _Watched,
        *,
        task_status: anyio.abc.TaskStatus[None],
    ) -> None:
        has_started = False
        with mine.scope:
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
            self._forget(uri, mine)
        if not has_started:
            # Removed before the daemon answered: nothing is left to wait for.
            task_status.started()

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
