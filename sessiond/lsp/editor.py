"""Editor: answers an editor's questions on open documents, from the daemon and the text.

Law: a question never fails because of the daemon. Without a daemon, or about a file that the daemon
does not read, the answer is None. Problems of a file are published, not returned. Work that grows with
a document is done in threads, on copies of the text and its index.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from sessiond.limits import DOCUMENTS_MAX, OUTLINE_NODES_MAX, OUTLINE_SYMBOLS_MAX
from sessiond.lsp.document import Document, Placed, Snapshot
from sessiond.lsp.hovering import Entry, describe, describe_header
from sessiond.lsp.link import Join, Link
from sessiond.lsp.outline import Symbol, outline
from sessiond.lsp.places import Places
from sessiond.lsp.progress import Cancelled, Progress
from sessiond.lsp.text.lines import Reference, own_id, references
from sessiond.lsp.text.text import Position, Text
from sessiond.lsp.watching.checking import Publish
from sessiond.lsp.watching.watcher import watch
from sessiond_client import Client, SessiondClientError, Timeout
from sessiond_client.errors import Unanswered

T = TypeVar("T")


class Span(NamedTuple):
    """A range in one line, in the editor's columns."""

    line: int
    start: int
    end: int


class Hovered(NamedTuple):
    """A hover: its text, and the part of the line it is about (None: the whole line)."""

    text: str
    span: Span | None


class Outlined(NamedTuple):
    """An outline, and the text that the outline is of."""

    symbols: list[Symbol]
    text: Text


class Meant(NamedTuple):
    """The entry that a position refers to."""

    entry_id: str | None
    span: Span | None


class Editor:
    """The open documents of one editor."""

    def __init__(
        self,
        join: Join,
        *,
        publish: Publish,
        refresh: Callable[[], None],
        say: Callable[[str], None],
        progress: Progress,
    ) -> None:
        self._link = Link(join, say)
        self._publish = publish
        self._refresh = refresh
        self._progress = progress
        self._documents: dict[str, Document] = {}
        self._watchers: tuple[TaskGroup, Client] | None = None

    async def run(self) -> None:
        """Keep the link and watch the documents, until cancelled."""
        await self._link.run(self._watch_all)

    # -- what the editor tells ----------------------------------------------

    def opened(self, uri: str, path: Path, text: Text) -> Document | None:
        """Add a document and return it; return None if too many are open."""
        if len(self._documents) >= DOCUMENTS_MAX:
            return None
        self.closed(uri)
        document = self._documents[uri] = Document(uri, path, text)
        self._link.want()
        if self._watchers is not None:
            self._watch(document, *self._watchers)
        return document

    def document(self, uri: str) -> Document | None:
        """Return an open document; None if the URI is not open."""
        return self._documents.get(uri)

    def document_of(self, path: Path) -> Document | None:
        """Return the open document of a file; None if the file is not open."""
        found = (one for one in self._documents.values() if one.path == path)
        return next(found, None)

    def saved(self, uri: str) -> None:
        """Record that the editor wrote the file."""
        if (document := self._documents.get(uri)) is not None:
            document.saved.set()
            document.saved = anyio.Event()
            document.session_changed()

    def closed(self, uri: str) -> None:
        """Remove a document and withdraw its published problems."""
        if (document := self._documents.pop(uri, None)) is not None:
            document.close()
            self._publish(document, [])

    # -- what the editor asks -----------------------------------------------

    async def symbols(self, uri: str) -> Outlined | None:
        """Return the outline; None if the daemon does not answer for the document."""
        # The outline shows no more, so the first symbols do not wait for all nodes of a long session.
        found = await self.look(uri, nodes=OUTLINE_SYMBOLS_MAX)
        if found is None:
            return None
        document, client, snapshot = found
        if document.is_read_in_part and self._watchers is not None:
            tasks, _ = self._watchers
            tasks.start_soon(self._read_all, document, client)
        placed = await document.placed(snapshot)
        if placed is None:
            return None
        symbols = await to_thread.run_sync(_outline, snapshot, placed)
        return Outlined(symbols, placed.text)

    async def hover(self, uri: str, place: Position) -> Hovered | None:
        """Return the hover of the id under the cursor, or else of the entry in its line."""
        found = await self.look(uri)
        if found is None:
            return None
        document, _, snapshot = found
        if place.line == 0:
            return Hovered(describe_header(snapshot.info), None)
        placed = await document.placed(snapshot)
        if placed is None:
            return None
        aim = await to_thread.run_sync(meant, placed.text, placed.places, place)
        if aim.entry_id is None:
            return None
        try:
            entry = await self.ask(partial(_entry, placed, snapshot, aim.entry_id))
        except SessiondClientError:
            # No such entry, or none yet: an id without an entry is among the problems.
            return None
        return None if entry is None else Hovered(describe(entry, snapshot.heads), aim.span)

    async def definition(self, uri: str, place: Position) -> Span | None:
        """Return the place of the entry whose id is under the cursor."""
        found = await self.look(uri)
        if found is None:
            return None
        document, _, snapshot = found
        placed = await document.placed(snapshot)
        if placed is None:
            return None
        aim = await to_thread.run_sync(meant, placed.text, placed.places, place)
        if aim.span is None or aim.entry_id is None:
            return None
        line = _line_of(placed, aim.entry_id)
        return None if line is None else await to_thread.run_sync(_own_span, placed.text, line)

    async def look(
        self, uri: str, *, nodes: int = OUTLINE_NODES_MAX
    ) -> tuple[Document, Client, Snapshot] | None:
        """Return a document with the daemon's view of its file; None without one.

        Raises Cancelled.
        """
        document = self._documents.get(uri)
        if document is None:
            return None

        async def read(client: Client) -> tuple[Document, Client, Snapshot]:
            return document, client, await document.snapshot(client, self._progress, nodes=nodes)

        with suppress(SessiondClientError):
            if (found := await self.ask(read)) is not None:
                return found
        document.was_unanswered = True
        return None

    async def ask(self, question: Callable[[Client], Awaitable[T]]) -> T | None:
        """Return the answer to a question that changes nothing; None without a daemon.

        Where the daemon ends meanwhile, the next one is asked, once. Raises SessiondClientError.
        """
        for is_last in (False, True):
            client = await self._link.client()
            if client is None:
                break
            try:
                return await question(client)
            except Timeout:
                await self._link.doubt(client)
                raise
            except Unanswered:
                if is_last:
                    raise
        return None

    async def client(self) -> Client | None:
        """Return the client of the daemon; None if no daemon answers."""
        return await self._link.client()

    async def _read_all(self, document: Document, client: Client) -> None:
        """Read the rest of a long session before a question needs the rest."""
        with suppress(SessiondClientError, Cancelled):
            await document.snapshot(client, self._progress)

    # -- watching -------------------------------------------------------------

    async def _watch_all(self, client: Client) -> None:
        async with anyio.create_task_group() as tasks:
            self._watchers = (tasks, client)
            try:
                for document in self._documents.values():
                    self._watch(document, tasks, client)
                await anyio.sleep_forever()
            finally:
                self._watchers = None

    def _watch(self, document: Document, tasks: TaskGroup, client: Client) -> None:
        document.scope = anyio.CancelScope()
        tasks.start_soon(self._watch_one, document, client, document.scope)

    async def _watch_one(
        self, document: Document, client: Client, scope: anyio.CancelScope
    ) -> None:
        with scope:
            await watch(document, client, self._publish, self._refresh)


