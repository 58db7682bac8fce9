"""Real processes on a real disk: killed while they write, and competing for a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from sessiond.errors import SessionLocked, StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal
from tests.kit.patience import PATIENCE_SECONDS

PROGRAM = Path(__file__).with_name("journal_process.py")
HEADER = b'{"header":1}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.jsonl"
    Journal.create(Files(), path, HEADER, locks=tmp_path).close()
    return path


@contextmanager
def process(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program with these arguments; kill it at the end of the block."""
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


def line_from(child: subprocess.Popen[bytes]) -> list[str]:
    assert child.stdout is not None
    return child.stdout.readline().decode().split()


def acknowledged_in(text: bytes) -> int:
    """Return the number of the last acknowledged line."""
    acks = [line for line in text.split(b"\n")[:-1] if line.startswith(b"ack ")]
    return int(acks[-1].split()[1]) if acks else 0


def opened(path: Path) -> Journal:
    journal = Journal.open(Files(), path, lambda _seq, _lines: None, locks=path.parent)
    journal.truncates = True
    return journal


def check_lines(path: Path, acknowledged: int) -> None:
    """Every acknowledged line is there once, at its ordinal; behind them only what was sent."""
    journal = opened(path)
    assert journal.line_count > acknowledged
    lines = journal.read(0, journal.line_count - 1)
    assert lines[0] == HEADER
    for seq, line in enumerate(lines[1:], 1):
        assert line.startswith(b'{"n":%d,' % seq), seq
        assert line.endswith(b'"}'), seq
    journal.close()


@pytest.mark.parametrize("cut", [0, 1, 12, 60, 10_000])
def test_a_kill_inside_a_write_loses_nothing_acknowledged(path: Path, cut: int) -> None:
    with process("append", path, path.parent, 3, cut) as child:
        text, _ = child.communicate(timeout=PATIENCE_SECONDS)
        assert child.returncode == -signal.SIGKILL
    acknowledged = acknowledged_in(text)
    assert acknowledged == 12
    check_lines(path, acknowledged)
    # The next owner cuts what is torn and goes on.
    with process("append", path, path.parent, 3) as child:
        assert int(line_from(child)[1]) > acknowledged
    check_lines(path, acknowledged)


@pytest.mark.slow
def test_twenty_kills_anywhere_lose_nothing_acknowledged(path: Path) -> None:
    for number in range(20):
        with process("append", path, path.parent, 1 + number % 7) as child:
            assert child.stdout is not None
            for _ in range(number):
                line_from(child)
            child.send_signal(signal.SIGKILL)
            acknowledged = acknowledged_in(child.stdout.read())
        check_lines(path, acknowledged)
    assert not list(path.parent.glob("*.new"))


def test_a_second_process_is_told_who_has_the_file(path: Path) -> None:
    with process("hold", path, path.parent) as first:
        assert line_from(first) == ["open"]
        with process("hold", path, path.parent) as second:
            assert line_from(second) == ["locked", str(first.pid)]
        with pytest.raises(SessionLocked) as caught:
            opened(path)
        holder = caught.value.data()["holder"]
        assert holder["pid"] == first.pid
        assert holder["host"] == os.uname().nodename
        assert holder["since"].endswith("Z")
        # Another name is no way round the lock.
        moved = path.with_name("moved.jsonl")
        path.rename(moved)
        with pytest.raises(SessionLocked):
            opened(moved)


def test_a_lock_dies_with_its_process_and_the_record_changes_hands(path: Path) -> None:
    with process("hold", path, path.parent) as first:
        assert line_from(first) == ["open"]
        first.kill()
        first.wait(PATIENCE_SECONDS)
    journal = opened(path)
    with process("hold", path, path.parent) as second:
        assert line_from(second) == ["locked", str(os.getpid())]
    journal.close()


# -- a disk that is full ------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path, absent: Callable[[str], NoReturn]) -> Iterator[Path]:
    """Mount a file system of 256 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, check=False, capture_output=True)
    except FileNotFoundError:
        absent("no mount program; the file size limit below tests the same")
    if done.returncode:
        absent("mounting needs root; the file size limit below tests the same")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_refuses_and_goes_on_once_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(128 * 1024))
    path = small_disk / "s.jsonl"
    journal = Journal.create(Files(), path, HEADER, locks=small_disk)
    batch = [b'{"n":"%s"}' % (b"x" * 700)] * 5
    stored = [HEADER]

    def fill() -> None:
        while True:
            journal.append(batch, sync=True)
            stored.extend(batch)

    with pytest.raises(StorageError) as caught:
        fill()
    assert caught.value.data()["errno"] == "ENOSPC"
    assert caught.value.data()["retryable"] is True
    assert len(stored) > 50
    for _again in range(3):
        with pytest.raises(StorageError):
            journal.append(batch, sync=True)
        assert journal.read(0, journal.line_count - 1) == stored
        assert path.read_bytes() == b"".join(line + b"\n" for line in stored)
    # Nothing is left of a session that did not fit.
    with pytest.raises(StorageError):
        Journal.create(Files(), small_disk / "t.jsonl", b"x" * 100_000, locks=small_disk)
    assert not list(small_disk.glob("t.jsonl*"))
    journal.close()
    journal = opened(path)
    ballast.unlink()
    journal.append(batch, sync=True)
    assert journal.read(0, journal.line_count - 1) == stored + batch
    journal.close()


def test_a_file_size_limit_is_a_refusal_like_any_other(path: Path) -> None:
    with process("full", path, path.parent, 10_000) as child:
        text, _ = child.communicate(timeout=PATIENCE_SECONDS)
        assert child.returncode == 0
    name, acknowledged, line_count = text.decode().split()
    assert name == "EFBIG"
    assert acknowledged == line_count
    journal = opened(path)
    assert journal.tail == b""
    assert journal.line_count == int(acknowledged) + 1
    assert journal.read(journal.line_count - 1, journal.line_count - 1) == [b'{"again":1}']
    journal.close()
