"""Documents open in an editor: the text, and the daemon's data about the session.

Law: a snapshot is kept only while a watcher reports that the session changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread
from msgspec import Struct

from sessiond.limits import OUTLINE_NODES_MAX
from sessiond.lsp.places import Places, find_places, line_shift
from sessiond.lsp.progress import Progress
from sessiond.lsp.text.disposal import free_in_thread
from sessiond.lsp.text.indexing import LiveIndex
from sessiond.lsp.text.lines import Index
from sessiond.lsp.text.text import Position, Text
from sessiond_client import Client
from sessiond_client.connect_options import OnProgress
from sessiond_client.results import Head
from sessiond_client.tree_results import TreeNode

# A page is decoded on the event loop; this one takes some ten milliseconds.
_PAGE_ROWS: Final = 5_000
# Edits during the making of places, after which no places are made.
_TRIES_MAX: Final = 5


class Snapshot(Struct, frozen=True):
    """A session as it was at one moment."""

    info: Mapping[str, Any]
    nodes: list[TreeNode]
    """The first nodes, in pre-order; at most OUTLINE_NODES_MAX."""
    places: Mapping[str, TreeNode]
    heads: list[Head]
    more: int
    """Number of nodes that were not read, at least."""
    next_cursor: str | None = None
    """Page of the nodes that were not read."""

    def has(self, count: int) -> bool:
        """Return whether so many nodes were read, or all."""
        return self.next_cursor is None or len(self.nodes) >= count


class Copies(Struct, frozen=True):
    """A text and its index as they were at one moment; a thread may read them."""

    text: Text
    index: Index


class Placed(Struct, frozen=True):
    """A text, its index, and the places of a snapshot's entries in the text."""

    text: Text
    index: Index
    places: Places


