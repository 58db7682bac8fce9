"""An editor as pygls' own client plays one, and what its tests look at."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from tests.processes.harness.daemon import SESSIOND, Daemon

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
NATIVE = SAMPLES / "native" / "every-type.jsonl"
PI = SAMPLES / "pi" / "pi.jsonl"
PATIENCE_SECONDS = 120


class Editor(LanguageClient):
    """Keeps what the server publishes and says."""

    def __init__(self) -> None:
        super().__init__("test", "1")
        self.published: dict[str, asyncio.Queue[list[types.Diagnostic]]] = {}
        self.said: asyncio.Queue[str] = asyncio.Queue()
        self.exit_code: int | None = None
        self.hello: types.InitializeResult | None = None

        # pygls writes its marks on a handler, and a method takes none.
        self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(partial(self._published))
        self.feature(types.WINDOW_SHOW_MESSAGE)(partial(self._said))

    def _published(self, params: types.PublishDiagnosticsParams) -> None:
        self.queue(params.uri).put_nowait(list(params.diagnostics))

    def _said(self, params: types.ShowMessageParams) -> None:
        self.said.put_nowait(params.message)

    async def leave(self) -> None:
        stop: Callable[[], Awaitable[None]] = self.stop
        await asyncio.wait_for(stop(), PATIENCE_SECONDS)

    def queue(self, uri: str) -> asyncio.Queue[list[types.Diagnostic]]:
        return self.published.setdefault(uri, asyncio.Queue())

    async def server_exit(self, server: asyncio.subprocess.Process) -> None:
        self.exit_code = server.returncode

    def open(self, path: Path, text: str | None = None) -> str:
        content = path.read_bytes().decode() if text is None else text
        item = types.TextDocumentItem(path.as_uri(), "jsonl", 1, content)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return path.as_uri()

    def edit(self, uri: str, *changes: tuple[tuple[int, int], tuple[int, int], str]) -> None:
        self.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(2, uri),
                [
                    types.TextDocumentContentChangePartial(
                        types.Range(types.Position(*start), types.Position(*end)), text
                    )
                    for start, end, text in changes
                ],
            )
        )

    def save(self, uri: str) -> None:
        named = types.TextDocumentIdentifier(uri)
        self.text_document_did_save(types.DidSaveTextDocumentParams(named))

    def close(self, uri: str) -> None:
        named = types.TextDocumentIdentifier(uri)
        self.text_document_did_close(types.DidCloseTextDocumentParams(named))

    async def problems(self, uri: str) -> list[types.Diagnostic]:
        return await asyncio.wait_for(self.queue(uri).get(), PATIENCE_SECONDS)

    async def message(self) -> str:
        return await asyncio.wait_for(self.said.get(), PATIENCE_SECONDS)

    async def hover(self, uri: str, line: int, column: int = 0) -> str | None:
        found = await self.hovered(uri, line, column)
        if found is None:
            return None
        assert isinstance(found.contents, types.MarkupContent)
        return found.contents.value

    async def hovered(self, uri: str, line: int, column: int = 0) -> types.Hover | None:
        named, at = types.TextDocumentIdentifier(uri), types.Position(line, column)
        asked = self.text_document_hover_async(types.HoverParams(named, at))
        return await asyncio.wait_for(asked, PATIENCE_SECONDS)

    async def symbols(self, uri: str) -> list[Any]:
        named = types.TextDocumentIdentifier(uri)
        asked = self.text_document_document_symbol_async(types.DocumentSymbolParams(named))
        return list(await asyncio.wait_for(asked, PATIENCE_SECONDS) or [])

    async def definition(self, uri: str, line: int, column: int) -> types.Location | None:
        named, at = types.TextDocumentIdentifier(uri), types.Position(line, column)
        asked = self.text_document_definition_async(types.DefinitionParams(named, at))
        found = await asyncio.wait_for(asked, PATIENCE_SECONDS)
        assert found is None or isinstance(found, types.Location)
        return found


@asynccontextmanager
async def editor(
    server: Daemon, *options: str, trees: bool = True, encodings: tuple[str, ...] = ()
) -> AsyncGenerator[Editor]:
    """Run an editor with its server; end the server as editors do."""
    client = Editor()
    where = ("--socket", str(server.socket_path), *options)
    await client.start_io(SESSIOND, "lsp", *where, env=dict(server.environment))
    try:
        symbols = types.DocumentSymbolClientCapabilities(hierarchical_document_symbol_support=trees)
        capabilities = types.ClientCapabilities(
            text_document=types.TextDocumentClientCapabilities(document_symbol=symbols),
            general=types.GeneralClientCapabilities(position_encodings=list(encodings) or None),
        )
        asked = client.initialize_async(
            types.InitializeParams(capabilities=capabilities, process_id=os.getpid())
        )
        client.hello = await asyncio.wait_for(asked, PATIENCE_SECONDS)
        client.initialized(types.InitializedParams())
        yield client
        await asyncio.wait_for(client.shutdown_async(None), PATIENCE_SECONDS)
        client.exit(None)
        await client.leave()
    finally:
        if client.exit_code is None and client._server is not None:
            client._server.kill()
            await client.leave()
    assert client.exit_code == 0


def copy(sample: Path, folder: Path) -> Path:
    return Path(shutil.copy(sample, folder))


def names(symbols: list[types.DocumentSymbol], depth: int = 0) -> Iterator[str]:
    for symbol in symbols:
        yield "  " * depth + f"{symbol.range.start.line} {symbol.name} ({symbol.detail})"
        yield from names(list(symbol.children or []), depth + 1)


def member(path: Path, line: int, name: str) -> tuple[int, int, int]:
    """Return the place of a member's value in a line, in UTF-16 units as editors count."""
    text = path.read_bytes().decode().split("\n")[line]
    start = text.index(f'"{name}":"') + len(name) + 4
    end = text.index('"', start)
    return line, units(text[:start]), units(text[:end])


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def whole(diagnostic: types.Diagnostic) -> tuple[str | int | None, int]:
    return diagnostic.code, diagnostic.range.start.line


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [SESSIOND, *arguments],
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
