"""pygls' own client, over the standard streams of `serve --stdio`.

The client decodes every JSON object into a named tuple and renames fields that are no Python
names. So these tests compare only fields with plain names; tests with other clients show that
the daemon keeps all names.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pygls.client import JsonRPCClient
from pygls.exceptions import JsonRpcException

from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop]


@pytest.fixture
def anyio_backend() -> str:
    """pygls knows asyncio only."""
    return "asyncio"


class Editor(JsonRPCClient):
    """Keeps what the server says on its own account."""

    def __init__(self) -> None:
        super().__init__()
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.synced: asyncio.Queue[Any] = asyncio.Queue()
        self.problems: list[Exception] = []
        self.exit_code: int | None = None
        # pygls writes its marks on a handler, and a method takes none.
        self.feature("session/event")(partial(self.events.put_nowait))
        self.feature("session/synced")(partial(self.synced.put_nowait))

    async def ask(self, method: str, **params: Any) -> Any:
        return await asyncio.wait_for(
            self.protocol.send_request_async(method, params), PATIENCE_SECONDS
        )

    def tell(self, method: str, **params: Any) -> None:
        self.protocol.notify(method, params)

    async def event(self) -> Any:
        return await asyncio.wait_for(self.events.get(), PATIENCE_SECONDS)

    async def leave(self) -> None:
        """Wait until the server has ended and all its tasks here are done."""
        stop: Callable[[], Awaitable[None]] = self.stop
        await asyncio.wait_for(stop(), PATIENCE_SECONDS)

    async def server_exit(self, server: asyncio.subprocess.Process) -> None:
        self.exit_code = server.returncode

    def report_server_error(self, error: Exception, source: Any) -> None:
        self.problems.append(error)


@asynccontextmanager
async def editor(home: Path) -> AsyncGenerator[Editor]:
    """Run an editor that starts the daemon as its server; end the daemon as editors do."""
    client = Editor()
    environment = {**os.environ, "SESSIOND_HOME": str(home / "data")}
    await client.start_io(SESSIOND, "serve", "--stdio", env=environment)
    try:
        yield client
        assert await client.ask("shutdown") is None
        client.tell("exit")
        await client.leave()
    finally:
        if client.exit_code is None and client._server is not None:
            client._server.kill()
            await client.leave()
    assert client.problems == []
    assert client.exit_code == 0


async def test_pygls_creates_appends_subscribes_and_reads_back(home: Path) -> None:
    async with editor(home) as client:
        hello = await client.ask(
            "initialize",
            processId=os.getpid(),
            rootUri=None,
            capabilities={"general": {"positionEncodings": ["utf-8"]}},
            clientInfo={"name": "pygls"},
        )
        assert hello.protocol_version == "1.0"
        assert hello.server_info.name == "sessiond"
        assert hello.capabilities is not None
        client.tell("initialized")
        session = (await client.ask("session/create", cwd="/project", title="T")).session

        first = await say(client, session.id, "user", "one")
        assert (first.seq, first.durability) == (1, "disk")
        subscribed = await client.ask("subscribe", session_id=session.id, after={"seq": 0})
        assert subscribed.seq == 1
        second = await say(client, session.id, "assistant", "zwei \u2028 \U0001f600")
        assert second.entries[0].parent_id == first.leaf_id

        seen = [await client.event(), await client.event()]
        assert [event.seq for event in seen] == [1, 2]
        assert [event.entry.id for event in seen] == [first.leaf_id, second.leaf_id]
        assert [event.entry.message.content for event in seen] == ["one", "zwei \u2028 \U0001f600"]
        assert (await client.synced.get()).seq == 1

        context = await client.ask("build_context", session_id=session.id)
        assert [(one.role, one.content) for one in context.messages] == [
            ("user", "one"),
            ("assistant", "zwei \u2028 \U0001f600"),
        ]
        assert context.leaf_id == second.leaf_id

    async with editor(home) as client:
        (listed,) = (await client.ask("session/list")).sessions
        assert (listed.id, listed.seq, listed.title) == (session.id, 2, "T")


async def say(client: Editor, session_id: str, role: str, content: str) -> Any:
    message = {"role": role, "content": content}
    return await client.ask("append", session_id=session_id, message=message)


async def test_a_refusal_reaches_pygls_as_an_error_with_its_data(home: Path) -> None:
    async with editor(home) as client:
        with pytest.raises(JsonRpcException) as missing:
            await client.ask("session/get", session_id="nothing-here")
        assert missing.value.code == -32020
        assert missing.value.data is not None
        assert missing.value.data["kind"] == "session_not_found"
        with pytest.raises(JsonRpcException) as unknown:
            await client.ask("textDocument/hover", textDocument={"uri": "file:///x"})
        assert unknown.value.code == -32601


async def test_an_editor_that_leaves_without_a_word_ends_its_server(home: Path) -> None:
    client = Editor()
    environment = {**os.environ, "SESSIOND_HOME": str(home / "data")}
    await client.start_io(SESSIOND, "serve", "--stdio", env=environment)
    created = await client.ask("session/create", cwd="/project", persist="immediate")
    client.tell("append", session_id=created.session.id, message={"role": "user", "content": "x"})
    assert client._server is not None
    assert client._server.stdin is not None
    client._server.stdin.close()
    await client.leave()
    assert client.exit_code == 0
    (path,) = (home / "data").glob("profiles/default/sessions/*.jsonl")
    assert path.read_bytes().count(b"\n") == 2
