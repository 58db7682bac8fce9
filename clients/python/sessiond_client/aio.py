"""The client for anyio programs.

Tasks may share one client; their calls travel together on one connection. Each
subscription has a connection of its own: a consumer that is slow leaves only that
one unread, the daemon then replays it from the log, and no answer waits behind it.
The price: an event and the answer to the append it tells of come in no order; who
needs the entry in a replica waits for the answer's `seq`.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import closing
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import anyio
from anyio.lowlevel import checkpoint

from sessiond_client.base import ClientBase
from sessiond_client.driver import FeedDriver
from sessiond_client.events import Cursor, Event
from sessiond_client.options import (
    AppendOptions,
    BranchOptions,
    CompactOptions,
    ConnectOptions,
    ContextOptions,
    CreateOptions,
    EntriesOptions,
    ExportOptions,
    ImportOptions,
    ListOptions,
    MoveOptions,
    OpenOptions,
    PathOptions,
    SubscribeOptions,
    Timed,
    TreeOptions,
)
from sessiond_client.results import (
    READ_ANY,
    READ_APPENDED,
    READ_COMPACTED,
    READ_CONTEXT,
    READ_CREATED,
    READ_ENTRY,
    READ_ENTRY_PAGE,
    READ_EXPORTED,
    READ_HEADS,
    READ_IMPORTED,
    READ_MOVED,
    READ_NOTHING,
    READ_PATH_PAGE,
    READ_SEQ,
    READ_SESSION,
    READ_SESSION_PAGE,
    READ_TREE_PAGE,
    Appended,
    Compacted,
    Context,
    Created,
    EntryPage,
    Exported,
    Heads,
    Imported,
    Moved,
    PathPage,
    Reader,
    SessionInfo,
    SessionPage,
    StoredEntry,
    TreePage,
)
from sessiond_client.steps import Wait
from sessiond_client.waiting import TaskWaiter

__all__ = ["Client", "Subscription", "connect"]

T = TypeVar("T")


def connect(
    socket_path: str | os.PathLike[str] | None = None, **options: Unpack[ConnectOptions]
) -> Client:
    """A client of the user's daemon, which is started if there is none; use it in `async with`.

    With a `socket_path`: of the daemon that listens there, and none is started. Raises OSError
    (`place.UnsafeFolder`) if the place of the socket is not safe.
    """
    return Client(socket_path, options)


class Client(ClientBase):
    """Calls and subscriptions, kept over lost connections."""

    def __init__(self, socket_path: str | os.PathLike[str] | None, options: ConnectOptions) -> None:
        self._waiter = TaskWaiter()
        super().__init__(socket_path, options, clock=anyio.current_time, waiter=self._waiter)

    async def __aenter__(self) -> Self:
        try:
            with closing(self._driver.open(self._deadline(self._connect_timeout))) as steps:
                for step in steps:
                    await self._waiter.wait(step)
        except BaseException:
            self.disconnect()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.disconnect()

    async def call(self, method: str, /, **params: Any) -> Any:
        """The decoded result of any method. `timeout` and `on_progress` stay here, the rest is sent."""
        return await self._ask(method, READ_ANY, params)

    async def call_raw(self, method: str, /, **params: Any) -> bytes:
        """The result as the bytes that came."""
        return await self._ask(method, bytes, params)

    def subscribe(self, session_id: str, **options: Unpack[SubscribeOptions]) -> Subscription:
        """The session's events, in order and each once; from `after`, else from now.

        "Now" is when the `async with` is entered, or the first event is asked for.
        """
        waiter = TaskWaiter()
        return Subscription(self._new_feed(session_id, options, waiter), waiter)

    async def create(self, cwd: str, **options: Unpack[CreateOptions]) -> Created:
        """Makes a session."""
        return await self._ask("session/create", READ_CREATED, {"cwd": cwd, **options})

    async def open(self, **options: Unpack[OpenOptions]) -> SessionInfo:
        """Opens a session by `session_id`, `path` or `entry_id`."""
        return await self._ask("session/open", READ_SESSION, options)

    async def close(self, session_id: str, **options: Unpack[Timed]) -> None:
        """Says that this client needs the session no more. (To end the client: `disconnect`.)"""
        return await self._ask("session/close", READ_NOTHING, {"session_id": session_id, **options})

    async def get(self, session_id: str, **options: Unpack[Timed]) -> SessionInfo:
        """What is known of the session."""
        return await self._ask("session/get", READ_SESSION, {"session_id": session_id, **options})

    async def list(self, **options: Unpack[ListOptions]) -> SessionPage:
        """The sessions, newest first."""
        return await self._ask("session/list", READ_SESSION_PAGE, options)

    async def append(self, session_id: str, **options: Unpack[AppendOptions]) -> Appended:
        """Stores `message`, `entry` or `entries`: once, however often it had to be sent."""
        return await self._ask(
            "session/append", READ_APPENDED, {"session_id": session_id, **options}
        )

    async def branch(
        self, session_id: str, entry_id: str | None, **options: Unpack[BranchOptions]
    ) -> Moved:
        """Moves a head to an entry; None = before the first one."""
        return await self._ask(
            "session/branch",
            READ_MOVED,
            {"session_id": session_id, "entry_id": entry_id, **options},
        )

    async def reset(self, session_id: str, **options: Unpack[MoveOptions]) -> Moved:
        """Moves a head before the first entry."""
        return await self._ask("session/reset", READ_MOVED, {"session_id": session_id, **options})

    async def label(
        self, session_id: str, entry_id: str, label: str | None, **options: Unpack[Timed]
    ) -> int:
        """Names an entry, None clears; the `seq` of the record."""
        return await self._ask(
            "session/label",
            READ_SEQ,
            {"session_id": session_id, "entry_id": entry_id, "label": label, **options},
        )

    async def heads(self, session_id: str, **options: Unpack[Timed]) -> Heads:
        """The named heads."""
        return await self._ask("session/heads", READ_HEADS, {"session_id": session_id, **options})

    async def entry(self, session_id: str, entry_id: str, **options: Unpack[Timed]) -> StoredEntry:
        """One entry and its place."""
        return await self._ask(
            "session/entry", READ_ENTRY, {"session_id": session_id, "entry_id": entry_id, **options}
        )

    async def entries(self, session_id: str, **options: Unpack[EntriesOptions]) -> EntryPage:
        """Entries in the order in which they were stored."""
        return await self._ask(
            "session/entries", READ_ENTRY_PAGE, {"session_id": session_id, **options}
        )

    async def path(self, session_id: str, **options: Unpack[PathOptions]) -> PathPage:
        """The entries from the root to a leaf."""
        return await self._ask(
            "session/path", READ_PATH_PAGE, {"session_id": session_id, **options}
        )

    async def tree(self, session_id: str, **options: Unpack[TreeOptions]) -> TreePage:
        """All entries as a tree, flat, in pre-order."""
        return await self._ask(
            "session/tree", READ_TREE_PAGE, {"session_id": session_id, **options}
        )

    async def build_context(self, session_id: str, **options: Unpack[ContextOptions]) -> Context:
        """What a model is given. The client keeps nothing of it."""
        return await self._ask(
            "session/build_context", READ_CONTEXT, {"session_id": session_id, **options}
        )

    async def compact(self, session_id: str, **options: Unpack[CompactOptions]) -> Compacted:
        """Replaces what precedes by a summary or by messages."""
        return await self._ask(
            "session/compact", READ_COMPACTED, {"session_id": session_id, **options}
        )

    async def import_(self, **options: Unpack[ImportOptions]) -> Imported:
        """Makes a session of a file or of `content`."""
        return await self._ask("session/import", READ_IMPORTED, options)

    async def export(self, session_id: str, **options: Unpack[ExportOptions]) -> Exported:
        """The session as a file or as content."""
        return await self._ask(
            "session/export", READ_EXPORTED, {"session_id": session_id, **options}
        )

    async def ping(self, **options: Unpack[Timed]) -> Any:
        """Whether the daemon answers."""
        return await self._ask("server/ping", READ_ANY, options)

    async def info(self, **options: Unpack[Timed]) -> Any:
        """Version, limits and state of the daemon."""
        return await self._ask("server/info", READ_ANY, options)

    async def stats(self, **options: Unpack[Timed]) -> Any:
        """The daemon's counters."""
        return await self._ask("server/stats", READ_ANY, options)

    async def stop(self, **options: Unpack[Timed]) -> Any:
        """Asks the daemon to drain and end."""
        return await self._ask("server/stop", READ_ANY, options)

    async def _ask(self, method: str, read: Reader[T], params: Mapping[str, Any]) -> T:
        call = self._new_call(method, params)
        must_yield = True
        with closing(self._driver.drive(call)) as steps:
            for step in steps:
                must_yield = False
                await self._waiter.wait(step)
        if must_yield:
            await checkpoint()
        return read(call.outcome())


class Subscription:
    """An endless iterator of events. Ends when it or its client is closed."""

    def __init__(self, driver: FeedDriver, waiter: TaskWaiter) -> None:
        self._driver = driver
        self._feed = driver.conversation
        self._waiter = waiter

    @property
    def position(self) -> Cursor | None:
        """Where a later subscription goes on: give it as `after`."""
        return self._feed.position

    def request_flush(self) -> None:
        """Asks for a `Flushed` among the events, behind every entry stored by now."""
        self._driver.request_flush()

    def close(self) -> None:
        """Ends the subscription and its connection."""
        self._driver.close()

    async def __aenter__(self) -> Self:
        try:
            await self._wait(self._driver.start())
            self._feed.require_started()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._feed.ready:
            # One checkpoint per read of the socket, not per event of it.
            await self._wait(self._driver.next())
        event = self._feed.take()
        if event is None:
            raise StopAsyncIteration
        return event

    async def _wait(self, steps: Generator[Wait, None, None]) -> None:
        await checkpoint()
        with closing(steps):
            for step in steps:
                await self._waiter.wait(step)