class _Kept(Struct, frozen=True):
    """Places that are kept: of a snapshot, and of an index with its moves so far."""

    snapshot: Snapshot
    moves: int
    placed: Placed

    def is_of(self, snapshot: Snapshot, moves: int) -> bool:
        """Return whether the places are still right."""
        return self.snapshot is snapshot and self.moves == moves


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
        self.moved = anyio.Event()
        """Event of a changed session; set once, then a new event is in its place."""
        self.refreshed: tuple[Any, ...] | None = None
        """State of the session that the editor has asked about last, or was told to."""
        self.was_unanswered = False
        """True if a question was answered with nothing because the daemon told nothing."""
        self.reading_seconds = 0.0
        """Time that the last snapshot took."""
        self.file_problem: str | None = None
        """Code of a shown problem of the whole file; None while problems of lines are shown."""
        self.scope = anyio.CancelScope()
        """Scope of the task that watches the document."""
        self._is_watched = False
        self._changes = 0
        self._snapshot: Snapshot | None = None
        self._index = LiveIndex(text)
        self._kept: _Kept | None = None
        self._reading = anyio.Lock()

    @property
    def lines_parsed(self) -> int:
        """Number of lines parsed since the document was opened."""
        return self._index.lines_parsed

    @property
    def is_read_in_part(self) -> bool:
        """Return whether the kept snapshot lacks nodes."""
        return self._snapshot is not None and self._snapshot.next_cursor is not None

    def replace(self, start: Position, end: Position, text: str | Sequence[str]) -> None:
        """Replace the text between two places, given as a text or as its lines."""
        self._index.edited(self.text.replace(start, end, text))

    def set(self, text: str | Sequence[str]) -> None:
        """Replace the whole text, given as a text or as its lines."""
        self._index.edited(self.text.set(text))

    def text_changed(self) -> None:
        """Record that the editor's text changed."""
        self.changed.set()

    def session_changed(self) -> None:
        """Record that the session changed."""
        self._changes += 1
        self._snapshot = None
        self.changed.set()
        self.moved.set()
        self.moved = anyio.Event()

    def watch(self, *, on: bool) -> None:
        """Set whether a watcher calls `session_changed` on each change from now on."""
        self._is_watched = on
        self._snapshot = None

    async def index(self) -> Index:
        """Return the places of the entries in the current text, good until the next edit.

        A thread reads `copies` instead, since an edit may come meanwhile.
        """
        return await self._index.current()

    async def copies(self) -> Copies:
        """Return the current text and its index, for a thread."""
        index = await self._index.current()
        return Copies(self.text.copy(), index.copy())

    async def placed(self, snapshot: Snapshot) -> Placed | None:
        """Return the places of a snapshot's entries in the current text.

        None if the text keeps changing: the editor asks again.
        """
        for _ in range(_TRIES_MAX):
            copies, moves = await self.copies(), self._index.moves
            if self._kept is not None and self._kept.is_of(snapshot, moves):
                kept = self._kept.placed
                return Placed(copies.text, kept.index, kept.places)
            self._free_kept()
            text, index, shift = copies.text, copies.index, line_shift(snapshot.info)
            find = partial(find_places, snapshot.nodes, index, text, self.path, shift)
            found = Placed(text, index, await to_thread.run_sync(find))
            if self.text.version == text.version:
                self._kept = _Kept(snapshot, moves, found)
                return found
        return None

    def close(self) -> None:
        """End the watching, and free the text and what was made of the text."""
        self.scope.cancel()
        outdated: list[Any] = [self.text, self._index, self._snapshot, self._kept]
        self.text = Text((), self.text.encoding)
        self._index = LiveIndex(self.text)
        self._snapshot = self._kept = None
        free_in_thread(outdated)

    def _free_kept(self) -> None:
        if self._kept is not None:
            outdated: list[Any] = [self._kept]
            self._kept = None
            free_in_thread(outdated)

    async def snapshot(
        self, client: Client, progress: Progress, *, nodes: int = OUTLINE_NODES_MAX
    ) -> Snapshot:
        """Return the daemon's view of the file, with at least so many nodes, or with all.

        Raises SessiondClientError and Cancelled.
        """
        if self._snapshot is not None and self._snapshot.has(nodes):
            return self._snapshot
        async with self._reading:
            changes, found, began = self._changes, self._snapshot, anyio.current_time()
            if found is not None and found.has(nodes):
                return found
            async with progress(f"reading {self.path.name}") as work:
                if found is None:
                    found = await _read(client, self.path, work.report)
                if not found.has(nodes):
                    found = await _read_on(client, found, nodes, work.report)
            self.reading_seconds = anyio.current_time() - began
            if self._is_watched and self._changes == changes:
                self._snapshot = found
            return found

    async def file_state(self) -> tuple[int, int, int] | None:
        """Return a state that differs after a change of the file, its place or its permissions.

        None if the file cannot be read.
        """
        return await to_thread.run_sync(_state, self.path)

    async def stored_lines(self) -> int | None:
        """Return how many lines of the text the file begins with; None if the file has more lines.

        All lines of the text: it is saved. Fewer: the end of the file was cut. None also if a line
        differs, or if the file cannot be read.
        """
        return await to_thread.run_sync(_lines_in_file, self.path, self.text.copy())


async def _read(client: Client, path: Path, report: OnProgress) -> Snapshot:
    """Return the session with the first page of its nodes."""
    answer = await client.call("session/open", path=str(path), on_progress=report)
    info = answer["session"]
    heads = await client.heads(info["id"])
    page = await client.tree(info["id"], limit=_PAGE_ROWS)
    return await to_thread.run_sync(_snapshot, info, heads, page.nodes, page.next_cursor)


async def _read_on(client: Client, found: Snapshot, wanted: int, report: OnProgress) -> Snapshot:
    """Return the session with further pages, until so many nodes are there."""
    nodes, cursor = found.nodes.copy(), found.next_cursor
    while cursor is not None and len(nodes) < wanted:
        report(len(nodes), found.info["seq"], "entries")
        page = await client.tree(found.info["id"], limit=_PAGE_ROWS, cursor=cursor)
        nodes += page.nodes
        cursor = page.next_cursor
    return await to_thread.run_sync(_snapshot, found.info, found.heads, nodes, cursor)


def _snapshot(
    info: Mapping[str, Any], heads: list[Head], nodes: list[TreeNode], cursor: str | None
) -> Snapshot:
    # Every line but the header may be a node; the count only feeds the note on missing entries.
    more = max(0, info["seq"] - len(nodes)) if cursor is not None else 0
    return Snapshot(info, nodes, {node.id: node for node in nodes}, heads, more, cursor)


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_ctime_ns


def _lines_in_file(path: Path, lines: Text) -> int | None:
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
