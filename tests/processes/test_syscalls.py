"""The system calls of a batch, counted by strace."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.kit.link import request
from tests.kit.sessions import SESSION
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.tracing import tracing

pytestmark = pytest.mark.slow

APPENDS = 10
CALLS = "recvfrom,write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,sync_file_range,sendto"


traced = tracing(CALLS, shown_bytes=400)


def calls_on(path: Path, trace: str) -> list[str]:
    """Return the calls on a file, in order."""
    return re.findall(rf"^\d+ +(\w+)\(\d+<{re.escape(str(path))}>", trace, re.MULTILINE)


def test_ten_pipelined_appends_are_one_write_and_one_fdatasync(
    traced: tuple[Daemon, Path],
) -> None:
    daemon, trace = traced
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=SESSION, persist="immediate")
        message = {"role": "user", "content": "x"}
        batch = b"".join(
            request(f"append-{n}", "session/append", session_id=SESSION, message=message)
            for n in range(APPENDS)
        )
        link.send(batch)
        answers = [link.message() for _ in range(APPENDS)]
        assert [answer["result"]["seq"] for answer in answers] == list(range(1, APPENDS + 1))
        assert {answer["result"]["durability"] for answer in answers} == {"disk"}
        (path,) = daemon.files(SESSION)
        link.ask("server/stop")
        link.rest()
    assert daemon.end() == 0
    before, found, after = trace.read_text("utf-8").partition('\\"append-0\\"')
    assert found
    # The header of the new file: a tracer that sees nothing would find nothing wrong.
    (unfinished,) = set(re.findall(r"\.sessiond-[0-9a-f]{32}\.new", before))
    assert calls_on(path.with_name(unfinished), before) == ["write", "fsync"]
    assert calls_on(path, after) == ["write", "fdatasync"]
    # And all ten answers in one piece.
    sent = [line for line in after.split("\n") if "sendto(" in line and "append-0" in line]
    assert len(sent) == 1


def test_an_append_that_is_not_to_be_durable_is_one_write(traced: tuple[Daemon, Path]) -> None:
    daemon, trace = traced
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=SESSION, persist="immediate")
        stored = link.say(SESSION, "marked", durability="os")
        assert stored["durability"] == "os"
        (path,) = daemon.files(SESSION)
        daemon_pid = re.match(r"\d+", trace.read_text("utf-8"))
        assert daemon_pid is not None
        os.kill(int(daemon_pid[0]), signal.SIGKILL)
    daemon.end()
    _, _, after = trace.read_text("utf-8").partition("marked")
    assert calls_on(path, after) == ["write"]


def test_the_first_start_of_a_profile_syncs_the_folders_that_hold_new_names(
    traced: tuple[Daemon, Path], home: Path
) -> None:
    """Neither the empty folders of sessions nor the empty catalog are worth a wait for the disk."""
    daemon, trace = traced
    with daemon.connect() as link:
        link.ask("server/ping")
        link.ask("server/stop")
        link.rest()
    assert daemon.end() == 0
    before, found, _ = trace.read_text("utf-8").partition("server/ping")
    assert found
    synced = re.findall(r"^\d+ +(fsync|fdatasync)\(\d+<([^>]*)>", before, re.MULTILINE)
    folders = (home, home / "data", home / "data" / "profiles", daemon.profile)
    assert synced == [("fsync", str(folder)) for folder in folders]
