"""The signal of `sessiond stop`: to the process that holds the profile, and to no other one."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from sessiond.cli.connect import stopping
from sessiond.cli.connect.probe import Serving
from sessiond.journal.profile.holder import Holder
from sessiond.journal.profile.layout import Layout
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
