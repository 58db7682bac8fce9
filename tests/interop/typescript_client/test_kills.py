"""Many writers over a daemon that is killed: every message once, one order for all who watch."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from sessiond_client import connect_blocking
from tests.interop.typescript_client.conftest import HERE
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

WRITERS, APPENDS, KILLS = 3, 200, 5
SESSION = "written-by-many"


def start(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, text=True)


def test_every_message_is_stored_once_and_seen_in_one_order(
    any_node: Path, library: Path, server: Daemon, tmp_path: Path
) -> None:
    server.connect().close()
    with connect_blocking(server.socket_path, timeout=PATIENCE_SECONDS) as client:
        client.create(str(tmp_path), session_id=SESSION, persist="immediate")
        total = WRITERS * APPENDS
        place = (library, server.socket_path, SESSION)
        watchers = [start(any_node, HERE / "watcher.mjs", *place, total) for _ in range(2)]
        writers = [
            start(any_node, HERE / "writer.mjs", *place, f"writer{number}", APPENDS)
            for number in range(WRITERS)
        ]
        first = writers[0]
        assert first.stdout is not None
        for _ in range(KILLS):
            for _ in range(APPENDS // (KILLS + 1)):
                first.stdout.readline()
            server.end(signal.SIGKILL)
            server.start()
        for process in writers:
            process.communicate(timeout=PATIENCE_SECONDS)
            assert process.returncode == 0
        seen = [
            process.communicate(timeout=PATIENCE_SECONDS)[0].splitlines() for process in watchers
        ]
        rows = client.path(SESSION, limit=2 * total).entries
        said = [row.entry["message"]["content"] for row in rows]
    assert sorted(said) == sorted(
        f"writer{number} {count}" for number in range(WRITERS) for count in range(APPENDS)
    )
    assert seen == [[f"{row.seq} {row.entry['id']}" for row in rows]] * 2
