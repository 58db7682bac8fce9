"""The signal of `sessiond stop`: to the process that holds the profile, and to no other one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from sessiond.cli.connect import stopping
from sessiond.cli.connect.probe import Serving, who_serves
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.holder import Holder, record_of, write_record
from sessiond.journal.profile.layout import Layout
from sessiond.model.times import rfc3339
from sessiond.system import SYSTEM

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pidfd_open is Linux's")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as started:
        yield started
        started.kill()


def holder_of(process: subprocess.Popen[bytes]) -> Holder:
    birth = SYSTEM.birth_of(process.pid)
    assert len(birth.split()) == 3
    return Holder(process.pid, "here", "2026-01-15T10:30:00.000Z", "/s", birth)


def signalled(home: Path, told: Holder, serving: Serving | None) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stopping, "who_serves", lambda _layout: serving)
        return stopping._end_by_signal(Layout(home), told)


def test_the_holder_of_the_profile_gets_the_signal(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    holder = holder_of(process)
    assert signalled(tmp_path, holder, Serving(holder))
    assert process.wait() == -signal.SIGTERM


@pytest.mark.parametrize("wrong", ["boot", "namespace", "start", "none", "free", "another", "gone"])
def test_any_other_process_gets_none(
    tmp_path: Path, process: subprocess.Popen[bytes], wrong: str
) -> None:
    holder = holder_of(process)
    boot, namespace, start = holder.birth.split()
    births = {
        "boot": f"x {namespace} {start}",
        "namespace": f"{boot} pid:[1] {start}",
        "start": f"{boot} {namespace} {int(start) + 1}",
        "none": "",
    }
    told = structs.replace(holder, birth=births.get(wrong, holder.birth))
    serving = {
        "free": None,
        "another": Serving(structs.replace(holder, since="2026-01-15T10:30:01.000Z")),
    }
    if wrong == "gone":
        process.kill()
        process.wait()
    assert not signalled(tmp_path, told, serving.get(wrong, Serving(told)))
    assert wrong == "gone" or process.poll() is None


def test_no_words_name_a_pid_of_another_container(process: subprocess.Popen[bytes]) -> None:
    holder = holder_of(process)
    assert str(Serving(holder)).startswith(f"the daemon with pid {process.pid}, there since ")
    boot, namespace, start = holder.birth.split()
    for birth in (f"{boot} pid:[1] {start}", f"x {namespace} {start}"):
        said = str(Serving(structs.replace(holder, birth=birth)))
        assert said.startswith("a daemon on another machine or in another container, there since ")
        assert str(process.pid) not in said
    assert str(Serving(None)) == "another daemon"


# -- a daemon of 0.1.0, whose record tells no birth ------------------------------------------------

OWNER = """
import fcntl, sys, time
with open(sys.argv[1], "ab") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    layout.make_folders(Files())
    return layout


@pytest.fixture
def owner(layout: Layout) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", OWNER, str(layout.daemon_lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"locked\n"
        yield started
        started.kill()


def serving_as(layout: Layout, holder: Holder) -> Serving:
    """Write the record of the lock's owner; return what is told of the owner."""
    files = Files()
    descriptor = files.open_read(layout.daemon_lock)
    write_record(files, record_of(files, descriptor, layout.locks), holder, None)
    os.close(descriptor)
    serving = who_serves(layout)
    assert serving is not None
    return serving


def test_a_daemon_of_0_1_0_gets_the_signal(layout: Layout, owner: subprocess.Popen[bytes]) -> None:
    told = Holder(owner.pid, Files().host(), rfc3339(time.time()), "/s")
    serving = serving_as(layout, told)
    assert str(serving).startswith(f"the daemon with pid {owner.pid}, there since ")
    assert serving.holder is not None
    assert stopping._end_by_signal(layout, serving.holder)
    assert owner.wait() == -signal.SIGTERM


@pytest.mark.parametrize("wrong", ["host", "since long ago", "since later", "no time", "owner"])
def test_of_a_record_of_0_1_0_all_must_fit(
    layout: Layout,
    owner: subprocess.Popen[bytes],
    process: subprocess.Popen[bytes],
    wrong: str,
) -> None:
    now, here = time.time(), Files().host()
    told = {
        "host": Holder(owner.pid, f"not-{here}", rfc3339(now), "/s"),
        "since long ago": Holder(owner.pid, here, rfc3339(now - 3600), "/s"),
        "since later": Holder(owner.pid, here, rfc3339(now + 3600), "/s"),
        "no time": Holder(owner.pid, here, "yesterday", "/s"),
        "owner": Holder(process.pid, here, rfc3339(now), "/s"),
    }[wrong]
    serving = serving_as(layout, told)
    assert serving.holder == told
    assert str(serving).startswith("another daemon, there since ")
    assert not stopping._end_by_signal(layout, told)
    assert (owner.poll(), process.poll()) == (None, None)
