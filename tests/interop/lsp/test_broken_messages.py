"""Broken messages and messages out of turn: each request gets one answer, and the server goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Timer
from typing import Any

import pytest

from tests.interop.lsp.editor import NATIVE, copy, run
from tests.kit.lsp_link import LspLink
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

INITIALIZE: Mapping[str, Any] = {
    "jsonrpc": "2.0",
    "id": "begin",
    "method": "initialize",
    "params": {"processId": None, "rootUri": None, "capabilities": {}},
}
SHUTDOWN: Mapping[str, Any] = {"jsonrpc": "2.0", "id": "end", "method": "shutdown"}
EXIT: Mapping[str, Any] = {"jsonrpc": "2.0", "method": "exit"}
HOVER = "textDocument/hover"
NAMED = {"textDocument": {"uri": "file:///x.jsonl"}}
PLACED = {**NAMED, "position": {"line": 0, "character": 0}}
SECRET = "zq-secret"

PARSE, REQUEST, METHOD, PARAMS, NOT_BEGUN = -32700, -32600, -32601, -32602, -32002
CANCELLED = -32800


def request(request_id: object, method: object, params: object = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def note(method: object, params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


class Said:
    """Words of a server: its messages and its log, up to its end."""

    def __init__(self, home: Path, socket_path: Path, messages: Sequence[object]) -> None:
        bodies = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in messages]
        stdin = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)
        where = ("--no-start", "--socket", str(socket_path), "--home", str(home))
        done = run("lsp", *where, stdin=stdin)
        self.exit_code = done.returncode
        self.log = done.stderr.decode()
        self.answers = [one for one in frames(done.stdout) if "method" not in one]

    @property
    def errors(self) -> list[tuple[Any, int]]:
        """Ids and codes of the answers that are errors, in their order."""
        return [(one["id"], one["error"]["code"]) for one in self.answers if "error" in one]

    @property
    def results(self) -> list[Any]:
        """Ids of the answers that are results, in their order."""
        return [one["id"] for one in self.answers if "result" in one]

    def text(self, request_id: object) -> str:
        """Return the text of the error that answers a request."""
        (found,) = (one["error"]["message"] for one in self.answers if one["id"] == request_id)
        assert isinstance(found, str)
        return found


@pytest.fixture
def session(home: Path, socket_path: Path) -> Any:
    """Return a function that sends messages between a begin and an end, and gives the answers."""

    def play(*messages: object) -> Said:
        said = Said(home, socket_path, [INITIALIZE, *messages, SHUTDOWN, EXIT])
        assert "bug" not in said.log
        assert said.results[0] == "begin"
        assert said.results[-1] == "end"
        assert said.exit_code == 0
        return said

    return play


def frames(data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        size = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
        found.append(json.loads(data[:size]))
        data = data[size:]
    return found


def test_a_request_with_broken_parameters_is_answered(session: Any) -> None:
    below = {**NAMED, "position": {"line": -1, "character": -5}}
    broken = [below, NAMED, None, 5, SECRET, [SECRET], {"textDocument": SECRET, "position": 3}]
    said = session(*(request(number, HOVER, one) for number, one in enumerate(broken)))
    assert said.errors == [(number, PARAMS) for number in range(len(broken))]
    assert (
        said.text(0) == "the parameters of textDocument/hover are broken: position: invalid value"
    )
    assert said.text(1).endswith(" are broken: position: required field missing")
    assert SECRET not in said.log


def test_a_frame_that_is_no_json_is_answered(session: Any) -> None:
    broken = [b"{", b"\xff\xfe{}", b'{"jsonrpc":"2.0","id":1', b"[" * 100_000, b"1" * 5_000]
    said = session(*broken)
    assert said.errors == [(None, PARSE)] * len(broken)


def test_a_frame_that_is_no_request_is_answered(session: Any) -> None:
    said = session(
        [request(1, HOVER, PLACED)],
        [],
        "text",
        5,
        None,
        {},
        {"id": 2, "method": HOVER, "params": PLACED},
        {**request(3, HOVER, PLACED), "jsonrpc": "1.0"},
        request(4, 7),
        request([5], HOVER, PLACED),
        request(None, HOVER, PLACED),
        request(True, HOVER, PLACED),
        {"jsonrpc": "2.0", "id": 8},
        note([SECRET], {}),
    )
    unnamed = (None, REQUEST)
    numbered = [(number, REQUEST) for number in (2, 3, 4)]
    assert said.errors == [unnamed] * 6 + numbered + [unnamed] * 3 + [(8, REQUEST), unnamed]
    assert "batch" in said.answers[1]["error"]["message"]


def test_a_request_before_the_beginning_is_answered(home: Path, socket_path: Path) -> None:
    opened = {"uri": "file:///x.jsonl", "languageId": "jsonl", "version": 1, "text": ""}
    messages = [
        request(1, HOVER, PLACED),
        request(2, "acme/unheardOf"),
        note("textDocument/didOpen", {"textDocument": opened}),
        request(3, "shutdown"),
        {**INITIALIZE, "id": 4, "params": {}},
        request(5, HOVER, PLACED),
        INITIALIZE,
        {**INITIALIZE, "id": 6},
        request(7, HOVER, PLACED),
        SHUTDOWN,
        EXIT,
    ]
    said = Said(home, socket_path, messages)
    begun = [(1, NOT_BEGUN), (2, NOT_BEGUN), (3, NOT_BEGUN), (4, PARAMS), (5, NOT_BEGUN)]
    assert said.errors[:6] == [*begun, (6, REQUEST)]
    assert said.results[0] == "begin"
    assert "bug" not in said.log
    assert said.exit_code == 0


def test_an_end_before_the_beginning_is_an_end(home: Path, socket_path: Path) -> None:
    said = Said(home, socket_path, [request(1, HOVER, PLACED), EXIT, request(2, HOVER, PLACED)])
    assert said.errors == [(1, NOT_BEGUN)]
    assert said.exit_code == 1


def test_a_request_after_the_shutdown_is_answered(home: Path, socket_path: Path) -> None:
    late = [request(1, HOVER, PLACED), request(2, "shutdown"), {**INITIALIZE, "id": 3}]
    messages = [INITIALIZE, SHUTDOWN, *late, note("initialized", {}), EXIT]
    said = Said(home, socket_path, messages)
    assert said.results == ["begin", "end"]
    assert said.errors == [(1, REQUEST), (2, REQUEST), (3, REQUEST)]
    assert "bug" not in said.log
    assert said.exit_code == 0


def test_a_method_without_parameters_that_is_unknown_is_answered(session: Any) -> None:
    unheard = {"jsonrpc": "2.0", "id": 1, "method": f"acme/{SECRET}"}
    said = session(unheard, request(2, "$/unheardOf"), request(3, "textDocument/didSave", NAMED))
    assert said.errors == [(1, METHOD), (2, METHOD), (3, REQUEST)]
    assert SECRET not in said.log


def test_a_notification_that_means_nothing_is_dropped(session: Any) -> None:
    said = session(
        {"jsonrpc": "2.0", "method": "$/unheardOf"},
        note("$/cancelRequest", {"id": "never asked"}),
        note("$/cancelRequest", {SECRET: 1}),
        note("$/cancelRequest", {"id": [SECRET]}),
        note("textDocument/didChange", {"textDocument": SECRET}),
        note(HOVER, PLACED),
        note(f"acme/{SECRET}", {}),
    )
    assert said.errors == []
    assert said.log.count("broken_notification") == 3
    assert "textDocument/didChange" in said.log
    assert SECRET not in said.log


@pytest.mark.parametrize("answer", [{"result": 5}, {"result": [SECRET]}, {}, {"error": {}}])
def test_a_broken_answer_of_the_editor_ends_the_wait(
    server: Daemon, home: Path, answer: Mapping[str, Any]
) -> None:
    with asking(server, home) as (link, question_id):
        link._send({"id": question_id, **answer})
        assert received(link, "label")["result"] is None


def test_an_answer_to_a_cancelled_question_is_dropped(server: Daemon, home: Path) -> None:
    with asking(server, home) as (link, question_id):
        link.tell("$/cancelRequest", {"id": "label"})
        assert received(link, "label")["error"]["code"] == CANCELLED
        link._send({"id": question_id, "result": {"title": "bookmark"}})


@contextmanager
def asking(server: Daemon, home: Path) -> Iterator[tuple[LspLink, str]]:
    """Run a server that asks for a label; give the id of the question.

    A server that does not answer is killed after a while, which ends the wait with an EOFError.
    """
    command = [SESSIOND, "lsp", "--socket", str(server.socket_path)]
    path, log = copy(NATIVE, home), home / "lsp.log"
    with (
        log.open("wb") as stderr,
        Popen(
            command, stdin=PIPE, stdout=PIPE, stderr=stderr, env=dict(server.environment)
        ) as process,
    ):
        timer = Timer(PATIENCE_SECONDS, process.kill)
        timer.start()
        try:
            link = LspLink(process)
            link.ask("initialize", INITIALIZE["params"])
            link.open(path)
            named = {"command": "sessiond.label", "arguments": [path.as_uri(), "n4"]}
            link._send({"id": "label", "method": "workspace/executeCommand", "params": named})
            while (found := link._receive()).get("method") != "window/showMessageRequest":
                pass
            yield link, found["id"]
            link.ask("shutdown", None)
            link.tell("exit", None)
            assert process.wait() == 0
        finally:
            timer.cancel()
            process.kill()
    said = log.read_text("utf-8")
    assert "bug" not in said
    assert SECRET not in said


def received(link: LspLink, request_id: str) -> Mapping[str, Any]:
    """Return the answer to a request."""
    while True:
        found = link._receive()
        if found.get("id") == request_id and "method" not in found:
            return found


def test_an_answer_that_nobody_waits_for_is_dropped(session: Any) -> None:
    said = session(
        {"jsonrpc": "2.0", "id": 77, "result": None},
        {"jsonrpc": "2.0", "id": "never", "error": {"code": 1, "message": SECRET}},
        {"jsonrpc": "2.0", "id": [1], "result": None},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": SECRET}},
        {"jsonrpc": "2.0", "result": None},
    )
    assert said.errors == []
    assert SECRET not in said.log
