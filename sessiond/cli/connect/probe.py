"""Contact with a daemon: whether one listens, and one question to it.

Law: no function here starts or ends a daemon, and no part of the service is imported: each start
of an editor runs `sessiond stdio`, which runs this module.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from contextlib import closing
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sessiond.cli.ui.failure import Failure
from sessiond.daemon.exit_status import Status
from sessiond_client.peer import ForeignSocket, require_own_peer

if TYPE_CHECKING:
    from sessiond.journal.profile.holder import Holder
    from sessiond.journal.profile.layout import Layout

_LOOK_AGAIN_SECONDS: Final = 0.01


def connect(path: Path, seconds: float | None) -> socket.socket | None:
    """Return a connection with that timeout; None if no daemon listens.

    Raise Failure for a socket of another user, and OSError for other failures.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds)
        with require_own_peer(sock, path) as name:
            _connect(sock, name, inf if seconds is None else time.monotonic() + seconds)
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        return None
    except ForeignSocket as error:
        sock.close()
        raise failure_of(error) from error
    except OSError as error:
        sock.close()
        error.filename = os.fspath(path)
        raise
    return sock


def failure_of(refusal: ForeignSocket) -> Failure:
    """Return the failure for a socket of another user, whose daemon answers its own user only."""
    what = f"{refusal.what}; a daemon answers its own user only"
    then = "run the command as that user, or give a socket of your own with --socket"
    return Failure(what, then, Status.NO_DAEMON, {"kind": "no_daemon"})


def _connect(sock: socket.socket, name: str, end: float) -> None:
    while True:
        try:
            return sock.connect(name)
        except BlockingIOError:
            # The accept queue is full, and the system has no event for a free place.
            if time.monotonic() > end:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
            time.sleep(_LOOK_AGAIN_SECONDS)


def ask_once(path: Path, method: str, *, seconds: float) -> dict[str, Any] | None:
    """Return the answer to a call without parameters; None if no daemon listens, or it hangs up.

    Raises OSError (TimeoutError), and Failure for an error answer.
    """
    import json

    sock = connect(path, seconds)
    if sock is None:
        return None
    with closing(sock), sock.makefile("rb") as lines:
        try:
            sock.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode() + b"\n")
            for line in lines:
                message = json.loads(line)
                if message.get("id") == 1:
                    break
            else:
                return None
        except (BrokenPipeError, ConnectionResetError):
            return None
    if "error" in message:
        raise Failure(message["error"]["message"], "see the log of the daemon")
    answer: dict[str, Any] = message["result"]
    return answer


class About(NamedTuple):
    """Facts that a daemon reports about itself."""

    pid: int
    profile: str
    folder: Path
    """Folder of the profile."""
    version: str
    build: str
    instance_id: str
    started_at: str

    @property
    def home(self) -> Path:
        """Home that holds the profile."""
        return self.folder.parent.parent


def about(path: Path, seconds: float) -> About | None:
    """Return the facts of the listening daemon; None if none listens. Raise OSError (TimeoutError), Failure."""
    info = ask_once(path, "server/info", seconds=seconds)
    if info is None:
        return None
    return About(
        pid=info["pid"],
        profile=info["profile"],
        folder=Path(info["data_folder"]),
        version=info["version"],
        build=info.get("build", ""),
        instance_id=info["instance_id"],
        started_at=info["started_at"],
    )


class Serving(NamedTuple):
    """Process that holds a profile; its holder record may be missing."""

    holder: Holder | None

    def __str__(self) -> str:
        return "another daemon" if self.holder is None else str(self.holder)

    @property
    def place(self) -> str:
        """Words for the address on which the process listens."""
        if self.holder is None or self.holder.socket is None:
            return "listens on no socket"
        return f"listens on {self.holder.socket}"


def who_serves(layout: Layout) -> Serving | None:
    """Return the process that serves the profile now; None if there is none. Raise OSError."""
    from sessiond.journal.disk.files import Files
    from sessiond.journal.profile.holder import read_holder

    files = Files()
    try:
        descriptor = files.open_read(layout.daemon_lock)
    except FileNotFoundError:
        return None
    try:
        # A shared lock, so that two checking processes do not take each other for a daemon.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return Serving(read_holder(files, descriptor, layout.locks))
    else:
        return None
    finally:
        files.close(descriptor)
