"""Resources that a starting daemon takes from its process: descriptors, limits, threads, the profile's lock.

Law: all of this happens before the event loop runs, in the main thread.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from weakref import ref

from sessiond.errors import StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.journal.profile.lock import DaemonLock, Held, lock_daemon
from sessiond.limits import FREE_DESCRIPTORS_MIN, OPEN_FILES_MAX
from sessiond.transports.listening import CannotListen, Listening, listen, listen_on_inherited
from sessiond_client.place import is_shared_folder, require_private

# The first descriptor that a service manager hands over (sd_listen_fds).
_FIRST_INHERITED: Final = 3
_INHERITED: Final = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
# A process that checks whether a profile is served holds the profile's lock for a moment.
_LOOKERS_SECONDS: Final = 0.2
_LOOK_AGAIN_SECONDS: Final = 0.02
_MACOS_OPEN_MAX: Final = 10_240
_THREAD_LOOK_SECONDS: Final = 0.05
_start: Final = threading.Thread.start


def leave_starter() -> None:
    """Go on in a child process, so that the starter need not wait for its end."""
    if os.fork():
        os._exit(0)


def raise_open_files() -> int:
    """Raise the limit of open files as far as is allowed and useful; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return min(soft, OPEN_FILES_MAX) if soft != resource.RLIM_INFINITY else OPEN_FILES_MAX
    for each in (wanted, _MACOS_OPEN_MAX):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (each, hard))
        except (OSError, ValueError):
            # macOS reports no hard limit but refuses more than OPEN_MAX.
            continue
        return each
    return soft


def require_descriptors(files: Files, limit: int) -> None:
    """Raise StorageError unless a daemon can open a session while all its connections are taken."""
    needed = files.descriptors_used() + FREE_DESCRIPTORS_MIN
    if limit < needed:
        text = f"ulimit -n is {limit}, and a daemon needs {needed}: raise the limit"
        raise StorageError(text, errno="EMFILE")


def begin_or_refuse(thread: threading.Thread) -> None:
    """Start a thread that the end of the process does not wait for, in place of `Thread.start`.

    The loop waits for what is to be waited for; a look at a place that hangs would keep the process for good.
    Raise RuntimeError if the thread ends before it begins.

    `Thread.start` waits for ever for a thread that lacks the memory to begin (python/cpython#140746), and
    the event loop starts threads. What the thread is to call is let go of at its end: then nothing will begin.
    """
    if thread.ident is None:
        thread.daemon = True
    inner: dict[str, Any] = vars(thread)
    if "_started" not in inner:
        # A Python that has mended this has another way to wait.
        _start(thread)
        return
    begun: Any = inner["_started"]
    first: Any = partial(thread._bootstrap)  # type: ignore[attr-defined]  # noqa: SLF001
    wait, ended = begun.wait, ref(first)

    def wait_or_refuse() -> None:
        # From here on nothing but the new thread holds what it is to call.
        del inner["_bootstrap"]
        while not wait(_THREAD_LOOK_SECONDS):
            if ended() is None and not begun.is_set():
                vars(threading)["_limbo"].pop(thread, None)
                raise RuntimeError("can't start new thread")

    inner["_bootstrap"], begun.wait = first, wait_or_refuse
    del first
    try:
        _start(thread)
    finally:
        inner.pop("_bootstrap", None)
        del begun.wait


def take_profile(files: Files, layout: Layout, socket: Path | None) -> DaemonLock:
    """Become the daemon of the profile. Raise Held, StorageError."""
    layout.make_folders(files)
    end = time.monotonic() + _LOOKERS_SECONDS
    while True:
        try:
            return lock_daemon(files, layout, None if socket is None else os.fspath(socket))
        except Held:
            if time.monotonic() > end:
                raise
            time.sleep(_LOOK_AGAIN_SECONDS)


def listener_inherited(environ: MutableMapping[str, str]) -> Listening | None:
    """Return the socket that a service manager opened for this process. Raise CannotListen.

    The variables of the environment are for this process alone, so they are removed.
    """
    pid, count, _ = [environ.pop(name, "") for name in _INHERITED]
    if pid != str(os.getpid()):
        return None
    if count != "1":
        raise CannotListen(f"LISTEN_FDS is {count or 'empty'}: one listening Unix socket is needed")
    return listen_on_inherited(_FIRST_INHERITED)


def listener_at(path: Path) -> Callable[[], Listening]:
    """Return the function that listens on a socket of our own at a path."""

    def bind() -> Listening:
        if is_shared_folder(os.environ, path.parent):
            # Checked after it exists: another user may have made it first and would own its content.
            try:
                path.parent.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                what = f"cannot make the folder {path.parent}: {error.strerror}"
                raise CannotListen(what) from error
            require_private(path.parent)
        return listen(path)

    return bind
