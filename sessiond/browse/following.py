"""Follower of one session: its newest entries, then every event, over any loss of the daemon.

Law: the subscription goes on from the seq up to which the first page is complete, so no entry is
missing and none is shown twice. A replaced file voids the window, which is then read anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import anyio
import msgspec

from sessiond.browse.advice import advice
from sessiond.browse.window import Window
from sessiond_client import (
    Client,
    ClientClosed,
    Cursor,
    EntryEvent,
    Replaced,
    RpcError,
    SessiondClientError,
    Subscription,
)
from sessiond_client.generated.options import PageOptions
from sessiond_client.generated.results import SessionInfo

PAGE_ENTRIES: Final = 200
WINDOW_ENTRIES_MAX: Final = 20_000
_TRIMMED: Final = 1_000
_LABEL_PAGES_MAX: Final = 4
_RETRY_SECONDS: Final = 2.0


class Shown(Protocol):
    """The view that shows a followed session."""

    def reloaded(self, window: Window, info: SessionInfo) -> None:
        """Show a new window."""
        ...

    def changed(self, window: Window) -> None:
        """Show a change of the window."""
        ...

    def gone(self, state: str, text: str) -> None:
        """Show why the session is not followed."""
        ...


class Follower:
    """The window of a session, kept current."""

    def __init__(self, session_id: str, shown: Shown) -> None:
        self.session_id = session_id
        self.window: Window | None = None
        self.info: SessionInfo | None = None
        self.seq = 0
        """The last line of the session."""
        self._shown = shown
        self.is_loading = False
        """True while a page of earlier entries is on its way."""
        self._client: Client | None = None

    @property
    def may_load_earlier(self) -> bool:
        """True if there are earlier entries, room for them, and no page is on its way."""
        window = self.window
        has_room = window is not None and len(window) < WINDOW_ENTRIES_MAX
        return has_room and window is not None and window.low > 1 and not self.is_loading

    async def run(self, client: Client) -> None:
        """Follow the session until cancelled, or until the session is gone."""
        self._client = client
        while True:
            try:
                await self._follow(client)
            except ClientClosed:
                return
            except RpcError as error:
                is_deleted = error.kind == "session_not_found"
                self._shown.gone("deleted" if is_deleted else "not live", advice(error))
                if not error.retryable:
                    return
                await anyio.sleep(_RETRY_SECONDS)
            except SessiondClientError as error:
                self._shown.gone("not live", advice(error))
                await anyio.sleep(_RETRY_SECONDS)

    async def load_earlier(self, client: Client) -> Window | None:
        """Read the page before the window; return the window, None if it was replaced meanwhile."""
        window = self.window
        if window is None:
            return None
        self.is_loading = True
        try:
            await self._load_page(client, window, window.low)
        finally:
            self.is_loading = False
        return window if window is self.window else None

    async def let_go(self) -> None:
        """End the client's use of the session; give up soon if no daemon answers."""
        with anyio.move_on_after(_RETRY_SECONDS), suppress(SessiondClientError):
            if self._client is not None:
                await self._client.close(self.session_id)

    async def _follow(self, client: Client) -> None:
        """Open the session and follow it until its file is replaced."""
        info = await client.get(self.session_id)
        window = Window(
            {head.name: head.leaf_id for head in info.heads or ()},
            (info.seq or 0) + 1,
            is_of_other_agent=info.read_only_reason == "other_agent",
        )
        await self._load_page(client, window, window.low)
        await self._load_labels(client, window)
        self.window, self.info, self.seq = window, info, info.seq or 0
        self._shown.reloaded(window, info)
        after = Cursor(self.seq, epoch=info.epoch or "")
        async with client.subscribe(self.session_id, after=after) as events:
            await self._take(events, window)

    async def _take(self, events: Subscription, window: Window) -> None:
        async for event in events:
            if isinstance(event, EntryEvent):
                self.seq = event.seq
                window.add_event(event)
                if event.name.type == "session_info":
                    self._rename(event.entry)
                if len(window) > WINDOW_ENTRIES_MAX + _TRIMMED:
                    window.trim(WINDOW_ENTRIES_MAX)
                self._shown.changed(window)
            elif isinstance(event, Replaced):
                return
            # Behind a `session/closed` the subscription goes on by itself, or ends with an error.

    def _rename(self, entry: Mapping[str, Any]) -> None:
        if self.info is not None and "name" in entry:
            self.info = msgspec.structs.replace(self.info, title=entry["name"])

    async def _load_page(self, client: Client, window: Window, before: int) -> None:
        if before <= 1:
            return
        page = await client.entries(self.session_id, before_seq=before, limit=PAGE_ENTRIES)
        window.add_page(((row.seq, row.entry) for row in page.entries), page.next_seq or 1)

    async def _load_labels(self, client: Client, window: Window) -> None:
        cursor: PageOptions = {}
        for _ in range(_LABEL_PAGES_MAX):
            page = await client.labels(self.session_id, **cursor)
            window.labels.update({one.entry_id: one.label for one in page.labels})
            if page.next_cursor is None:
                return
            cursor = {"cursor": page.next_cursor}
