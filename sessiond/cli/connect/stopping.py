"""Stopping a daemon: a polite request, then a wait until the process is gone.

Law: the daemon's lock tells whether the daemon is gone; the lock ends with the process in every case.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

from sessiond.cli.connect.probe import About, Serving, about, ask_once, who_serves
from sessiond.cli.connect.target import find_socket, layout_of, require_meant
from sessiond.cli.options import DaemonPlace
from sessiond.cli.ui.failure import Failure
from sessiond.journal.profile.holder import Holder
from sessiond.journal.profile.layout import Layout
from sessiond.limits import ADDRESS_LOOK_SECONDS
from sessiond.system import SYSTEM

_LOOK_AGAIN_SECONDS: Final = 0.02
# How long a daemon whose socket was removed may take to listen again.
_ANEW_SECONDS: Final = 3 * ADDRESS_LOOK_SECONDS


def stop_daemon(place: DaemonPlace, seconds: float) -> int | None:
    """Return the pid of the stopped daemon; None if none ran. Raise Failure, OSError."""
    end = time.monotonic() + seconds
    path, layout = find_socket(place), layout_of(place)
    pid = None
    try:
        found = about(path, seconds)
        if found is None:
            pid, found = _ending(path, layout, end, seconds)
        if found is not None:
            require_meant(place, path, found)
            layout, pid = Layout(found.home, found.profile), found.pid
            ask_once(path, "server/stop", seconds=max(0.1, end - time.monotonic()))
    except TimeoutError as error:
        raise _still_there(who_serves(layout), seconds) from error
    if pid is not None:
        _wait_until_gone(layout, pid, end, seconds)
    return pid


def _ending(
    path: Path, layout: Layout, end: float, seconds: float
) -> tuple[int | None, About | None]:
    """Wait for a daemon that listens no more: return its pid once it is gone, or its facts once it listens again.

    Its socket may have been removed. A daemon that can make no new one is sent a signal. Raise Failure.
    """
    pid, signal_at = None, time.monotonic() + _ANEW_SECONDS
    while True:
        serving = who_serves(layout)
        if serving is None:
            return pid, None
        if serving.holder is None or serving.holder.socket != str(path):
            what = f"no daemon listens on {path}; {serving} serves the profile and {serving.place}"
            then = "give the daemon's socket with --socket, or end the daemon where it runs"
            raise Failure(what, then)
        pid = serving.holder.pid
        found = about(path, seconds)
        if found is not None:
            return pid, found
        if time.monotonic() > signal_at and _end_by_signal(layout, serving.holder):
            return pid, None
        if time.monotonic() > end:
            raise _still_there(serving, seconds)
        time.sleep(_LOOK_AGAIN_SECONDS)


def _end_by_signal(layout: Layout, holder: Holder) -> bool:
    """Send SIGTERM to a daemon, if it is certain to be the one that holds the profile; return whether it is."""
    open_process = getattr(os, "pidfd_open", None)
    if open_process is None or not holder.birth:
        return False
    try:
        process = open_process(holder.pid)
    except OSError:
        return False
    try:
        # The descriptor stays that of the process. Both are asked behind it: whether it is the one, and holds the lock.
        serving = who_serves(layout)
        is_it = SYSTEM.birth_of(holder.pid) == holder.birth
        if not is_it or serving is None or serving.holder != holder:
            return False
        signal.pidfd_send_signal(process, signal.SIGTERM)
    except OSError:
        return False
    finally:
        os.close(process)
    return True


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
