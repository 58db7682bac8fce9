"""Two daemons on one profile, on one file, and on a copy.

At most one of them writes a file. No client gets facts about one session as those of another.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
from pathlib import Path

import pytest

from tests.kit.sessions import SESSION
from tests.processes.harness.daemon import SESSIOND, Daemon, running
from tests.processes.harness.faults import failing

pytestmark = pytest.mark.slow


def test_the_second_of_a_profile_is_refused_and_told_of_the_first(
    daemon: Daemon, socket_path: Path
) -> None:
    log = socket_path.with_name("log")
    second = Daemon(socket_path.with_name("second"), daemon.home, log=log)
    with daemon.connect() as link:
        link.create("one")
        reason = second.start_in_vain()
        assert reason.startswith(f"the daemon with pid {daemon.pid}, there since 20")
        assert not second.socket_path.exists()
        link.say(SESSION, "two")
        os.kill(daemon.pid, signal.SIGSTOP)
        # One that hangs still has what it has.
        assert f"pid {daemon.pid}," in second.start_in_vain()
        daemon.kill()
    with running(second), second.connect() as link:
        assert link.contents(SESSION) == ["one", "two"]
        link.say(SESSION, "three")
        assert f"pid {second.pid}," in daemon.start_in_vain()
    daemon.socket_path.unlink()


@pytest.mark.parametrize("name", ["itself", "hard link", "symbolic link"])
def test_a_file_that_another_has_is_locked_until_that_one_is_gone(
    daemon: Daemon, socket_path: Path, tmp_path: Path, name: str
) -> None:
    # A daemon of another profile in the same home.
    program = ("env", "SESSIOND_PROFILE=other", SESSIOND)
    log = daemon.home.with_name("other.log")
    made = Daemon(socket_path.with_name("other"), daemon.home, program=program, log=log)
    with running(made) as other:
        with daemon.connect() as link, other.connect() as theirs:
            link.create("one")
            (path,) = daemon.files(SESSION)
            place = tmp_path / "linked.jsonl"
            if name == "hard link":
                place.hardlink_to(path)
            elif name == "symbolic link":
                place.symlink_to(path)
            else:
                place = path
            locked = theirs.refusal("session/open", path=str(place))
            assert (locked.kind, locked.data["retryable"]) == ("session_locked", True)
            assert locked.data["holder"]["pid"] == daemon.pid
            assert locked.data["holder"]["host"] == os.uname().nodename
            assert locked.data["holder"]["since"].startswith("20")
            os.kill(daemon.pid, signal.SIGSTOP)
            locked = theirs.refusal("session/open", path=str(place))
            assert locked.data["holder"]["pid"] == daemon.pid
            os.kill(daemon.pid, signal.SIGCONT)
            assert link.say(SESSION, "two")["durability"] == "disk"
            os.kill(daemon.pid, signal.SIGSTOP)
            daemon.kill()
            session_id = theirs.ask("session/open", path=str(place))["session"]["id"]
            assert theirs.contents(session_id) == ["one", "two"]
            assert theirs.say(session_id, "three")["seq"] == 3
        daemon.socket_path.unlink()
        with running(daemon), daemon.connect() as link:
            locked = link.refusal("session/open", session_id=SESSION)
            assert locked.data["holder"]["pid"] == other.pid


def test_one_file_under_two_names_in_one_daemon_has_one_writer(
    daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as link:
        link.create("one")
        (path,) = daemon.files(SESSION)
        (tmp_path / "linked.jsonl").hardlink_to(path)
        (tmp_path / "there.jsonl").symlink_to(path)
        locked = link.refusal("session/open", path=str(tmp_path / "linked.jsonl"))
        assert locked.data["holder"]["pid"] == daemon.pid
        assert "another name" in str(locked)
        found = link.ask("session/open", path=str(tmp_path / "there.jsonl"))["session"]
        assert (found["id"], found["path"]) == (SESSION, str(path))


def test_a_record_of_a_holder_that_is_gone_names_only_what_the_system_knows(daemon: Daemon) -> None:
    with daemon.connect() as link:
        link.create("one")
    (path,) = daemon.files(SESSION)
    daemon.kill()
    daemon.socket_path.unlink()
    assert len(list((daemon.home / "locks").iterdir())) == 2
    # A program that knows nothing of records takes the file.
    with running(daemon), daemon.connect() as link:
        with path.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            locked = link.refusal("session/open", session_id=SESSION)
            holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": None}
            assert (locked.kind, locked.data["holder"]) == ("session_locked", holder)
        link.say(SESSION, "two")
        assert link.contents(SESSION) == ["one", "two"]


def test_a_copy_of_a_profile_is_served_beside_it_and_its_cursors_do_not_fit(
    daemon: Daemon, socket_path: Path, home: Path
) -> None:
    with daemon.connect() as link:
        link.create("one", "two")
        link.ask("session/list")
        epoch = link.ask("session/subscribe", session_id=SESSION)["epoch"]
        # As it is, under the daemon that serves it: with its locks, records and catalog.
        shutil.copytree(daemon.home, home / "copy")
        copied = Daemon(socket_path.with_name("copy"), home / "copy")
        with running(copied), copied.connect() as theirs:
            link.say(SESSION, "three here")
            theirs.say(SESSION, "three there")
            after = {"seq": 3, "epoch": epoch}
            there = theirs.ask("session/subscribe", session_id=SESSION, after=after)
            assert there["replaced"] == "epoch"
            assert there["epoch"] != epoch
            here = link.ask("session/subscribe", session_id=SESSION, after=after)
            assert "replaced" not in here
            assert here["epoch"] == epoch
            assert link.contents(SESSION) == ["one", "two", "three here"]
            assert theirs.contents(SESSION) == ["one", "two", "three there"]


def test_of_two_files_with_one_id_one_is_the_session_and_the_other_is_named(
    daemon: Daemon,
) -> None:
    with daemon.connect() as link:
        link.create("one")
        (path,) = daemon.files(SESSION)
        copy = path.with_name(f"2099-01-01T00-00-00-000000_{SESSION}.jsonl")
        shutil.copy(path, copy)
        link.say(SESSION, "two")
        listed = link.ask("session/list")
        assert [info["path"] for info in listed["sessions"]] == [str(path)]
        assert [bad["path"] for bad in listed["unreadable"]] == [str(copy)]
        assert path.name in listed["unreadable"][0]["reason"]
        assert link.contents(SESSION) == ["one", "two"]
        assert b"two" not in copy.read_bytes()


@pytest.mark.parametrize(("error", "retryable"), [("ENOLCK", True), ("EOPNOTSUPP", False)])
def test_a_file_system_without_locks_is_told_and_nothing_is_written(
    daemon: Daemon, strace: str, error: str, retryable: bool
) -> None:
    with daemon.connect() as link:
        link.create("one")
        link.ask("session/close", session_id=SESSION)
        (path,) = daemon.files(SESSION)
        before = path.read_bytes()
        with failing(strace, daemon.pid, "flock", error):
            told = link.refusal("session/append", session_id=SESSION, message={"role": "user"})
            assert (told.kind, told.data["retryable"]) == ("storage_error", retryable)
            assert "no locks" in str(told)
            assert link.refusal("session/create", cwd="/p").kind == "storage_error"
        assert path.read_bytes() == before
        assert link.say(SESSION, "two")["seq"] == 2


def test_a_daemon_on_a_file_system_without_locks_says_so(
    strace: str, socket_path: Path, home: Path
) -> None:
    program = [strace, "-f", "-o", "/dev/null", "-e", "trace=flock"]
    program += ["-e", "inject=flock:error=ENOLCK", SESSIOND]
    reason = Daemon(socket_path, home / "data", program=program).start_in_vain()
    assert str(home / "data" / "profiles" / "default" / "daemon.lock") in reason
    assert "no locks" in reason
