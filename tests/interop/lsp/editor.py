"""An editor as pygls' own client plays one, and what its tests look at."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND, Daemon

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
NATIVE = SAMPLES / "native" / "every-type.jsonl"
PI = SAMPLES / "pi" / "pi.jsonl"
LINEAR = SAMPLES / "pi" / "pi-v1-linear.jsonl"
SHARUR = SAMPLES / "sharur" / "sharur.jsonl"
CLAUDE = SAMPLES.parent / "other_agents" / "claude-branch-compact.jsonl"
REFRESHES = (
    types.WORKSPACE_CODE_LENS_REFRESH,
    types.WORKSPACE_INLAY_HINT_REFRESH,
    types.WORKSPACE_SEMANTIC_TOKENS_REFRESH,
)


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
        self.choice: str | None = None
        """Answer of the user to the next questions."""
        self.asked: list[list[str]] = []
        self.shown: list[str] = []
        self.refreshed: asyncio.Queue[str] = asyncio.Queue()
        self.progresses: asyncio.Queue[types.ProgressParams] = asyncio.Queue()
        self.tokens: list[str | int] = []
        self.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)(partial(self._asked))
        self.feature(types.WINDOW_SHOW_DOCUMENT)(partial(self._showed))
        self.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)(partial(self._created))
        self.feature(types.PROGRESS)(partial(self.progresses.put_nowait))
        for method in REFRESHES:
            self.feature(method)(partial(self._refreshed, method))

    def _published(self, params: types.PublishDiagnosticsParams) -> None:
        self.queue(params.uri).put_nowait(list(params.diagnostics))

    def _asked(self, params: types.ShowMessageRequestParams) -> types.MessageActionItem | None:
        self.asked.append([item.title for item in params.actions or ()])
        return None if self.choice is None else types.MessageActionItem(self.choice)

    def _showed(self, params: types.ShowDocumentParams) -> types.ShowDocumentResult:
        self.shown.append(params.uri)
        return types.ShowDocumentResult(success=True)

    def _created(self, params: types.WorkDoneProgressCreateParams) -> None:
        self.tokens.append(params.token)

    def _refreshed(self, method: str, _: object) -> None:
        self.refreshed.put_nowait(method)

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

    async def ask(self, method: str, params: Any) -> Any:
        """Return the answer to any request; raise JsonRpcException for a refusal."""
        asked = self.protocol.send_request_async(method, params)
        return await asyncio.wait_for(asked, PATIENCE_SECONDS)

    async def run(self, command: str, *arguments: Any) -> Any:
        """Return the result of a command."""
        params = types.ExecuteCommandParams(command, arguments=list(arguments))
        return await self.ask(types.WORKSPACE_EXECUTE_COMMAND, params)

    async def refusal(self, command: str, *arguments: Any) -> str:
        """Return the error of a command."""
        with pytest.raises(JsonRpcException) as refused:
            await self.run(command, *arguments)
        assert refused.value.code == types.LSPErrorCodes.RequestFailed
        return str(refused.value)

    async def lenses(self, uri: str) -> dict[int, list[str]]:
        """Return the titles of the lenses of each line."""
        params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
        titles: dict[int, list[str]] = {}
        for lens in await self.ask(types.TEXT_DOCUMENT_CODE_LENS, params) or ():
            titles.setdefault(lens.range.start.line, []).append(lens.command.title)
        return titles

    async def actions(
        self, uri: str, line: int, problems: Sequence[types.Diagnostic] = (), only: Any = None
    ) -> list[types.CodeAction]:
        at = types.Position(line, 0)
        context = types.CodeActionContext(list(problems), only)
        named = types.TextDocumentIdentifier(uri)
        params = types.CodeActionParams(named, types.Range(at, at), context)
        # lsprotocol takes every action that has a command for a command.
        asked = self.protocol.send_request_async(types.TEXT_DOCUMENT_CODE_ACTION, params, "actions")
        self.protocol._result_types["actions"] = None
        found = await asyncio.wait_for(asked, PATIENCE_SECONDS)
        converter = self.protocol._converter
        return [converter.structure(one, types.CodeAction) for one in found or ()]

    async def fix(self, uri: str, problem: types.Diagnostic) -> Any:
        """Return the result of the one fix of a problem."""
        (action,) = await self.actions(uri, problem.range.start.line, [problem], ["quickfix"])
        assert action.command is not None
        return await self.run(action.command.command, *(action.command.arguments or ()))

    async def hints(self, uri: str, first: int = 0, last: int = 999) -> list[tuple[int, str]]:
        lines = types.Range(types.Position(first, 0), types.Position(last, 0))
        params = types.InlayHintParams(types.TextDocumentIdentifier(uri), lines)
        found = await self.ask(types.TEXT_DOCUMENT_INLAY_HINT, params)
        return [(hint.position.line, hint.label) for hint in found or ()]

    async def find(self, query: str, token: str | None = None) -> list[tuple[str, str, int]]:
        """Return name, URI and line of each hit in all sessions."""
        params = types.WorkspaceSymbolParams(query, work_done_token=token)
        found = await self.ask(types.WORKSPACE_SYMBOL, params)
        return [(one.name, one.location.uri, one.location.range.start.line) for one in found]

    async def folds(self, uri: str) -> list[tuple[int, int]]:
        named = types.TextDocumentIdentifier(uri)
        params = types.FoldingRangeParams(named)
        found = await self.ask(types.TEXT_DOCUMENT_FOLDING_RANGE, params)
        return [(one.start_line, one.end_line) for one in found]

    async def references(
        self, uri: str, line: int, column: int = 0, *, declared: bool = False
    ) -> list[tuple[int, int, int]]:
        params = types.ReferenceParams(
            types.ReferenceContext(declared),
            types.TextDocumentIdentifier(uri),
            types.Position(line, column),
        )
        found = await self.ask(types.TEXT_DOCUMENT_REFERENCES, params)
        ranges = [one.range for one in found]
        assert all(one.uri == uri for one in found)
        return [(at.start.line, at.start.character, at.end.character) for at in ranges]

    async def definition(self, uri: str, line: int, column: int) -> types.Location | None:
        named, at = types.TextDocumentIdentifier(uri), types.Position(line, column)
        asked = self.text_document_definition_async(types.DefinitionParams(named, at))
        found = await asyncio.wait_for(asked, PATIENCE_SECONDS)
        assert found is None or isinstance(found, types.Location)
        return found


@asynccontextmanager
async def editor(
    server: Daemon,
    *options: str,
    trees: bool = True,
    refreshes: bool = False,
    encodings: tuple[str, ...] = (),
) -> AsyncGenerator[Editor]:
    """Run an editor with its server; end the server as editors do."""
    client = Editor()
    where = ("--socket", str(server.socket_path), *options)
    await client.start_io(SESSIOND, "lsp", *where, env=dict(server.environment))
    try:
        symbols = types.DocumentSymbolClientCapabilities(hierarchical_document_symbol_support=trees)
        fixes = types.CodeActionClientCapabilities(disabled_support=True)
        capabilities = types.ClientCapabilities(
            text_document=types.TextDocumentClientCapabilities(
                document_symbol=symbols, code_action=fixes
            ),
            window=types.WindowClientCapabilities(
                work_done_progress=True, show_document=types.ShowDocumentClientCapabilities(True)
            ),
            workspace=_refreshing(is_asked=refreshes),
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


def _refreshing(*, is_asked: bool) -> types.WorkspaceClientCapabilities:
    lens, hint = (
        types.CodeLensWorkspaceClientCapabilities,
        types.InlayHintWorkspaceClientCapabilities,
    )
    tokens = types.SemanticTokensWorkspaceClientCapabilities
    return types.WorkspaceClientCapabilities(
        code_lens=lens(is_asked), inlay_hint=hint(is_asked), semantic_tokens=tokens(is_asked)
    )


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
