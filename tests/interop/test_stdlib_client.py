"""The client that was written from protocol.md alone, against a daemon that is killed."""

from __future__ import annotations

import ast
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.interop import stdlib_client
from tests.interop.stdlib_client import Client
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

SOURCE = Path(stdlib_client.__file__)
EACH = 40


def test_it_is_one_short_file_of_the_standard_library() -> None:
    text = SOURCE.read_text("utf-8")
    imported = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names
    assert text.count("\n") <= 250


def test_it_loses_and_doubles_nothing_when_the_daemon_is_killed(server: Daemon) -> None:
    server.connect().close()
    path = str(server.socket_path)
    stored: list[tuple[int, str]] = []
    marks = {EACH // 2: threading.Event(), EACH: threading.Event()}

    def append(session_id: str) -> None:
        with Client(path) as client:
            for _ in range(EACH):
                done = client.append(session_id, message={"role": "user", "n": 1.5})
                stored.append((done["seq"], done["leaf_id"]))
                if mark := marks.get(len(stored)):
                    mark.set()

    def watch(session_id: str) -> list[tuple[int, str]]:
        seen = []
        with Client(path) as client, closing(client.subscribe(session_id, {"seq": 0})) as events:
            for event in events:
                if event["method"] == "session/event":
                    seen.append((event["params"]["seq"], event["params"]["entry"]["id"]))
                    if len(seen) == 2 * EACH:
                        break
        return seen

    with Client(path) as client:
        created = client.call("session/create", cwd="/p", persist="immediate")
    session_id = created["session"]["id"]
    with ThreadPoolExecutor(3) as pool:
        watching = pool.submit(watch, session_id)
        appending = [pool.submit(append, session_id) for _ in range(2)]
        for mark in marks.values():
            assert mark.wait(PATIENCE_SECONDS)
            server.end(signal.SIGKILL)
            server.start()
        for one in appending:
            one.result(PATIENCE_SECONDS)
        seen = watching.result(PATIENCE_SECONDS)
    assert [seq for seq, _ in seen] == list(range(1, 2 * EACH + 1))
    # The leaf of an answer may be a later entry of another client, its seq is its own.
    assert sorted(seq for seq, _ in stored) == [seq for seq, _ in seen]
