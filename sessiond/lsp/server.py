"""Language server proper: pygls between an editor's standard streams and `Editor`.

Law: pygls logs whole bodies, and an error it shows may quote one; this module lets neither out.
No step of the event loop grows with a document: long texts come in through `Incoming`, and answers
are made in threads.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from urllib.parse import urlsplit

from anyio import to_thread
from cattrs import Converter
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcMethodNotFound,
    JsonRpcRequestCancelled,
)
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter
from pygls.uris import to_fs_path

from sessiond import __version__
from sessiond.lsp.answers import Refused, answering, handler_of
from sessiond.lsp.document import Document
from sessiond.lsp.editor import Editor
from sessiond.lsp.features.commands import COMMANDS, run
from sessiond.lsp.features.desk import Desk
from sessiond.lsp.features.table import FEATURES
from sessiond.lsp.findings import Finding
from sessiond.lsp.incoming import Incoming
from sessiond.lsp.link import Join
from sessiond.lsp.outgoing import Outgoing
from sessiond.lsp.protocol import Protocol
from sessiond.lsp.shapes import (
    ENCODINGS,
    diagnostics,
    flat_symbols,
    hover,
    location,
    tree_symbols,
)
from sessiond.lsp.text.text import Position, Text
from sessiond.lsp.window import Window

_LOUD: Final = ("pygls", "asyncio", "cattrs")


def serve(join: Join) -> int:
    """Serve the editor until it leaves; return 0 if the editor announced its leave."""
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    server = _Server(join, Incoming(sys.stdin.buffer))
    # The objects of pygls stay for good, so no collection looks at them: one would last 20 ms.
    gc.freeze()
    server.serve(Outgoing(sys.stdout.buffer))
    return 0 if server.was_shut_down else 1


class _Server(LanguageServer):
    """The offered features, and the task behind them."""

    def __init__(self, join: Join, incoming: Incoming) -> None:
        converter = cast("Callable[[], Converter]", default_converter)()
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - it passes anything on
            "sessiond",
            __version__,
            protocol_cls=Protocol,
            converter_factory=lambda: converter,
        )
        self.was_shut_down = False
        self._incoming = incoming
        self._window = Window(self)
        self._editor = Editor(
            join,
            publish=self._publish,
            refresh=self._window.refresh,
            say=self._window.warn,
            progress=self._window.work,
        )
        self._desk = Desk(self._editor, self._window)
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
            (types.WINDOW_WORK_DONE_PROGRESS_CANCEL, self._cancel),
        ):
            self.feature(feature)(handler_of(handler, converter))
        for offered in FEATURES:
            answer = partial(offered.answer, self._desk)
            self.feature(offered.method, offered.options)(answering(answer, converter))
        self.feature(types.WORKSPACE_EXECUTE_COMMAND)(handler_of(self._execute, converter))
        for name in COMMANDS:
            # pygls tells the editor of these; `_execute` carries them out.
            self.command(name)(handler_of(self._execute, converter))

    def serve(self, outgoing: Outgoing) -> None:
        """Serve until the editor ends the stream or says goodbye."""
        try:
            # pygls calls `readline` and `read`, each in a thread, and `write`, `flush` and `close`.
            self.start_io(cast("BinaryIO", self._incoming), cast("BinaryIO", outgoing))
        finally:
            outgoing.close()
            self._desk.close()

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log only the place of a bug, since its text may quote the editor's data.

        An unknown method and a refusal are answered as the protocol defines, and are no bugs. A
        body that pygls could not parse is answered here.
        """
        if source is JsonRpcException and isinstance(error, ValueError | RecursionError):
            cast("Protocol", self.protocol).refuse_body()
        elif not isinstance(error, JsonRpcMethodNotFound | Refused | JsonRpcRequestCancelled):
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
        text = Text(self._incoming.lines(item.text), ENCODINGS[counted])
        if self._editor.opened(item.uri, path, text) is None:
            self._window.warn(
                "sessiond: too many session files are open; close one, then open the last one again"
            )

    def _did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        document = self._editor.document(params.text_document.uri)
        if document is None:
            return
        for change in params.content_changes:
            lines = self._incoming.lines(change.text)
            if isinstance(change, types.TextDocumentContentChangePartial):
                start, end = change.range.start, change.range.end
                document.replace(_place(start), _place(end), lines)
            else:
                document.set(lines)
        document.text_changed()

    def _did_save(self, params: types.DidSaveTextDocumentParams) -> None:
        self._editor.saved(params.text_document.uri)

    def _did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._editor.closed(params.text_document.uri)

    def _publish(self, document: Document, found: Sequence[Finding]) -> None:
        shown = types.PublishDiagnosticsParams(document.uri, diagnostics(found))
        self.text_document_publish_diagnostics(shown)

    def _cancel(self, params: types.WorkDoneProgressCancelParams) -> None:
        self._window.cancel(params.token)

    # -- questions ------------------------------------------------------------

    async def _symbols(
        self, params: types.DocumentSymbolParams
    ) -> list[types.DocumentSymbol] | list[types.SymbolInformation] | None:
        uri = params.text_document.uri
        found = await self._editor.symbols(uri)
        if found is None:
            return None
        if self._shows_trees():
            return await to_thread.run_sync(tree_symbols, found.symbols, found.text)
        return await to_thread.run_sync(flat_symbols, found.symbols, found.text, uri)

    async def _hover(self, params: types.HoverParams) -> types.Hover | None:
        found = await self._editor.hover(params.text_document.uri, _place(params.position))
        return None if found is None else hover(found)

    async def _definition(self, params: types.DefinitionParams) -> types.Location | None:
        uri = params.text_document.uri
        found = await self._editor.definition(uri, _place(params.position))
        return None if found is None else location(uri, found)

    async def _execute(self, params: types.ExecuteCommandParams) -> Any:
        return await run(self._desk, params.command, params.arguments)

    def _shows_trees(self) -> bool:
        documents = self.client_capabilities.text_document
        symbols = None if documents is None else documents.document_symbol
        return bool(symbols and symbols.hierarchical_document_symbol_support)


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
