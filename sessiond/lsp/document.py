"""A document that an editor has open: its text, and what the daemon said about its session.

Law: what was read of a session is kept only while somebody would say that it changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from msgspec import Struct

from sessiond.limits import OUTLINE_NODES_MAX, PAGE_ROWS_MAX
from sessiond.lsp.lines import Index
from sessiond.lsp.text import Text
from sessiond_client import Client
from sessiond_client.results import Head
from sessiond_client.tree_results import TreeNode

__all__ = ["Document", "Snapshot"]


class Snapshot(Struct, frozen=True):
    """A session as it was at one moment."""

    info: Mapping[str, Any]
    nodes: list[TreeNode]
    """In pre-order; the first OUTLINE_NODES_MAX."""
    places: Mapping[str, TreeNode]
    heads: list[Head]
    more: int
    """How many nodes were not read, at least."""


class Document:
    """One open document."""

    def __init__(self, uri: str, path: Path, text: Text) -> None:
        self.uri = uri
        self.path = path
        self.text = text
        self.changed = anyio.Event()
        """The session or the text is another than it was; who waits for it renews it."""
        self.saved = anyio.Event()
        """Set when the editor has written the file."""
        self.scope = anyio.CancelScope()
        """Of the task that watches it."""
        self._is_watched = False
        self._changes = 0
        self._snapshot: Snapshot | None = None
        self._index: tuple[int, Index] | None = None
        self._reading = anyio.Lock()

    def text_changed(self) -> None:
        """The editor's text is another than it was."""
        self.changed.set()

    def session_changed(self) -> None:
        """The session is another than it was."""
        self._changes += 1
        self._snapshot = None
        self.changed.set()

    def watch(self, *, on: bool) -> None:
        """Whether from now on somebody calls `session_changed` when it did."""
        self._is_watched = on
        self._snapshot = None

    async def index(self) -> Index:
        """Where each entry stands in the text of now."""
        version = self.text.version
        if self._index is None or self._index[0] != version:
            found = await to_thread.run_sync(Index, self.text.lines)
            self._index = (version, found)
            return found
        return self._index[1]

    async def snapshot(self, client: Client) -> Snapshot:
        """What the daemon has in the file. Raises SessiondClientError."""
        async with self._reading:
            if self._snapshot is not None:
                return self._snapshot
            changes = self._changes
            found = await _read(client, self.path)
            if self._is_watched and self._changes == changes:
                self._snapshot = found
            return found

    async def file_state(self) -> tuple[int, int, int] | None:
        """Return what tells the file from a changed one; None if it cannot be looked at."""
        return await to_thread.run_sync(_state, self.path)

    async def stored_lines(self) -> int | None:
        """How many lines of the text are in the file; None if it has others, too.

        All of them: the text is saved. Less: the end of the file was cut.
        """
        return await to_thread.run_sync(_lines_in_file, self.path, self.text.lines)


async def _read(client: Client, path: Path) -> Snapshot:
    info = (await client.call("session/open", path=str(path)))["session"]
    session_id = info["id"]
    nodes: list[TreeNode] = []
    page = await client.tree(session_id, limit=PAGE_ROWS_MAX)
    nodes += page.nodes
    while page.next_cursor is not None and len(nodes) < OUTLINE_NODES_MAX:
        page = await client.tree(session_id, limit=PAGE_ROWS_MAX, cursor=page.next_cursor)
        nodes += page.nodes
    # Every line but the header may be a node; the count is only for saying that there are more.
    more = max(0, info["seq"] - len(nodes)) if page.next_cursor is not None else 0
    heads = await client.heads(session_id)
    return Snapshot(info, nodes, {node.id: node for node in nodes}, heads, more)


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _lines_in_file(path: Path, lines: tuple[str, ...]) -> int | None:
    try:
        # A pipe under this name would keep the thread for ever.
        if not path.is_file():
            return None
        with path.open("rb") as file:
            for number, line in enumerate(lines):
                wanted = line.encode("utf-8", "surrogatepass")
                found = file.read(len(wanted))
                if found != wanted:
                    return None if found else number
            return None if file.read(1) else len(lines)
    except OSError:
        return None