def _outline(snapshot: Snapshot, placed: Placed) -> list[Symbol]:
    title = snapshot.info.get("title") or snapshot.info["id"]
    return outline(str(title), snapshot.nodes, placed.index, placed.places, more=snapshot.more)


def _own_span(text: Text, line: int) -> Span:
    """Return the place of the id in the line of an entry."""
    for found in references(text.line(line)):
        if found.member == "id":
            return _span(text, line, found)
    return Span(line, 0, 0)


def meant(text: Text, places: Places, place: Position) -> Meant:
    """Return the id under a position, or else that of the entry in the line."""
    line, at = text.line(place.line), text.index(place)
    for found in references(line):
        if found.start <= at <= found.end:
            return Meant(found.entry_id, _span(text, place.line, found))
    node = places.nodes.get(place.line)
    return Meant(own_id(line) if node is None else node.id, None)


def _line_of(placed: Placed, entry_id: str) -> int | None:
    """Return the line of an entry, which may be a record: then it is in no tree."""
    line = placed.places.line_of(entry_id)
    return placed.index.line_of(entry_id) if line is None else line


def _span(text: Text, line: int, found: Reference) -> Span:
    return Span(line, text.column(line, found.start), text.column(line, found.end))


async def _entry(placed: Placed, snapshot: Snapshot, entry_id: str, client: Client) -> Entry:
    """Return the daemon's data of an entry. Raises SessiondClientError."""
    stored = await client.entry(snapshot.info["id"], entry_id)
    children = len(stored.children) if isinstance(stored.children, list) else stored.children
    line = _line_of(placed, entry_id)
    node = snapshot.places.get(entry_id)
    return Entry(stored.entry, stored.seq, line, children, stored.label, node)
