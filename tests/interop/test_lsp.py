"""`sessiond lsp` as an editor has it: pygls' own client, the real server, the real daemon."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from sessiond_client import connect
from tests.processes.harness.daemon import SESSIOND, Daemon, running

pytestmark = [pytest.mark.slow, pytest.mark.interop]

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
NATIVE = SAMPLES / "native" / "every-type.jsonl"
PI = SAMPLES / "pi" / "pi.jsonl"
PATIENCE_SECONDS = 20


@pytest.fixture
def anyio_backend() -> str:
    """pygls knows asyncio only."""
    return "asyncio"


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


@pytest.fixture
def server(server: Daemon) -> Daemon:
    """Return a daemon that listens already; `sessiond lsp` would start another one otherwise."""
    server.connect().close()
    return server


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


async def test_the_outline_of_a_native_session(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        uri = client.open(copy(NATIVE, home))
        assert await client.problems(uri) == []
        assert list(names(await client.symbols(uri))) == [
            "0 019a6f00-0000-7000-8000-000000000001 (session)",
            "22 A second trunk. (system)",
            "1 branch at line 2: high (branch)",
            "  1 high (thinking_level_change)",
            "  2 claude-opus-4-5 (model_change)",
            "  3 Fix the flaky test \u2013 it\u2019s in test_cart.py please (user)",
            "    4 Reading. (assistant)",
            "    5 def test_cart(): ... (tool)",
            "    6 It depends on time. (assistant)",
            "    8 todo-ext (custom)",
            "    9 2 todos open (custom_message)",
            "  11 On a head of its own (user)",
            "12 branch at line 13: Goal: fix the flaky test. (branch)",
            "  12 Goal: fix the flaky test. (compaction)",
            "  13 also check orders (user)",
            "15 branch at line 16: Froze the clock. (branch)",
            "  15 Froze the clock. (branch_summary)",
            "  18 [compaction] (compaction)",
            "    19 [reaction] (reaction)",
        ]


async def test_the_outline_of_a_pi_session_for_an_editor_without_trees(
    server: Daemon, home: Path
) -> None:
    async with editor(server, trees=False) as client:
        uri = client.open(copy(PI, home))
        assert await client.problems(uri) == []
        symbols = await client.symbols(uri)
        assert all(isinstance(symbol, types.SymbolInformation) for symbol in symbols)
        assert [
            (symbol.location.range.start.line, symbol.name, symbol.container_name)
            for symbol in symbols[:6]
        ] == [
            (0, "Flaky cart test", None),
            (1, "claude-opus-4-5", None),
            (2, "high", None),
            (3, "Fix the flaky test", None),
            (4, "Reading.", "Fix the flaky test"),
            (5, "def test_cart(): ...", "Fix the flaky test"),
        ]


async def test_an_old_file_is_to_be_imported_first(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        uri = client.open(copy(SAMPLES / "pi" / "pi-v1-linear.jsonl", home))
        (one,) = await client.problems(uri)
        assert whole(one) == ("session_corrupt", 0)
        assert "older version" in one.message


@pytest.mark.parametrize("name", ["before-compaction.jsonl", "large-session.jsonl"])
async def test_recorded_sessions(server: Daemon, shared: Path, name: str) -> None:
    async with editor(server) as client, connect(server.socket_path) as other:
        imported = await other.import_(path=str(shared / "fixtures" / name))
        assert imported.session.path is not None
        path = Path(imported.session.path)
        uri = client.open(path)
        assert await client.problems(uri) == []
        symbols = list(names(await client.symbols(uri)))
        assert len(symbols) >= path.read_bytes().count(b"\n")
        assert "\nactive path: " in str(await client.hover(uri, len(symbols) // 2))


async def test_a_hover_tells_of_the_entry_in_the_line(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        uri = client.open(copy(NATIVE, home))
        assert str(await client.hover(uri, 4)).split("\n") == [
            "message, assistant (claude-opus-4-5)",
            "id: n4",
            "parent: n3",
            "written: 2026-01-15T10:30:04.000Z",
            "line: 5",
            "seq: 4",
            "depth: 3",
            "children: 1",
            "active path: no",
            "tokens: input 2,775, output 141",
            "",
            "Reading.",
        ]
        head = str(await client.hover(uri, 22))
        assert "heads here: main\nactive path: yes" in head
        assert str(await client.hover(uri, 0)).startswith("session\nid: 019a6f00")
        # A record: in no tree, but an entry.
        assert str(await client.hover(uri, 7)).startswith("label\nid: n7\n")
        assert await client.hover(uri, 23) is None
        assert await client.hover(uri, 999) is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_ids_lead_to_their_entries_behind_text_beyond_the_bmp(
    server: Daemon, home: Path, encoding: str
) -> None:
    path = home / "wide.jsonl"
    path.write_text(
        '{"type":"session_header","version":1,"id":"wide-session","timestamp":"2026-01-15T10:30:00Z","cwd":"/p"}\n'
        '{"type":"message","message":{"role":"user","content":"\U0001f600 \u2028 é"},"id":"w1","parent_id":null,"timestamp":"2026-01-15T10:30:00Z"}\n'
        '{"type":"message","message":{"role":"assistant","content":"\U0001f600\U0001f600"},"id":"w2","parent_id":"w1","timestamp":"2026-01-15T10:30:00Z"}\n',
        "utf-8",
    )
    text = path.read_text("utf-8").split("\n")
    size = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
    codec, width = size[encoding]

    def span(line: int, name: str) -> types.Range:
        start = text[line].index(f'"{name}":"') + len(name) + 4
        columns = [len(text[line][:at].encode(codec)) // width for at in (start, start + 2)]
        return types.Range(*(types.Position(line, column) for column in columns))

    async with editor(server, encodings=(encoding,)) as client:
        assert client.hello is not None
        assert client.hello.capabilities.position_encoding == encoding
        uri = client.open(path)
        parent = span(2, "parent_id")
        found = await client.hovered(uri, 2, parent.start.character + 1)
        assert found is not None
        assert found.range == parent
        assert isinstance(found.contents, types.MarkupContent)
        assert found.contents.value.startswith("message, user\nid: w1\n")
        there = await client.definition(uri, 2, parent.start.character + 1)
        assert there == types.Location(uri, span(1, "id"))
        assert await client.definition(uri, 2, 0) is None


async def test_a_damaged_file_shows_where(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    orphan = '{"type":"message","id":"x1","parent_id":"gone","timestamp":"2026-01-15T10:30:00Z","message":{"role":"user","content":"\U0001f600"}}'
    with path.open("a", encoding="utf-8") as file:
        file.write(f"this is no JSON\n{orphan}\n")
    async with editor(server) as client:
        uri = client.open(path)
        shown = await client.problems(uri)
        assert [whole(one) for one in shown] == [("read_only", 0), ("bad_line", 23), ("orphan", 24)]
        assert shown[1].severity == types.DiagnosticSeverity.Error
        line, start, end = member(path, 24, "parent_id")
        assert shown[2].range == types.Range(types.Position(line, start), types.Position(line, end))
        # The good lines answer as ever.
        assert str(await client.hover(uri, 24)).startswith("message, user\nid: x1")
        assert await client.hover(uri, 23) is None

        client.close(uri)
        assert await client.problems(uri) == []


async def test_damage_by_another_program_is_shown_while_the_file_is_open(
    server: Daemon, home: Path
) -> None:
    path = copy(NATIVE, home)
    good = path.read_bytes()
    async with editor(server) as client:
        uri = client.open(path)
        assert await client.problems(uri) == []
        # A line that is no entry is no event.
        with path.open("ab") as file:
            file.write(b"this is no JSON\n")
        shown = await client.problems(uri)
        assert [whole(one) for one in shown] == [("changed_on_disk", 0)]
        assert "line 24 " in shown[0].message
        # The editor reads it again, and each problem has its place.
        client.edit(uri, ((23, 0), (23, 0), "this is no JSON\n"))
        shown = await client.problems(uri)
        assert [whole(one) for one in shown] == [("read_only", 0), ("bad_line", 23)]
        client.edit(uri, ((23, 0), (24, 0), ""))
        path.write_bytes(good)
        client.save(uri)
        while shown:
            shown = await client.problems(uri)
        # In place, as an editor saves: the lines are others than the text has.
        path.write_bytes(good.replace(b'"type":"model_change"', b'"type" "model_change"', 1))
        while [whole(one) for one in shown] != [("changed_on_disk", 0)]:
            shown = await client.problems(uri)
        assert "line 3 " in shown[0].message
        path.write_bytes(good)
        while shown:
            shown = await client.problems(uri)


async def test_half_a_line_is_shown_until_it_is_taken_out(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    good = path.read_bytes()
    with path.open("a", encoding="utf-8") as file:
        file.write('{"type":"message","id":"x1","parent_id":"n22","time')
    async with editor(server) as client:
        uri = client.open(path)
        assert [whole(one) for one in await client.problems(uri)] == [("torn_tail", 23)]
        # Reading it cut nothing: whoever edits the file takes the half out.
        assert path.read_bytes() != good
        path.write_bytes(good)
        client.edit(uri, ((23, 0), (24, 0), ""))
        client.save(uri)
        assert await client.problems(uri) == []


@pytest.mark.parametrize("content", ['{"hello":"world"}\n', "", "plain text", "[1]\n[2]\n"])
async def test_a_file_that_is_no_session_says_so_once(
    server: Daemon, home: Path, content: str
) -> None:
    path = home / "other.jsonl"
    path.write_text(content, "utf-8")
    async with editor(server) as client:
        uri = client.open(path)
        (one,) = await client.problems(uri)
        assert whole(one) == ("session_corrupt", 0)
        assert one.severity == types.DiagnosticSeverity.Information
        assert one.message.startswith("not read as a session: ")
        assert await client.symbols(uri) == []
        assert await client.hover(uri, 0) is None
        # It becomes one when it is saved as one.
        path.write_bytes(PI.read_bytes())
        client.edit(uri, ((0, 0), (99, 0), PI.read_text("utf-8")))
        client.save(uri)
        assert await client.problems(uri) == []
        assert len(await client.symbols(uri)) > 5


def test_a_method_it_lacks_is_refused_and_is_no_bug(home: Path, socket_path: Path) -> None:
    bodies = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
        | {"params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"jsonrpc": "2.0", "id": 2, "method": "textDocument/foldingRange"}
        | {"params": {"textDocument": {"uri": "file:///x.jsonl"}}},
        {"jsonrpc": "2.0", "id": 3, "method": "acme/unheardOf", "params": {}},
        {"jsonrpc": "2.0", "id": 4, "method": "shutdown"},
        {"jsonrpc": "2.0", "method": "exit"},
    ]
    texts = [json.dumps(body).encode() for body in bodies]
    sent = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(text), text) for text in texts)
    words = [SESSIOND, "lsp", "--no-start", "--socket", str(socket_path), "--home", str(home)]
    done = subprocess.run(
        words, input=sent, capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.stdout.count(b"-32601") == 2, done
    assert b"bug" not in done.stderr


async def test_documents_that_are_no_files_are_left_alone(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        item = types.TextDocumentItem("untitled:Untitled-1", "jsonl", 1, "{}")
        client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        assert await client.symbols("untitled:Untitled-1") == []
        never_saved = client.open(home / "never.jsonl", "{}")
        assert await client.problems(never_saved) == []
        assert await client.hover(never_saved, 0) is None


async def test_a_file_that_another_daemon_holds_says_who(
    server: Daemon, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy(PI, home)
    monkeypatch.setenv("SESSIOND_PROFILE", "other")
    with running(Daemon(tmp_path / "o", server.home)) as other, other.connect() as link:
        link.ask("session/open", path=str(path))
        monkeypatch.delenv("SESSIOND_PROFILE")
        async with editor(server) as client:
            uri = client.open(path)
            (one,) = await client.problems(uri)
            assert whole(one) == ("session_locked", 0)
            assert str(other.pid) in one.message


async def test_what_is_not_saved_moves_lines_and_shows_no_problems(
    server: Daemon, home: Path
) -> None:
    path = copy(NATIVE, home)
    async with editor(server) as client:
        uri = client.open(path)
        assert await client.problems(uri) == []
        client.edit(uri, ((1, 0), (1, 0), "not JSON\nnor this \U0001f600\n"))
        assert "\nid: n4\n" in str(await client.hover(uri, 6))
        assert "\nline: 7\nseq: 4\n" in str(await client.hover(uri, 6))
        assert await client.hover(uri, 1) is None
        assert (await client.symbols(uri))[1].range.start.line == 24
        line, start, _ = member(path, 4, "parent_id")
        there = await client.definition(uri, line + 2, start)
        assert there is not None
        assert there.range.start.line == 5
        # Nothing is shown, however long one waits; a check would take less.
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.queue(uri).get(), 0.7)
        # This is what saving shows.
        lines = path.read_text("utf-8").split("\n")
        path.write_text(
            "\n".join([lines[0], "not JSON", "nor this \U0001f600", *lines[1:]]), "utf-8"
        )
        client.save(uri)
        shown = await client.problems(uri)
        assert [whole(one) for one in shown] == [("read_only", 0), ("bad_line", 1), ("bad_line", 2)]
        # Mended by hand, and saved again.
        client.edit(uri, ((1, 0), (3, 0), ""))
        path.write_text("\n".join(lines), "utf-8")
        client.save(uri)
        assert await client.problems(uri) == []


async def test_what_others_store_is_known(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    async with editor(server) as client, connect(server.socket_path) as other:
        uri = client.open(path)
        assert await client.problems(uri) == []
        assert "heads here: main" in str(await client.hover(uri, 22))
        session = await other.open(path=str(path))
        stored = await other.append(session.id, message={"role": "user", "content": "new"})
        while "children: 1" not in str(await client.hover(uri, 22)):
            # Its event is on the way.
            continue
        # It has no place in this text before the editor has read it.
        count = len(await client.symbols(uri))
        client.edit(uri, ((23, 0), (23, 0), path.read_text("utf-8").split("\n")[23] + "\n"))
        assert f"id: {stored.leaf_id}" in str(await client.hover(uri, 23))
        assert len(await client.symbols(uri)) == count + 1


async def test_saving_over_a_session_that_others_use_warns(server: Daemon, home: Path) -> None:
    path = copy(NATIVE, home)
    async with editor(server) as client, connect(server.socket_path) as other:
        uri = client.open(path)
        assert await client.problems(uri) == []
        session = await other.open(path=str(path))
        async with other.subscribe(session.id):
            client.save(uri)
            assert [whole(one) for one in await client.problems(uri)] == [("in_use", 0)]
        client.save(uri)
        assert await client.problems(uri) == []


async def test_a_daemon_that_goes_and_comes_back(server: Daemon, home: Path) -> None:
    async with editor(server, "--no-start") as client:
        uri = client.open(copy(NATIVE, home))
        assert await client.problems(uri) == []
        assert await client.hover(uri, 4) is not None
        server.end(signal.SIGKILL)
        assert "the daemon ended" in await client.message()
        assert await client.hover(uri, 4) is None
        assert await client.symbols(uri) == []
        server.start()
        assert await client.problems(uri) == []
        assert await client.hover(uri, 4) is not None
        assert client.said.empty()


async def test_without_a_daemon_it_says_so_and_waits(
    home: Path, socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Daemon(socket_path, home / "data")
    async with editor(server, "--no-start") as client:
        uri = client.open(copy(NATIVE, home))
        assert "cannot connect" in await client.message()
        assert await client.hover(uri, 4) is None
        with running(server):
            assert await client.problems(uri) == []
            assert await client.hover(uri, 4) is not None


async def test_it_starts_the_daemon_it_needs(home: Path, socket_path: Path) -> None:
    server = Daemon(socket_path, home / "data")
    place = ("--socket", str(socket_path), "--home", str(server.home))
    try:
        async with editor(server) as client:
            uri = client.open(copy(NATIVE, home))
            assert await client.problems(uri) == []
    finally:
        done = await to_thread.run_sync(run, "stop", *place)
    assert done.returncode == 0, done.stderr


async def test_an_editor_that_ends_without_a_word(server: Daemon, home: Path) -> None:
    path, secret = copy(NATIVE, home), "zq-secret"
    opened = {"uri": path.as_uri(), "languageId": "x", "version": 1, "text": f"{secret}\n{secret}"}
    bodies: list[Any] = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "capabilities": {}}},
        {"method": "textDocument/didOpen", "params": {"textDocument": opened}},
        {"id": 2, "method": "textDocument/hover", "params": {"textDocument": {"uri": secret}}},
        {"id": 3, "method": f"no/{secret}", "params": {"text": secret}},
        {"method": "textDocument/didChange", "params": {"textDocument": secret}},
    ]
    stdin = b"".join(
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        for body in (json.dumps({"jsonrpc": "2.0", **body}).encode() for body in bodies)
    )
    command = ("lsp", "--socket", str(server.socket_path))
    done = await to_thread.run_sync(partial(run, *command, stdin=stdin))
    assert done.returncode == 1
    assert secret.encode() not in done.stderr
    assert b'"id": 1' in done.stdout


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [SESSIOND, *arguments],
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
