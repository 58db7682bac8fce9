"""Language server proper: pygls between an editor's standard streams and `Editor`.

Law: pygls logs whole bodies, and an error it shows may quote one; this module lets neither out.
pygls keeps no text here: its documents split lines where the protocol does not.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from lsprotocol import types
from pygls.exceptions import JsonRpcInternalError, JsonRpcMethodNotFound
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method
from pygls.uris import to_fs_path

from sessiond import __version__
from sessiond.lsp.document import Document
from sessiond.lsp.editor import Editor
from sessiond.lsp.findings import Finding
from sessiond.lsp.link import Join
from sessiond.lsp.shapes import (
    ENCODINGS,
    diagnostics,
    flat_symbols,
    hover,
    location,
    tree_symbols,
)
from sessiond.lsp.text import Position, Text

__all__ = ["serve"]

_Handler = Callable[[Any], Any]

_LOUD: Final = ("pygls", "asyncio", "cattrs")


def serve(join: Join) -> int:
    """Serve the editor until it leaves; return 0 if the editor announced its leave."""
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    server = _Server(join)
    server.start_io()
    return 0 if server.was_shut_down else 1


class _Protocol(LanguageServerProtocol):
    """Protocol of pygls without its own documents: `Editor` keeps the texts."""

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Any:
        yield self._feature(types.TEXT_DOCUMENT_DID_OPEN), (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Any:
        yield self._feature(types.TEXT_DOCUMENT_DID_CHANGE), (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Any:
        yield self._feature(types.TEXT_DOCUMENT_DID_CLOSE), (params,), None

    def _feature(self, name: str) -> _Handler:
        features = cast("dict[str, _Handler]", self.fm.features)  # pyright: ignore[reportUnknownMemberType]
        return features[name]


class _Server(LanguageServer):
    """The offered features, and the task behind them."""

    def __init__(self, join: Join) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - it passes anything on
            "sessiond", __version__, protocol_cls=_Protocol
        )
        self.was_shut_down = False
        self._editor = Editor(join, publish=self._publish, say=self._say)
        self._running: asyncio.Task[None] | None = None
        for feature, handler in (
            (types.INITIALIZE, self._begin),
            (types.SHUTDOWN, self._end),
            (types.TEXT_DOCUMENT_DID_OPEN, self._did_open),
            (types.TEXT_DOCUMENT_DID_CHANGE, self._did_change),
            (types.TEXT_DOCUMENT_DID_SAVE, self._did_save),
            (types.TEXT_DOCUMENT_DID_CLOSE, self._did_close),
            (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, self._symbols),
            (types.TEXT_DOCUMENT_HOVER, self._hover),
            (types.TEXT_DOCUMENT_DEFINITION, self._definition),
        ):
            self.feature(feature)(_plain(handler))

    def report_server_error(self, error: Exception, source: Any) -> None:  # noqa: ARG002
        """Log only the place of a bug, since its text may quote the editor's data.

        An unknown method is answered as the protocol defines, and is no bug.
        """
        if not isinstance(error, JsonRpcMethodNotFound):
            _log_bug(error)

    # -- life -----------------------------------------------------------------

    def _begin(self, _: types.InitializeParams) -> None:
        if self._running is None:
            self._running = asyncio.ensure_future(self._editor.run())
            self._running.add_done_callback(_look_at_end)

    def _end(self, _: object) -> None:
        self.was_shut_down = True
        if self._running is not None:
            self._running.cancel()

    # -- documents ------------------------------------------------------------

    def _did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        path = _path(item.uri)
        if path is None:
            return
        counted = types.PositionEncodingKind(self.workspace.position_encoding or "utf-16")
        if self._editor.opened(item.uri, path, Text(item.text, ENCODINGS[counted])) is None:
            self._say(
                "sessiond: too many session files are open; close one, then open the last one again"
            )

    def _did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        document = self._editor.document(params.text_document.uri)
        if document is None:
            return
        for change in params.content_changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                start, end = change.range.start, change.range.end
                document.text.replace(_place(start), _place(end), change.text)
            else:
                document.text.set(change.text)
        document.text_changed()

    def _did_save(self, params: types.DidSaveTextDocumentParams) -> None:
        self._editor.saved(params.text_document.uri)

    def _did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._editor.closed(params.text_document.uri)

    def _publish(self, document: Document, found: Sequence[Finding]) -> None:
        shown = types.PublishDiagnosticsParams(document.uri, diagnostics(found))
        self.text_document_publish_diagnostics(shown)

    def _say(self, text: str) -> None:
        self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, text))

    # -- questions ------------------------------------------------------------

    async def _symbols(
        self, params: types.DocumentSymbolParams
    ) -> list[types.DocumentSymbol] | list[types.SymbolInformation] | None:
        uri = params.text_document.uri
        found = await self._editor.symbols(uri)
        document = self._editor.document(uri)
        if found is None or document is None:
            return None
        if self._shows_trees():
            return tree_symbols(found, document.text)
        return flat_symbols(found, document.text, uri)

    async def _hover(self, params: types.HoverParams) -> types.Hover | None:
        found = await self._editor.hover(params.text_document.uri, _place(params.position))
        return None if found is None else hover(found)

    async def _definition(self, params: types.DefinitionParams) -> types.Location | None:
        uri = params.text_document.uri
        found = await self._editor.definition(uri, _place(params.position))
        return None if found is None else location(uri, found)

    def _shows_trees(self) -> bool:
        documents = self.client_capabilities.text_document
        symbols = None if documents is None else documents.document_symbol
        return bool(symbols and symbols.hierarchical_document_symbol_support)


def _plain(handler: _Handler) -> _Handler:
    """Return a function of its own for pygls to mark, since a bound method takes no marks."""
    if inspect.iscoroutinefunction(handler):

        async def wait(params: Any) -> Any:
            return await handler(params)

        return wait

    def act(params: Any) -> Any:
        return handler(params)

    return act


def _path(uri: str) -> Path | None:
    """Return the file of a document; None for a URI that is no file of this machine."""
    path = to_fs_path(uri) if urlsplit(uri).scheme == "file" else None
    return Path(path) if path and path.startswith("/") else None


def _place(position: types.Position) -> Position:
    return Position(position.line, position.character)


def _look_at_end(running: asyncio.Task[None]) -> None:
    if not running.cancelled() and (error := running.exception()) is not None:
        _log_bug(error)


def _log_bug(error: BaseException) -> None:
    place = traceback.format_tb(error.__traceback__)
    if isinstance(error, JsonRpcInternalError) and error.data:
        # pygls wraps the error of a handler in its own.
        place = cast("dict[str, list[str]]", error.data).get("traceback", place)
    facts = {"kind": type(error).__name__, "place": place}
    logging.getLogger("sessiond").error("bug", extra=facts)
