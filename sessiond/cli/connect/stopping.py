"""Stopping a daemon: a polite request, then a wait until the process is gone.

Law: the daemon's lock tells whether the daemon is gone; the lock ends with the process in every case.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from sessiond.cli.connect.probe import Serving, about, ask_once, who_serves
from sessiond.cli.connect.target import find_socket, layout_of, require_meant
from sessiond.cli.options import DaemonPlace
from sessiond.cli.ui.failure import Failure
from sessiond.journal.profile.layout import Layout

__all__ = ["stop_daemon"]

_LOOK_AGAIN_SECONDS: Final = 0.02


def stop_daemon(place: DaemonPlace, seconds: float) -> int | None:
    """Return the pid of the stopped daemon; None if none ran. Raise Failure, OSError."""
    end = time.monotonic() + seconds
    path, layout = find_socket(place), layout_of(place)
    try:
        found = about(path, seconds)
        if found is None:
            pid = _ending(path, who_serves(layout))
        else:
            require_meant(place, path, found)
            layout, pid = Layout(found.home, found.profile), found.pid
            ask_once(path, "server/stop", seconds=max(0.1, end - time.monotonic()))
    except TimeoutError as error:
        raise _still_there(who_serves(layout), seconds) from error
    if pid is not None:
        _wait_until_gone(layout, pid, end, seconds)
    return pid


def _ending(path: Path, serving: Serving | None) -> int | None:
    """Return the pid of a daemon that listens no more and is about to end. Raise Failure."""
    if serving is None:
        return None
    if serving.holder is None or serving.holder.socket != str(path):
        what = f"no daemon listens on {path}; {serving} serves the profile and {serving.place}"
        raise Failure(what, "give the daemon's socket with --socket, or end that process")
    return serving.holder.pid


def _wait_until_gone(layout: Layout, pid: int, end: float, seconds: float) -> None:
    while True:
        serving = who_serves(layout)
        if serving is None or (serving.holder is not None and serving.holder.pid != pid):
            return
        if time.monotonic() > end:
            raise _still_there(serving, seconds)
        time.sleep(_LOOK_AGAIN_SECONDS)


def _still_there(serving: Serving | None, seconds: float) -> Failure:
    what = f"{serving or 'the daemon'} has not ended in {seconds:g} s"
    then = "wait longer with --timeout, or kill it: all acknowledged entries are on disk"
    return Failure(what, then)
