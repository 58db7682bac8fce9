"""Requests by hand: socat and a terminal, a pipe and a shell, without client or `initialize`."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

SCRIPT = """
{"id":1,"method":"session/create","params":{"cwd":"/my/project","session_id":"my-session"}}
{"id":2,"method":"append","params":{"session_id":"my-session","message":{"role":"user","content":"hi"}}}

{"method":"append","params":{"session_id":"my-session","message":{"role":"assistant","content":"said without an id"}}}
{"id":"three","method":"subscribe","params":{"session_id":"my-session","after":{"seq":0}}}
{"id":4.5,"method":"append","params":{"session_id":"my-session","message":{"role":"user","content":"bye"}}}
{"method":"no/such/thing"}
{"id":5,"method":"build_context","params":{"session_id":"my-session"}}
{"id":6,"method":"session/entries","params":{"session_id":"my-session"}}
{"id":7,"method":"append","params":{"session_id":"my-session","msg":{}}}
[{"id":8,"method":"session/heads","params":{"session_id":"my-session"}},{"id":9,"method":"server/ping"}]
{"id":10,"method":"session/list"}"""
CONTENTS = ["hi", "said without an id", "bye"]


@pytest.fixture
def socat(server: Daemon, program: Callable[[str], str]) -> list[str]:
    """Return the command, once the daemon listens."""
    server.connect().close()
    return [program("socat"), "-t5", "-", f"UNIX:{server.socket_path}"]


def test_a_whole_script_through_socat(server: Daemon, socat: list[str]) -> None:
    done = subprocess.run(
        socat, input=SCRIPT.encode(), capture_output=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert done.stderr == b""
    check(done.stdout)
    (path,) = server.files("my-session")
    assert path.read_bytes().count(b"\n") == 4


def test_the_same_script_through_a_pipe_and_stdio(home: Path) -> None:
    """The shell's own pipe, and lines that end as on Windows."""
    script = SCRIPT.replace("\n", "\\r\\n").replace("%", "%%")
    done = subprocess.run(
        ["sh", "-c", f"printf '{script}' | {SESSIOND} serve --stdio"],
        env={**os.environ, "SESSIOND_HOME": str(home / "data")},
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    check(done.stdout)
    for line in done.stderr.splitlines():
        assert json.loads(line)["level"] == "info"


def test_files_as_stdin_and_stdout_will_do(home: Path) -> None:
    asked, answered = home / "asked", home / "answered"
    asked.write_text(SCRIPT, "utf-8")
    with asked.open("rb") as stdin, answered.open("wb") as stdout:
        subprocess.run(
            [SESSIOND, "serve", "--stdio"],
            env={**os.environ, "SESSIOND_HOME": str(home / "data")},
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
    check(answered.read_bytes())


def check(output: bytes) -> None:
    messages = [json.loads(line) for line in output.splitlines()]
    answers = {repr(one["id"]): one for one in messages if isinstance(one, dict) and "id" in one}
    # What needs no disk may be answered sooner; what was asked takes effect in order.
    assert sorted(answers) == ["'three'", "1", "10", "2", "4.5", "5", "6", "7"]
    assert all(one["jsonrpc"] == "2.0" for one in answers.values())
    assert answers["2"]["result"]["seq"] == 1
    # Behind both appends before it; the one after it may be in the same batch.
    assert answers["'three'"]["result"]["seq"] in (2, 3)
    assert answers["4.5"]["result"]["seq"] == 3
    context = answers["5"]["result"]["messages"]
    assert [message["content"] for message in context] == CONTENTS
    rows = answers["6"]["result"]["entries"]
    assert [row["entry"]["message"]["content"] for row in rows] == CONTENTS
    assert answers["7"]["error"]["code"] == -32602
    assert "msg" in answers["7"]["error"]["message"] + answers["7"]["error"]["data"]["path"]
    (batch,) = [one for one in messages if isinstance(one, list)]
    assert [one["id"] for one in batch] == [8, 9]
    assert "sessions" in answers["10"]["result"]
    events = [one for one in messages if isinstance(one, dict) and one.get("method")]
    check_events(events)


def check_events(events: list[dict[str, Any]]) -> None:
    entries = [one["params"] for one in events if one["method"] == "session/event"]
    assert [one["seq"] for one in entries] == [1, 2, 3]
    assert [one["entry"]["message"]["content"] for one in entries] == CONTENTS
    others = [one["method"] for one in events if one["method"] != "session/event"]
    assert others == ["session/synced"]


@contextmanager
def typing(command: list[str]) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Yield a function that types a line and returns the next line that comes."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout
    # Who waits in vain reads the end of a process instead of nothing for ever.
    watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
    watchdog.start()

    def say(line: str) -> dict[str, Any]:
        if line:
            stdin.write(line.encode() + b"\n")
            stdin.flush()
        message: dict[str, Any] = json.loads(stdout.readline())
        return message

    try:
        yield say
        stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert stdout.read() == b""
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        stdin.close()
        stdout.close()


HELLO = '{"id":2,"method":"append","params":{"session_id":"my-session","message":{"role":"user","content":"hi"}}}'
QUIET = '{"method":"append","params":{"session_id":"my-session","message":{"role":"user","content":"psst"}}}'


def test_one_types_and_another_one_watches(server: Daemon, socat: list[str]) -> None:
    with typing(socat) as ana, typing(socat) as ben:
        created = ana(
            '{"id":1,"method":"session/create","params":{"cwd":"/p","session_id":"my-session"}}'
        )
        assert created["result"]["created"]
        watch = '{"id":1,"method":"subscribe","params":{"session_id":"my-session"}}'
        assert ben(watch)["result"]["seq"] == 0
        assert ana(HELLO)["result"]["seq"] == 1
        assert ben("")["params"]["entry"]["message"]["content"] == "hi"
        # A notification is stored and seen, and its sender hears nothing: the next line that
        # comes answers the next request.
        back = '{"id":3,"method":"session/entries","params":{"session_id":"my-session"}}'
        rows = ana(f"{QUIET}\n{back}")
        assert rows["id"] == 3
        contents = [row["entry"]["message"]["content"] for row in rows["result"]["entries"]]
        assert contents == ["hi", "psst"]
        assert ben("")["params"]["entry"]["message"]["content"] == "psst"
        # Ben appends too, and gets the event before the answer.
        assert ben(HELLO)["params"]["seq"] == 3
        assert ben("")["result"]["seq"] == 3
