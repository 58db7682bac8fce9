"""Desk: what the answers of features start from.

Law: a view belongs to one moment: its text, places and snapshot fit each other, and stay as they
are while an answer is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from anyio import to_thread
from msgspec import Struct

from sessiond.lsp.document import Snapshot
from sessiond.lsp.editor import Editor
from sessiond.lsp.places import Places
from sessiond.lsp.text.text import Text
from sessiond.lsp.window import Window
from sessiond_client import Client

_NAME_CHARS_MAX: Final = 100


class Refusal(Exception):
    """A command that cannot be carried out; the text tells its user why, and what to do."""


class View(Struct, frozen=True):
    """A document and its session at one moment."""

    uri: str
    client: Client
    snapshot: Snapshot
    text: Text
    """A copy, which a thread may read."""
    places: Places

    @property
    def info(self) -> Mapping[str, Any]:
        """The session, as the daemon tells of it."""
        return self.snapshot.info

    @property
    def session_id(self) -> str:
        """Id of the session."""
        session_id: str = self.info["id"]
        return session_id

    @property
    def is_writable(self) -> bool:
        """Return whether the session can be changed."""
        return not (self.info.get("read_only") or self.info.get("archived"))

    @property
    def is_native(self) -> bool:
        """Return whether sessiond wrote the file."""
        return self.info.get("dialect") == "native"

    def width(self, number: int) -> int:
        """Return the editor's column at the end of a line."""
        return self.text.encoding.units(self.text.line(number))


class KeptTokens:
    """The last semantic tokens of each document, by which an editor asks for changes."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, Sequence[int]]] = {}
        self._count = 0

    def put(self, uri: str, numbers: Sequence[int]) -> str:
        """Keep the tokens of a document; return the id of the result."""
        self._count += 1
        self._kept[uri] = str(self._count), numbers
        return str(self._count)

    def get(self, uri: str, result_id: str) -> Sequence[int] | None:
        """Return the tokens of a result; None if these are not the last ones."""
        kept = self._kept.get(uri)
        return kept[1] if kept is not None and kept[0] == result_id else None

    def keep_only(self, is_open: Callable[[str], bool]) -> None:
        """Forget closed documents."""
        self._kept = {uri: kept for uri, kept in self._kept.items() if is_open(uri)}


class Desk:
    """The open documents and the window of one editor."""

    def __init__(self, editor: Editor, window: Window) -> None:
        self.editor = editor
        self.window = window
        self.tokens = KeptTokens()
        self._figures: dict[str, tuple[str, dict[int, str]]] = {}
        self._folder: TemporaryDirectory[str] | None = None

    async def view(self, uri: str) -> View | None:
        """Return the view of a document; None if the daemon does not answer for the document.

        None also while the text keeps changing. Raises Cancelled.
        """
        found = await self.editor.look(uri)
        if found is None:
            return None
        document, client, snapshot = found
        placed = await document.placed(snapshot)
        if placed is None:
            return None
        if any(self.editor.document(known) is None for known in self._figures):
            self._forget_closed()
        return View(uri, client, snapshot, placed.text, placed.places)

    async def view_or_refuse(self, uri: str) -> View:
        """Return the view of a document. Raises Refusal and Cancelled."""
        document = self.editor.document(uri)
        if document is None:
            raise Refusal("the file is not open in this editor: open the file first")
        view = await self.view(uri)
        if view is not None:
            return view
        if await self.editor.client() is None:
            raise Refusal(
                "no daemon answers: start one with `sessiond start` and the flags of `sessiond lsp`,"
                " then try again"
            )
        raise Refusal("the daemon does not read this file as a session")

    def figures(self, view: View) -> dict[int, str]:
        """Return the kept figures of a document's entries, by seq; entries never change."""
        epoch = str(view.info.get("epoch"))
        kept = self._figures.get(view.uri)
        if kept is None or kept[0] != epoch:
            kept = self._figures[view.uri] = epoch, {}
        return kept[1]

    async def keep(self, name: str, body: bytes) -> Path:
        """Write JSON for the editor to show, into a folder of this user that `close` removes."""
        return await to_thread.run_sync(self._write, name, body)

    def close(self) -> None:
        """Remove what was written for the editor."""
        if self._folder is not None:
            self._folder.cleanup()

    def _write(self, name: str, body: bytes) -> Path:
        if self._folder is None:
            # Mode 0700, as every folder that this function makes.
            self._folder = TemporaryDirectory(prefix="sessiond-lsp-")
        safe = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)
        path = Path(self._folder.name) / f"{safe[:_NAME_CHARS_MAX]}.json"
        path.write_bytes(msgspec.json.format(body))
        return path

    def _forget_closed(self) -> None:
        def is_open(uri: str) -> bool:
            return self.editor.document(uri) is not None

        self._figures = {uri: kept for uri, kept in self._figures.items() if is_open(uri)}
        self.tokens.keep_only(is_open)
