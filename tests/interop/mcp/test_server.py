"""The server of the Model Context Protocol, with the Python SDK's client and with bare lines."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from sessiond_client import connect
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(120)]

SESSION = "the-session-1"
URI = f"sessiond://session/{SESSION}"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(server: Daemon) -> Daemon:
    server.connect().close()
    return server


class Host:
    """A client of the SDK, and the notifications that it was sent."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.news = anyio.Event()
        self.session: Any = None

    async def hear(self, message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            self.told.append(str(message.params.uri))
            self.news.set()

    async def call(self, name: str, **given: Any) -> Any:
        return await self.session.call_tool(name, given)


@asynccontextmanager
async def host(server: Daemon, *options: str) -> AsyncGenerator[Host]:
    import mcp

    where = ["mcp", "--no-start", "--socket", str(server.socket_path), *options]
    command = mcp.StdioServerParameters(
        command=str(SESSIOND), args=where, env=dict(server.environment)
    )
    with anyio.fail_after(PATIENCE_SECONDS):
        async with mcp.stdio_client(command) as streams:
            one = Host()
            async with mcp.ClientSession(*streams, message_handler=one.hear) as session:
                one.session = session
                await session.initialize()
                yield one


async def fill(server: Daemon, *messages: str) -> None:
    async with connect(server.socket_path) as client:
        await client.create(cwd="/", session_id=SESSION, title="told", persist="immediate")
        for text in messages:
            await client.append(SESSION, message={"role": "assistant", "content": text})


async def test_a_client_lists_reads_searches_appends_once_and_forks(server: Daemon) -> None:
    await fill(server, "the time zone")
    async with host(server, "--write") as one:
        (resource,) = (await one.session.list_resources()).resources
        assert (resource.uri, resource.title) == (URI, "told")
        (contents,) = (await one.session.read_resource(URI)).contents
        assert "the time zone" in contents.text
        found = (await one.call("search_sessions", query="zone")).structured_content
        assert [hit["session_id"] for hit in found["hits"]] == [SESSION]
        refused = await one.call("search_sessions", query="zone", session_id="session-beside")
        assert refused.is_error
        for beside in ({"role": "user"}, {"tool": "Bash"}, {"since": "2999-01-01T00:00:00Z"}):
            given = {"query": "zone", **beside}
            assert (await one.call("search_sessions", **given)).structured_content == {"hits": []}
        said = {"session_id": SESSION, "role": "user", "text": "and now?", "idempotency_key": "k"}
        first = (await one.call("append_message", **said)).structured_content
        again = (await one.call("append_message", **said)).structured_content
        assert again == {**first, "duplicate": True}
        stale = await one.call(
            "append_message", **said | {"idempotency_key": "l"}, expected_leaf="x"
        )
        assert stale.is_error
        fork = (await one.call("fork_session", session_id=SESSION)).structured_content
        context = await one.call("session_context", session_id=fork["session_id"])
        texts = [message["content"] for message in context.structured_content["messages"]]
        assert texts == ["the time zone", "and now?"]


async def test_without_write_the_writing_tools_are_refused(server: Daemon) -> None:
    await fill(server, "a")
    async with host(server) as one:
        names = {tool.name for tool in (await one.session.list_tools()).tools}
        assert not names & {"append_message", "fork_session"}
        refused = await one.call("append_message", session_id=SESSION, role="user", text="b")
        assert refused.is_error
        assert "--write" in refused.content[0].text
        assert "b" not in (await one.call("read_session", session_id=SESSION)).content[0].text[-2:]


async def test_pages_of_long_messages_reach_the_first_message(server: Daemon) -> None:
    await fill(server, *(f"{number} " + "x" * 200_000 for number in range(12)))
    async with host(server) as one:
        upto: dict[str, str] = {}
        seen: list[str] = []
        while True:
            page = (await one.call("read_session", session_id=SESSION, **upto)).structured_content
            assert len(page["text"]) < 100_000
            lines = page["text"].splitlines()
            seen[:0] = [line.split()[0] for line in lines if "xxx" in line]
            if page["older"] is None:
                break
            upto = {"upto": page["older"]}
        assert seen == [str(number) for number in range(12)]


# The SDK warns of a method that clients of older versions call.
@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
async def test_an_update_while_the_daemon_was_killed_is_announced_after(server: Daemon) -> None:
    await fill(server, "a")
    async with host(server) as one:
        await one.session.subscribe_resource(URI)
        server.end(signal.SIGKILL)
        server.start()
        async with connect(server.socket_path, connect_timeout=PATIENCE_SECONDS) as client:
            await client.append(SESSION, message={"role": "user", "content": "b"})
        await one.news.wait()
        assert set(one.told) == {URI}
        (contents,) = (await one.session.read_resource(URI)).contents
        assert contents.text.endswith("\nb")


async def test_a_client_of_the_newest_version_listens(server: Daemon) -> None:
    import mcp

    await fill(server, "a")
    where = ["mcp", "--no-start", "--write", "--socket", str(server.socket_path)]
    command = mcp.StdioServerParameters(
        command=str(SESSIOND), args=where, env=dict(server.environment)
    )
    with anyio.fail_after(PATIENCE_SECONDS):
        async with (
            mcp.Client(mcp.stdio_client(command)) as client,
            client.listen(resource_subscriptions=[URI]) as heard,
        ):
            said = {"session_id": SESSION, "role": "user", "text": "b"}
            await client.call_tool("append_message", said)
            async for event in heard:
                assert getattr(event, "uri", None) == URI
                break


def test_bad_lines_are_answered_and_the_end_of_input_ends_the_server(server: Daemon) -> None:
    hello: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "bare", "version": "1"}
    bodies: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "acme/unheard"},
        {"id": 3, "method": "resources/read", "params": {"uri": "sessiond://elsewhere"}},
        {"id": 4, "method": "resources/read", "params": {}},
        {"id": 5, "method": "ping"},
    ]
    lines = [json.dumps({"jsonrpc": "2.0", **body}).encode() for body in bodies]
    lines.insert(2, b"secret garbage")
    with subprocess.Popen(
        [SESSIOND, "mcp", "--no-start", "--socket", str(server.socket_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdin.write(b"\n".join(lines) + b"\n")
        run.stdin.flush()
        codes: dict[int, int | None] = {}
        while not codes.keys() >= {1, 2, 3, 4, 5}:
            answer = json.loads(run.stdout.readline())
            if answer.get("id") is not None:
                codes[answer["id"]] = answer.get("error", {}).get("code")
        run.stdin.close()
        assert codes == {1: None, 2: -32601, 3: -32602, 4: -32602, 5: None}
        assert run.wait(PATIENCE_SECONDS) == 0
        assert b"secret" not in run.stderr.read()


def test_without_a_daemon_that_may_be_started_the_command_says_so(socket_path: Path) -> None:
    done = subprocess.run(
        [SESSIOND, "mcp", "--no-start", "--socket", str(socket_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "sessiond start" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_termination_ends_the_server_at_once(server: Daemon) -> None:
    with subprocess.Popen(
        [SESSIOND, "mcp", "--no-start", "--socket", str(server.socket_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        run.stdin.write(json.dumps(ping).encode() + b"\n")
        run.stdin.flush()
        assert run.stdout.readline()
        run.send_signal(signal.SIGTERM)
        assert run.wait(PATIENCE_SECONDS) == 0
