"""The slow disk of row 15: the delay is there, and batches are as long as they should be."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from sessiond.journal.disk.files import Files
from sessiond.rpc.progress import NO_PROGRESS
from sessiond.service.actor.inbox import Command, Inbox
from tests.bench.harness import slow_disk
from tests.bench.harness.errors import BenchError
from tests.bench.peers.disk_loop import slowed
from tests.bench.rows.group_commit import require_delay


class FakeTicket:
    """A waiting call that nothing cancels."""

    client = "client"
    origin_id = Raw(b"1")
    progress = NO_PROGRESS
    result_meta: bytes | None = None

    def answer(self, result: Any) -> None:
        raise AssertionError("no command is answered here")

    def fail(self, error: Exception) -> None:
        raise AssertionError("no command fails here") from error

    def flush(self) -> None:
        """Do nothing: this ticket sends no answer."""

    def defer(self, on_cancel: Callable[[], None]) -> None:
        """Do nothing: no call is cancelled here."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record sleeps and syncs in place of both."""
    found: list[str] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: found.append(f"sleep {seconds}"))
    monkeypatch.setattr(Files, "fdatasync", lambda _, fd: found.append(f"sync {fd}"))
    return found


def test_a_sync_comes_behind_its_delay(calls: list[str]) -> None:
    slowed(lambda fd: calls.append(f"sync {fd}"), 2)(7)
    assert calls == ["sleep 0.002", "sync 7"]


def test_without_a_delay_the_sync_is_called_as_it_is() -> None:
    def sync(fd: int) -> None:
        raise AssertionError("not called here")

    assert slowed(sync, 0) is sync


@pytest.mark.parametrize(("most", "batches"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (1024, [5])])
def test_the_daemon_has_the_delay_and_batches_of_that_many_entries(
    calls: list[str], monkeypatch: pytest.MonkeyPatch, most: int, batches: list[int]
) -> None:
    taken: list[int] = []

    def sessiond() -> None:
        Files().fdatasync(7)
        inbox = Inbox()
        for _ in range(5):
            inbox.put(Command(FakeTicket(), lambda receipt, durability: None, lambda draft: None))
        while len(inbox):
            taken.append(len(inbox.take()))
        assert sys.argv[1:] == ["serve", "--socket", "s"]

    words = [*slow_disk.command(2, most), "serve", "--socket", "s"]
    monkeypatch.setattr(sys, "argv", words[2:])
    monkeypatch.setattr(slow_disk, "sessiond", sessiond)
    slow_disk.main()
    assert calls == ["sleep 0.002", "sync 7"]
    assert taken == batches


def test_a_rate_that_the_delay_does_not_allow_is_no_rate(tmp_path: Path) -> None:
    assert require_delay({"rate": 500.0}, 1) == {"rate": 500.0}
    assert require_delay({"rate": 31_000.0}, 64) == {"rate": 31_000.0}
    with pytest.raises(BenchError, match="501 appends a second; with the delay 500 at most"):
        require_delay({"rate": 501.0}, 1)
