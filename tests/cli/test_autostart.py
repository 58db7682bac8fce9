"""Starts of a daemon by whoever finds none, without the daemon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sessiond.cli.connect import autostart
from sessiond.cli.connect.probe import About, Serving
from sessiond.cli.options import DaemonPlace
from sessiond.cli.ui.failure import Failure
from sessiond.journal.profile.holder import Holder


def test_a_daemon_that_fails_is_told_of_once_it_has_let_go_of_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = Serving(Holder(pid=1, host="testhost", since="2026-01-15T10:30:00.000Z"))
    # Free for the starter; still held by the process that ends; free, also for any other daemon.
    seen = [None, ending, ending, None, None]
    monkeypatch.setattr(autostart, "who_serves", lambda _layout: seen.pop(0))
    monkeypatch.setattr(autostart, "_command", lambda _place, _told: ["true"])
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    place = DaemonPlace(str(tmp_path / "s"), None, str(tmp_path))
    with pytest.raises(Failure, match="the daemon did not start"):
        autostart.join(place)
    assert seen == []


def test_a_daemon_that_was_started_beside_is_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor's daemon may take the profile between the look and the start."""
    path = tmp_path / "s"
    other = Holder(pid=1, host="h", since="2026-01-15T10:30:00.000Z", socket=str(path))
    about = About(1, "default", tmp_path / "home/profiles/default", "0", "b", "i", "t")
    # Free for the starter; then the other daemon, which does not listen at once.
    answers = [None, None, None, about]
    monkeypatch.setattr(autostart, "answering", lambda _path: answers.pop(0))
    seen = [None, Serving(other), Serving(other)]
    monkeypatch.setattr(autostart, "who_serves", lambda _layout: seen.pop(0))
    monkeypatch.setattr(autostart, "_command", lambda _place, _told: ["false"])
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    found = autostart.join(DaemonPlace(str(path), None, str(tmp_path / "home")))
    assert (found.about, found.started) == (about, False)
    assert (answers, seen) == ([], [])
