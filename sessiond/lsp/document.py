"""Documents open in an editor: the text, and the daemon's data about the session.

Law: a snapshot is kept only while a watcher reports that the session changed.
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
    """The first OUTLINE_NODES_MAX nodes, in pre-order."""
    places: Mapping[str, TreeNode]
    heads: list[Head]
    more: int
    """Number of nodes that were not read, at least."""


class Document:
    """An open document."""

    def __init__(self, uri: str, path: Path, text: Text) -> None:
        self.uri = uri
        self.path = path
        self.text = text
        self.changed = anyio.Event()
        """Event of a changed session or text; its waiter puts a new event in its place."""
        self.saved = anyio.Event()
        """Event of a file written by the editor."""
        self.scope = anyio.CancelScope()
        """Scope of the task that watches the document."""
        self._is_watched = False
        self._changes = 0
        self._snapshot: Snapshot | None = None
        self._index: tuple[int, Index] | None = None
        self._reading = anyio.Lock()

    def text_changed(self) -> None:
        """Record that the editor's text changed."""
        self.changed.set()

    def session_changed(self) -> None:
        """Record that the session changed."""
        self._changes += 1
        self._snapshot = None
        self.changed.set()

    def watch(self, *, on: bool) -> None:
        """Set whether a watcher calls `session_changed` on each change from now on."""
        self._is_watched = on
        self._snapshot = None

    async def index(self) -> Index:
        """Return the places of the entries in the current text."""
        version = self.text.version
        if self._index is None or self._index[0] != version:
            found = await to_thread.run_sync(Index, self.text.lines)
            self._index = (version, found)
            return found
        return self._index[1]

    async def snapshot(self, client: Client) -> Snapshot:
        """Return the daemon's view of the file. Raises SessiondClientError."""
        async with self._reading:
            if self._snapshot is not None:
                return self._snapshot
            changes = self._changes
            found = await _read(client, self.path)
            if self._is_watched and self._changes == changes:
                self._snapshot = found
            return found

    async def file_state(self) -> tuple[int, int, int] | None:
        """Return a state that differs after a change of the file.

        None if the file cannot be read.
        """
        return await to_thread.run_sync(_state, self.path)

    async def stored_lines(self) -> int | None:
        """Return how many lines of the text the file begins with; None if the file has more lines.

        All lines of the text: it is saved. Fewer: the end of the file was cut. None also if a line
        differs, or if the file cannot be read.
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
    # Every line but the header may be a node; the count only feeds the note on missing entries.
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
        # A pipe of this name would block the thread forever.
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
