"""Progress is for who waits at a terminal, and leaves nothing behind."""

from __future__ import annotations

import io
import sys
import time

import pytest

from sessiond.cli.ui.progress import Steps


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


def test_nothing_is_shown_before_a_second_has_passed(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    steps = Steps("verify")
    steps.report(1, 10, "files")
    steps.end()
    assert terminal.getvalue() == ""
    clock.now += 2
    steps.report(2, 10, "files")
    assert terminal.getvalue().endswith("verify: 2/10 files")
    steps.report(3, None, "files")
    assert terminal.getvalue().endswith("verify: 3 files")
    steps.end()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_file_gets_none(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    steps = Steps("verify")
    clock.now += 2
    steps.report(1, 10, "files")
    steps.end()
    assert errors.getvalue() == ""
