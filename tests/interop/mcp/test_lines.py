"""The server of the Model Context Protocol, line by line: what no well-behaved client sends."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sessiond_client import Timeout, connect_blocking
from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.kit.still_reading import (
    LOOKING,
    UNREADABLE,
    UNSEARCHED,
    missing_rows,
    still_reading,
    whole_answers_only,
)
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(120)]

SESSION = "the-session-1"
URI = f"sessiond://session/{SESSION}"
UPDATED = "notifications/resources/updated"
Json = dict[str, Any]


@pytest.fixture
def daemon(server: Daemon) -> Daemon:
    """Return a daemon with a session."""
    server.connect().close()
    with connect_blocking(server.socket_path) as client:
        client.create(cwd="/", session_id=SESSION, persist="immediate")
        client.append(SESSION, message={"role": "user", "content": "first"})
    return server


class Lines:
    """A client that writes and reads lines of its own."""

    def __init__(self, run: subprocess.Popen[bytes]) -> None:
        assert run.stdin is not None
        assert run.stdout is not None
        self.run = run
        self.input = run.stdin
        self.output = run.stdout
        self.told: list[Json] = []
        self.hello: Json = {}
        self._last_id = 0

    def write(self, *bodies: Json) -> list[int]:
        """Send requests in one write; return their ids."""
        ids = [self._last_id + number for number in range(1, len(bodies) + 1)]
        self._last_id += len(bodies)
        requests = [
            {"jsonrpc": "2.0", "id": number, **body}
            for number, body in zip(ids, bodies, strict=True)
        ]
        self.input.write(b"".join(json.dumps(one).encode() + b"\n" for one in requests))
        self.input.flush()
        return ids

    def answers(self, ids: list[int]) -> list[Json]:
        """Return the answers to requests; keep what is told meanwhile."""
        found: dict[int, Json] = {}
        while not found.keys() >= set(ids):
            line = json.loads(self.output.readline())
            if line.get("id") is None:
                self.told.append(line)
            else:
                found[line["id"]] = line
        return [found[number] for number in ids]

    def ask(self, method: str, **params: Any) -> Json:
        """Send a request; return its answer."""
        (answer,) = self.answers(self.write({"method": method, "params": params}))
        return answer

    def call(self, name: str, **given: Any) -> Json:
        """Call a tool; return its result."""
        return dict(self.ask("tools/call", name=name, arguments=given)["result"])

    def hears(self, method: str) -> Json:
        """Return the next notification of a method."""
        while True:
            line = json.loads(self.output.readline())
            if line.get("method") == method:
                return dict(line)

    def updates(self) -> int:
        """Return how many updates were told up to now."""
        self.ask("ping")
        return sum(line.get("method") == UPDATED for line in self.told)


@contextmanager
def lines(
    daemon: Daemon, *options: str, socket: Path | None = None, hello: bool = True
) -> Iterator[Lines]:
    """Start the server, and say hello as clients of older versions do."""
    with subprocess.Popen(
        [SESSIOND, "mcp", "--no-start", "--socket", str(socket or daemon.socket_path), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(daemon.environment),
    ) as run:
        one = Lines(run)
        if hello:
            said = {"protocolVersion": "2025-06-18", "capabilities": {}}
            said["clientInfo"] = {"name": "bare", "version": "1"}
            one.hello = one.ask("initialize", **said)["result"]
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            one.input.write(json.dumps(note).encode() + b"\n")
        try:
            yield one
        finally:
            run.kill()


def append(daemon: Daemon, *texts: str) -> None:
    with connect_blocking(daemon.socket_path) as client:
        for text in texts:
            client.append(SESSION, message={"role": "user", "content": text})


def test_an_unsubscribed_session_tells_nothing_more(daemon: Daemon) -> None:
    with lines(daemon) as one:
        one.ask("resources/subscribe", uri=URI)
        append(daemon, "a")
        one.hears(UPDATED)
        one.ask("resources/unsubscribe", uri=URI)
        append(daemon, "b")
        one.ask("resources/subscribe", uri=URI)
        append(daemon, "c")
        one.hears(UPDATED)
        assert one.updates() == 0


def test_requests_that_overtake_a_subscription_are_answered(daemon: Daemon) -> None:
    subscribe = {"method": "resources/subscribe", "params": {"uri": URI}}
    unsubscribe = {"method": "resources/unsubscribe", "params": {"uri": URI}}
    unknown = {"method": "resources/subscribe", "params": {"uri": f"{URI}-none"}}
    with lines(daemon) as one:
        for _ in range(10):
            answers = one.answers(one.write(subscribe, subscribe, unsubscribe, subscribe))
            assert [answer.get("error") for answer in answers] == [None] * 4
            one.ask("resources/unsubscribe", uri=URI)
        refused = one.answers(one.write(unknown, unknown))
        assert [answer["error"]["code"] for answer in refused] == [-32602] * 2
        one.ask("resources/subscribe", uri=URI)
        append(daemon, "a")
        one.hears(UPDATED)


def test_a_new_session_changes_the_list(daemon: Daemon) -> None:
    with lines(daemon) as one:
        # The hints of the daemon begin a moment behind the client's first words.
        with connect_blocking(daemon.socket_path) as client:

            def is_told() -> bool:
                client.create(cwd="/", persist="immediate")
                one.ask("ping")
                return bool(one.told)

            soon(is_told)
        assert {line["method"] for line in one.told} == {"notifications/resources/list_changed"}


def test_a_client_that_does_not_read_is_told_once(daemon: Daemon) -> None:
    with lines(daemon) as one:
        one.ask("resources/subscribe", uri=URI)
        ids = one.write(*({"method": "tools/list"},) * 100)
        append(daemon, *map(str, range(300)))
        one.answers(ids)
        assert 1 <= one.updates() <= 10


def test_the_tree_and_the_log_come_in_pages(daemon: Daemon) -> None:
    append(daemon, *map(str, range(450)))
    with lines(daemon) as one:
        found: list[str] = []
        given: Json = {}
        while True:
            page = one.call("session_tree", session_id=SESSION, **given)["structuredContent"]
            found += [node["id"] for node in page["nodes"]]
            if page["next_cursor"] is None:
                break
            given = {"cursor": page["next_cursor"]}
        assert len(found) == len(set(found)) == 451
        uri: str | None = f"{URI}/entries"
        seqs: list[int] = []
        while uri is not None:
            (contents,) = one.ask("resources/read", uri=uri)["result"]["contents"]
            page = json.loads(contents["text"])
            seqs[:0] = [entry["seq"] for entry in page["entries"]]
            uri = page["older"]
        assert seqs == list(range(1, 452))


def test_a_line_of_thirty_megabytes_is_answered(daemon: Daemon) -> None:
    with lines(daemon, "--write") as one:
        said = {"session_id": SESSION, "role": "user", "text": "x" * (20 << 20)}
        assert not one.call("append_message", **said).get("isError")
        refused = one.call("append_message", **said | {"text": "x" * (33 << 20)})
        assert refused["isError"]
        assert "xxx" not in refused["content"][0]["text"]
        assert one.ask("ping")["result"] == {}
        newest = one.call("read_session", session_id=SESSION)["structuredContent"]
        assert "read_entry has the whole entry" in newest["text"]


def test_a_list_and_a_search_do_not_wait_for_sessions_that_are_still_read(
    daemon: Daemon, tmp_path: Path
) -> None:
    append(daemon, "first needle", "another needle")
    with connect_blocking(daemon.socket_path) as client:
        client.create(cwd="/", persist="immediate")
    place = tmp_path / "reading.sock"
    with (
        still_reading(place, daemon.socket_path) as reading,
        lines(daemon, socket=place) as one,
    ):
        found = one.call("search_sessions", query="needle")["structuredContent"]
        assert len(found["hits"]) == 1
        assert found["looking"].items() >= LOOKING.items()
        assert "the same call finds more" in found["looking"]["note"]
        listed = one.call("list_sessions")["structuredContent"]
        assert len(listed["sessions"]) == 1
        assert listed["looking"]["done"] == LOOKING["done"]
        (listing,) = one.write({"method": "resources/list"})
        asked = len(reading.asked)
        soon(lambda: len(reading.asked) > asked + 2)
        reading.is_over.set()
        assert len(one.answers([listing])[0]["result"]["resources"]) == 2
        found = one.call("search_sessions", query="needle")["structuredContent"]
        assert (len(found["hits"]), "looking" in found) == (2, False)
        assert "looking" not in one.call("list_sessions")["structuredContent"]


def test_a_daemon_that_has_whole_answers_only_is_asked_for_these(
    daemon: Daemon, tmp_path: Path
) -> None:
    place = tmp_path / "older.sock"
    with whole_answers_only(place, daemon.socket_path), lines(daemon, socket=place) as one:
        assert len(one.call("search_sessions", query="first")["structuredContent"]["hits"]) == 1
        assert len(one.call("list_sessions")["structuredContent"]["sessions"]) == 1
        assert len(one.ask("resources/list")["result"]["resources"]) == 1


def test_a_call_while_the_daemon_is_away_says_what_to_do(daemon: Daemon) -> None:
    with lines(daemon) as one:
        daemon.end(signal.SIGKILL)
        refused = one.call("list_sessions")
        assert refused["isError"]
        assert "sessiond status" in refused["content"][0]["text"]
        daemon.start()
        daemon.connect().close()
        found = one.call("list_sessions")["structuredContent"]
        assert [session["id"] for session in found["sessions"]] == [SESSION]


def test_a_client_that_stops_to_listen_ends_the_server(daemon: Daemon) -> None:
    with lines(daemon) as one:
        one.ask("resources/subscribe", uri=URI)
        one.output.close()
        append(daemon, "a")
        assert one.run.stderr is not None
        said = one.run.stderr.read().decode()
        assert (one.run.wait(PATIENCE_SECONDS), said) == (0, "")


def test_a_change_without_an_answer_is_looked_for_before_it_is_tried_again() -> None:
    from sessiond.mcp.calls import next_step

    unknown = Timeout("no answer", outcome_unknown=True)
    assert next_step(unknown) == (
        "it may have been done: look with list_sessions or read_session before you try again"
    )
    assert "try again, or" in next_step(Timeout("no answer", outcome_unknown=False))


def test_a_list_says_which_files_cannot_be_read(daemon: Daemon) -> None:
    append(daemon, "hello")
    broken = daemon.profile / "sessions" / "2026-01-15T10-30-00-000000_session-b.jsonl"
    broken.write_bytes(b"no session\n")
    with lines(daemon) as one:
        listed = one.call("list_sessions")["structuredContent"]
        assert [file["path"] for file in listed["unreadable"]] == [str(broken)]
        assert "unreadable" not in one.call("search_sessions", query="hello")["structuredContent"]


def test_a_search_says_what_it_could_not_search(daemon: Daemon, tmp_path: Path) -> None:
    append(daemon, "needle")
    place = tmp_path / "missing.sock"
    with missing_rows(place, daemon.socket_path), lines(daemon, socket=place) as one:
        found = one.call("search_sessions", query="needle")["structuredContent"]
        assert (found["unreadable"], found["unsearched"]) == (UNREADABLE, UNSEARCHED)
