"""The language server's own life: its daemon, its documents, its end."""

from __future__ import annotations

import json
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from lsprotocol import types

from tests.interop.lsp.editor import NATIVE, copy, editor, run
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND, Daemon, running

pytestmark = [pytest.mark.slow, pytest.mark.interop]


def test_a_method_it_lacks_is_refused_and_is_no_bug(home: Path, socket_path: Path) -> None:
    bodies = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
        | {"params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"jsonrpc": "2.0", "id": 2, "method": "textDocument/documentColor"}
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


async def test_an_editor_is_told_what_is_offered(server: Daemon) -> None:
    async with editor(server) as client:
        assert client.hello is not None
        offered = client.hello.capabilities
        assert offered.folding_range_provider is True
        assert offered.references_provider is True
        assert offered.code_lens_provider == types.CodeLensOptions(resolve_provider=False)
        assert offered.inlay_hint_provider == types.InlayHintOptions(resolve_provider=False)
        actions = offered.code_action_provider
        assert isinstance(actions, types.CodeActionOptions)
        assert [*(actions.code_action_kinds or ())] == ["quickfix", "refactor"]
        found = offered.workspace_symbol_provider
        assert found == types.WorkspaceSymbolOptions(False, work_done_progress=True)
        tokens = offered.semantic_tokens_provider
        assert isinstance(tokens, types.SemanticTokensOptions)
        assert (tokens.full, tokens.range) == (types.SemanticTokensFullDelta(delta=True), True)
        assert offered.execute_command_provider is not None
        assert [*offered.execute_command_provider.commands] == [
            f"sessiond.{name}" for name in ("branch", "label", "context", "compact", "repair")
        ]


async def test_documents_that_are_no_files_are_left_alone(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        item = types.TextDocumentItem("untitled:Untitled-1", "jsonl", 1, "{}")
        client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        assert await client.symbols("untitled:Untitled-1") == []
        never_saved = client.open(home / "never.jsonl", "{}")
        assert await client.problems(never_saved) == []
        assert await client.hover(never_saved, 0) is None


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
