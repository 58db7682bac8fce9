"""Joining a daemon: the running one, else a new one, which the first caller starts once.

    connect → lock → connect again → start → it says that it listens → ask who it is

Rule 1: the lock is a file of the profile that is never removed, so ten concurrent callers start one.
Rule 2: every wait is bounded, and the reason of a daemon that dies while it starts is reported.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from sessiond.cli.connect.probe import About, about, ask_once, who_serves
from sessiond.cli.connect.target import (
    find_socket,
    layout_of,
    named_socket,
    profile_of,
    require_meant,
)
from sessiond.cli.options import DaemonPlace
from sessiond.cli.ui.failure import Failure
from sessiond.daemon.exit_status import Status
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.limits import ANSWER_SECONDS, LOG_BYTES_MAX, START_SECONDS

_LOOK_AGAIN_SECONDS: Final = 0.02
_END_SECONDS: Final = 1.0
_STARTS_MAX: Final = 3
_LAST_WORDS_BYTES: Final = 16 * 1024


class Joined(NamedTuple):
    """Daemon that answers."""

    socket: Path
    started: bool
    about: About


def join(place: DaemonPlace) -> Joined:
    """Return the daemon of this place, started if none runs. Raise Failure, OSError."""
    path = find_socket(place)
    found, started = answering(path), False
    if found is None:
        layout = layout_of(place)
        layout.make_folders(Files())
        end = time.monotonic() + START_SECONDS
        with _only_starter(layout, end):
            found = _wait_for_place(path, layout, end)
            starts = 0
            # A daemon that is to end soon without clients may end before this one asks.
            while found is None and starts < _STARTS_MAX:
                found, started = _started(place, path, layout, end)
                starts += 1
        if found is None:
            raise _not_there(f"the daemon started, but does not answer on {path}", layout)
    require_meant(place, path, found)
    return Joined(path, started, found)


def _started(
    place: DaemonPlace, path: Path, layout: Layout, end: float
) -> tuple[About | None, bool]:
    """Start a daemon; return its facts and True, or those of another one that was quicker and False.

    A supervisor starts its daemon beside this start, and takes no lock of starters. Raise Failure.
    """
    try:
        _start(place, layout, end)
    except Failure:
        found = _wait_for_place(path, layout, end)
        if found is None:
            raise
        return found, False
    return answering(path), True


def answering(path: Path) -> About | None:
    """Return the facts of the daemon at this socket; None if none listens, or it is stopping.

    Raises Failure if a process listens but does not answer.
    """
    try:
        ping = ask_once(path, "server/ping", seconds=ANSWER_SECONDS)
        if ping is None or ping["draining"]:
            return None
        return about(path, ANSWER_SECONDS)
    except TimeoutError as error:
        what = f"the process that listens on {path} gave no answer in {ANSWER_SECONDS:.0f} s"
        raise Failure(what, "look at the process, or end it", Status.NO_DAEMON) from error


def _not_there(what: str, layout: Layout) -> Failure:
    return Failure(what, f"see {log_path(layout)}", Status.NO_DAEMON)


def log_path(layout: Layout) -> Path:
    """Return the log file of a daemon in the background."""
    return layout.root / "daemon.log"


@contextmanager
def _only_starter(layout: Layout, end: float) -> Generator[None]:
    path = layout.root / "start.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if time.monotonic() > end:
                raise _not_there(
                    "another process has been starting the daemon for too long", layout
                )
            time.sleep(_LOOK_AGAIN_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _wait_for_place(path: Path, layout: Layout, end: float) -> About | None:
    """Wait until the profile is free (None) or its daemon answers here (its facts)."""
    while True:
        found = answering(path)
        if found is not None:
            return found
        serving = who_serves(layout)
        if serving is None:
            return None
        holder = serving.holder
        elsewhere = holder is not None and holder.socket != os.fspath(path)
        if elsewhere or time.monotonic() > end:
            what = f"{serving} serves profile {layout.profile} and {serving.place}, not on {path}"
            then = "give the daemon's socket with --socket, or stop the daemon"
            raise Failure(what, then, Status.NO_DAEMON)
        # The daemon is about to listen, or about to end.
        time.sleep(_LOOK_AGAIN_SECONDS)


def _start(place: DaemonPlace, layout: Layout, end: float) -> None:
    """Start a daemon that outlives this process; return when it listens. Raise Failure."""
    log = log_path(layout)
    with suppress(FileNotFoundError):
        if log.stat().st_size > LOG_BYTES_MAX:
            log.rename(log.with_name("daemon.log.1"))
    log_fd = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    said_before = os.fstat(log_fd).st_size
    news, told = os.pipe()
    try:
        try:
            subprocess.run(  # noqa: S603 - our own program
                _command(place, told),
                stdin=subprocess.DEVNULL,
                stdout=log_fd,
                stderr=log_fd,
                pass_fds=[told],
                start_new_session=True,
                cwd="/",
                check=False,
            )
        finally:
            os.close(told)
        readable, _, _ = select.select([news], [], [], max(0.0, end - time.monotonic()))
        if not readable:
            what = f"the daemon does not listen {START_SECONDS:.0f} s after its start"
            raise _not_there(what, layout)
        # One byte: the daemon listens. End of file: it ended before it listened.
        if not os.read(news, 1):
            reason = _last_words(log_fd, said_before) or _why_silent(log, log_fd)
            _wait_for_end(layout)
            raise _not_there(f"the daemon did not start: {reason}", layout)
    finally:
        os.close(news)
        os.close(log_fd)


def _wait_for_end(layout: Layout) -> None:
    """Wait until a daemon that has failed to start has let go of the profile.

    The descriptors of an ending process are closed one after the other, and the next command must not take the
    rest of the process for a daemon. A daemon that listens is another one, and stays.
    """
    end = time.monotonic() + _END_SECONDS
    while time.monotonic() < end:
        serving = who_serves(layout)
        if serving is None or (serving.holder is not None and serving.holder.socket is not None):
            return
        time.sleep(_LOOK_AGAIN_SECONDS)


def _command(place: DaemonPlace, told: int) -> list[str]:
    """Return the daemon's command line: the given flags, with absolute paths."""
    command = [sys.executable, "-P", "-m", "sessiond", "serve", "--detached", str(told)]
    command += ["--profile", profile_of(place)]
    if named_socket(place):
        command += ["--socket", os.fspath(find_socket(place))]
    for flag, path in (("--home", place.home), ("--config", place.config)):
        if path:
            command += [flag, os.fspath(Path(path).expanduser().absolute())]
    return command


def _why_silent(log: Path, log_fd: int) -> str:
    """Return the likely reason why a daemon could not log: usually why it could not start."""
    try:
        os.write(log_fd, b"\n")
    except OSError as error:
        return f"{log} cannot be written: {error.strerror}"
    return "it logged no reason"


def _last_words(log_fd: int, since: int) -> str:
    """Return the reason in the last line that the daemon logged; "" if it logged none."""
    import json

    size = os.fstat(log_fd).st_size
    start = max(since, size - _LAST_WORDS_BYTES)
    lines = os.pread(log_fd, size - start, start).decode("utf-8", "replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    try:
        return str(json.loads(last)["reason"])
    except (ValueError, KeyError, TypeError):
        return last
