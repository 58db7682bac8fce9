"""The sessions that a daemon has open, for tests."""

from __future__ import annotations

from sessiond.testing.daemon import Daemon


def open_now(daemon: Daemon) -> set[str]:
    return set(daemon.service.statistics().sessions)
