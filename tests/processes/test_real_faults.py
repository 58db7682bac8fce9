"""System calls of the real daemon fail under load: nothing acknowledged is lost, what was refused
is stored once when it is sent again, and whoever has nothing to do with it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

from tests.processes.harness.daemon import Daemon
from tests.processes.harness.faults import can_attach, failing
from tests.processes.harness.load import Appender, Watcher, at_work, what_is_wrong

pytestmark = pytest.mark.slow

SESSION, OTHER = "session-a", "session-b"
WRITES = "write,pwrite64,writev,pwritev"
FAULTS = [
    (WRITES, "ENOSPC"),
    (WRITES, "EIO"),
    (WRITES, "EDQUOT"),
    ("fdatasync", "EIO"),
    ("fdatasync", "ENOSPC"),
    # The file cannot be cut back: it is written to again only when it could.
    (f"fdatasync,ftruncate,{WRITES}", "EIO"),
    # Nor opened again, which comes before that.
    ("fdatasync,openat", "EMFILE"),
]


@pytest.fixture(scope="session")
def strace(program: Callable[[str], str], absent: Callable[[str], NoReturn]) -> str:
    found = program("strace")
    if not can_attach(found):
        absent("this machine lets nobody trace")
    return found


@pytest.mark.parametrize(("calls", "error"), FAULTS)
def test_appends_under_load(daemon: Daemon, strace: str, calls: str, error: str) -> None:
    with daemon.connect() as link:
        for session_id in (SESSION, OTHER):
            link.ask("session/create", cwd="/p", session_id=session_id, persist="immediate")
    (path,) = daemon.files(SESSION)
    here = [Appender(daemon, SESSION, f"here{n}") for n in range(3)]
    there = Appender(daemon, OTHER, "there")
    watcher = Watcher(daemon, SESSION, "watcher")
    with at_work(*here, there, watcher):
        for _again in range(2):
            for appender in (*here, there):
                appender.wait_stored()
            with failing(strace, daemon.pid, calls, error, path=path):
                for appender in here:
                    appender.wait_refused()
                there.wait_stored()
        for appender in here:
            appender.wait_stored()
    assert {errno for appender in here for errno in appender.refusals} == {error}
    assert not there.refusals
    assert what_is_wrong(daemon, here, [watcher]) == []
    assert what_is_wrong(daemon, [there]) == []
