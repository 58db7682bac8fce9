"""`sessiond mcp` with a client of another make: the SDK of the Model Context Protocol from npm."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sessiond_client import connect_blocking
from tests.kit.driver import Driver, JsError
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).parents[1] / "node" / "mcp_client.mjs"
SESSION = "seen-by-npm"
URI = f"sessiond://session/{SESSION}"
Start = Callable[..., Driver]


@pytest.fixture
def start(node: Path, node_modules: Path, server: Daemon) -> Iterator[Start]:
    """Return a function that starts the client on a server with options."""
    server.connect().close()
    environment = {**server.environment, "NODE_PATH": str(node_modules)}
    with ExitStack() as ends:

        def begin(*options: str) -> Driver:
            words = [SESSIOND, "mcp", "--no-start", "--socket", str(server.socket_path), *options]
            process = subprocess.Popen(
                [str(node), str(PROGRAM), *words],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            ends.enter_context(process)
            ends.callback(process.kill)
            return Driver(process)

        yield begin


def fill(server: Daemon, *texts: str) -> None:
    with connect_blocking(
        server.socket_path, timeout=PATIENCE_SECONDS, connect_timeout=PATIENCE_SECONDS
    ) as client:
        client.create("/", session_id=SESSION, title="told", persist="immediate", if_exists="open")
        for text in texts:
            message = {"role": "assistant", "content": text}
            client.append(SESSION, message=message, durability="os")


CALL = "const {content, structuredContent, isError} = await c.callTool({name, arguments: given});"


def test_the_client_lists_reads_searches_appends_and_forks(server: Daemon, start: Start) -> None:
    fill(server, "the time zone")
    js = start("--write")
    assert js("return (await c.listResources()).resources.map((one) => one.uri)") == [URI]
    assert len(js("return (await c.listResourceTemplates()).resourceTemplates")) == 5
    read = "return (await c.readResource({uri})).contents[0].text"
    assert "the time zone" in js(read, uri=URI)
    told = f"{CALL} return structuredContent"
    hits = js(told, name="search_sessions", given={"query": "zone"})["hits"]
    assert [hit["session_id"] for hit in hits] == [SESSION]
    said = {"session_id": SESSION, "role": "user", "text": "and now?", "idempotency_key": "k"}
    first = js(told, name="append_message", given=said)
    assert js(told, name="append_message", given=said) == {**first, "duplicate": True}
    fork = js(told, name="fork_session", given={"session_id": SESSION})["session_id"]
    messages = js(told, name="session_context", given={"session_id": fork})["messages"]
    assert [message["content"] for message in messages] == ["the time zone", "and now?"]


def test_an_update_is_told_also_of_what_was_stored_while_the_daemon_was_away(
    server: Daemon, start: Start
) -> None:
    fill(server, "a")
    js = start()
    js("await c.subscribeResource({uri})", uri=URI)
    wait = "while (s.updated.length < n) await new Promise((f) => (s.wake = f)); return s.updated"
    fill(server, "b")
    assert js(wait, n=1)[0] == URI
    server.end(signal.SIGKILL)
    server.start()
    seen = len(js("return s.updated"))
    fill(server, "c")
    assert set(js(wait, n=seen + 1)) == {URI}
    text = js("return (await c.readResource({uri})).contents[0].text", uri=URI)
    assert text.endswith("\nc")


def test_a_server_without_write_refuses_and_names_the_option(server: Daemon, start: Start) -> None:
    fill(server, "a")
    js = start()
    names = js("return (await c.listTools()).tools.map((one) => one.name)")
    assert not {"append_message", "fork_session"} & set(names)
    given = {"session_id": SESSION, "role": "user", "text": "b"}
    told = js(f"{CALL} return [isError, content[0].text]", name="append_message", given=given)
    assert told[0] is True
    assert "--write" in told[1]
    with pytest.raises(JsError, match="sessiond://session/ID"):
        js("await c.readResource({uri: 'sessiond://elsewhere'})")
    with pytest.raises(JsError, match="list_sessions"):
        js("await c.readResource({uri: 'sessiond://session/no-such-session'})")


def test_a_session_of_a_hundred_megabytes_comes_in_pages(server: Daemon, start: Start) -> None:
    fill(server, *(f"{number} " + "x" * 1_000_000 for number in range(100)))
    js = start()
    told = f"{CALL} return structuredContent"
    page = js(told, name="read_session", given={"session_id": SESSION})
    assert len(page["text"]) < 100_000
    assert "99 xxx" in page["text"]
    older = js(told, name="read_session", given={"session_id": SESSION, "upto": page["older"]})
    assert "99 xxx" not in older["text"]
    assert len(js("return (await c.readResource({uri})).contents[0].text", uri=URI)) < 100_000
    context = js(told, name="session_context", given={"session_id": SESSION})
    (newest,) = context["messages"]
    assert "99 xxx" in newest["content"]
    assert len(newest["content"]) < 100_000
    assert context["omitted"] == 99


def test_a_message_over_the_page_is_shown_by_its_beginning(server: Daemon, start: Start) -> None:
    fill(server, "first", "99 " + "x" * 1_000_000)
    js = start()
    told = f"{CALL} return structuredContent"
    context = js(told, name="session_context", given={"session_id": SESSION})
    (newest,) = context["messages"]
    assert "99 xxx" in newest["content"]
    assert "read_entry" in newest["content"]
    assert context["omitted"] == 1
