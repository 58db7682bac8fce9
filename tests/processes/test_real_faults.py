"""Failing system calls of the real daemon under load.

No acknowledged entry is lost. A refused request is stored once by its retry. Clients of other
sessions go on.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.link import Refused
from tests.kit.sessions import SESSION
from tests.processes import short_daemon
from tests.processes.harness.daemon import Daemon, running
from tests.processes.harness.faults import failing
from tests.processes.harness.load import Appender, Watcher, at_work, what_is_wrong

pytestmark = pytest.mark.slow

OTHER = "session-b"
HELLO = {"role": "assistant", "content": "hello"}
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
    # A call that is under way while the tracer lets go is never made: ENOSYS.
    assert {errno for appender in here for errno in appender.refusals} - {"ENOSYS"} == {error}
    assert not there.refusals
    assert what_is_wrong(daemon, here, [watcher]) == []
    assert what_is_wrong(daemon, [there]) == []


def test_threads_that_lack_the_memory_to_begin_stop_no_loop(socket_path: Path, home: Path) -> None:
    sign = home / "short"
    home.mkdir(exist_ok=True)
    program = [sys.executable, short_daemon.__file__, str(sign)]
    with running(Daemon(socket_path, home / "data", program=program)) as daemon:
        with daemon.connect() as link, daemon.connect() as other:
            sign.touch()
            link.ask("session/create", cwd="/p", session_id=SESSION)
            # The first append needs a thread for the disk.
            refused = link.refusal("session/append", session_id=SESSION, message=HELLO)
            assert (refused.kind, refused.data["retryable"]) == ("overloaded", True)
            assert other.ask("server/ping") is not None
            sign.unlink()
            assert link.say(SESSION, "one")["seq"] == 1
        assert '"bug"' not in daemon.said()


def test_a_write_that_is_cut_short_is_taken_back(daemon: Daemon) -> None:
    """No tracer is needed: at the limit of a file's size the kernel writes only a part."""
    with daemon.connect() as link:
        for session_id in (SESSION, OTHER):
            link.ask("session/create", cwd="/p", session_id=session_id, persist="immediate")
        link.say(SESSION, "padding:" + "x" * 3_000_000, idempotency_key="padding")
    (path,) = daemon.files(SESSION)
    here = [Appender(daemon, SESSION, f"here{n}") for n in range(3)]
    there = Appender(daemon, OTHER, "there")
    with at_work(*here, there):
        for appender in (*here, there):
            appender.wait_stored()
        _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (path.stat().st_size + 1000, hard))
        for appender in here:
            appender.wait_refused()
        there.wait_stored()
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (hard, hard))
        for appender in here:
            appender.wait_stored()
    assert {errno for appender in here for errno in appender.refusals} == {"EFBIG"}
    assert not there.refusals
    assert what_is_wrong(daemon, here) == [f"{SESSION}: message at 1 is stored and nobody sent it"]
    assert what_is_wrong(daemon, [there]) == []


def test_what_cannot_be_read_is_told_and_what_needs_no_reading_goes_on(
    daemon: Daemon, strace: str
) -> None:
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=SESSION, persist="immediate")
        for number in range(5):
            link.say(SESSION, f"said {number}")
        (path,) = daemon.files(SESSION)
        with failing(strace, daemon.pid, "pread64", "EIO", path=path):
            link.ask("session/subscribe", session_id=SESSION, after={"seq": 0})
            told = link.message()
            assert (told["method"], told["params"]["reason"]) == ("session/closed", "storage_error")
            for method in ("session/entries", "build_context"):
                with pytest.raises(Refused) as refused:
                    link.ask(method, session_id=SESSION)
                assert refused.value.data["errno"] == "EIO"
                assert refused.value.data["retryable"] is True
            assert link.say(SESSION, "said 5")["durability"] == "disk"
        link.ask("session/subscribe", session_id=SESSION, after={"seq": 0})
        assert [link.message()["params"]["seq"] for _ in range(6)] == [*range(1, 7)]
        assert len(link.contents(SESSION)) == 6


def test_a_draft_that_cannot_be_moved_is_stored_and_moved_with_the_next_append(
    daemon: Daemon, strace: str
) -> None:
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=SESSION)
        (path,) = daemon.files(SESSION)
        assert path.parent.name == "pending"
        answer = {"role": "assistant", "content": "x"}
        with failing(strace, daemon.pid, "rename,renameat,renameat2", "EIO", path=path):
            stored = link.ask("session/append", session_id=SESSION, message=answer)
            assert stored["durability"] == "disk"
            assert daemon.files(SESSION) == [path]
            assert not link.ask("session/get", session_id=SESSION)["session"]["persisted"]
        link.say(SESSION, "two")
        assert link.ask("session/get", session_id=SESSION)["session"]["persisted"]
        (path,) = daemon.files(SESSION)
        assert path.parent.name == "sessions"
        assert len(path.read_bytes().splitlines()) == 3


MERGE = {"session_id": SESSION, "other_session_id": OTHER, "text": "both", "into": "new"}
# What is asked, the calls that fail, and whether the same may work later.
ACTS: list[tuple[str, dict[str, Any], str, str, bool]] = [
    ("session/create", {"cwd": "/p"}, "fsync", "EIO", True),
    ("session/create", {"cwd": "/p"}, "openat", "EACCES", False),
    ("session/create", {"cwd": "/p"}, "rename,renameat,renameat2", "EROFS", False),
    ("session/archive", {"session_id": SESSION}, "rename,renameat,renameat2", "EACCES", False),
    ("session/archive", {"session_id": SESSION}, "fsync", "EIO", True),
    ("session/delete", {"session_id": SESSION}, "rename,renameat,renameat2", "ENOSPC", True),
    ("session/export", {"session_id": SESSION, "path": None}, "fsync", "ENOSPC", True),
    ("session/fork", {"session_id": SESSION}, "fsync", "EIO", True),
    ("session/fork", {"session_id": SESSION, "entries": "all"}, "openat", "EMFILE", True),
    ("session/rebase", {"session_id": SESSION, "indices": [0]}, WRITES, "ENOSPC", True),
    ("session/merge", MERGE, "rename,renameat,renameat2", "EDQUOT", True),
    ("session/open", {"session_id": "session-closed"}, "openat", "EMFILE", True),
    ("session/open", {"session_id": "session-closed"}, "fdatasync", "EIO", True),
]


def test_what_is_refused_is_refused_with_the_errno_and_works_afterwards(
    daemon: Daemon, strace: str, tmp_path: Path
) -> None:
    with daemon.connect() as link:
        link.ask("session/create", cwd="/p", session_id=OTHER, persist="immediate")
    for number, (method, params, calls, error, retryable) in enumerate(ACTS):
        ids = {"session_id": f"session-{number}"} if "session_id" in params else {}
        given = {**params, **ids}
        if "path" in params:
            given["path"] = str(tmp_path / f"{number}.jsonl")
        with daemon.connect() as link:
            if ids:
                link.ask("session/create", cwd="/p", persist="immediate", **ids)
                link.say(f"session-{number}", "one")
            if method == "session/open":
                link.ask("session/close", **ids)
            with failing(strace, daemon.pid, calls, error):
                with pytest.raises(Refused) as refused:
                    link.ask(method, **given)
                assert refused.value.data["errno"] == error, method
                assert refused.value.data["retryable"] is retryable, method
            if ids and method != "session/open":
                assert link.contents(f"session-{number}") == ["one"], method
            link.ask(method, **given)
    assert [*daemon.home.rglob("*.new")] == []
