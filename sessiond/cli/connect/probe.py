"""Whether a daemon is there, and one question to it.

Law: nothing here starts or ends a daemon, and nothing of the service is imported:
`sessiond stdio` goes through here each time an editor opens.
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

from sessiond.cli.ui.failures import Failure
from sessiond.daemon.exit_status import Status
from sessiond_client.place import address

if TYPE_CHECKING:
    from sessiond.journal.profile.holder import Holder
    from sessiond.journal.profile.layout import Layout

__all__ = [
    "About",
    "Serving",
    "about",
    "ask",
    "connect",
    "require_own",
    "who_serves",
]

_LOOK_AGAIN_SECONDS: Final = 0.01


def connect(path: Path, seconds: float | None) -> socket.socket | None:
    """A connection with that timeout; None when nobody listens. Raises OSError for what is odd."""
    require_own(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds)
        with address(path) as name:
            _connect(sock, name, inf if seconds is None else time.monotonic() + seconds)
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        return None
    except OSError as error:
        sock.close()
        error.filename = os.fspath(path)
        raise
    return sock


def require_own(path: Path) -> None:
    """Raise Failure for a socket of another user, whose daemon answers its own user only."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return
    if owner != os.geteuid():
        what = (
            f"{path} is the socket of another user (uid {owner}), whose daemon answers nobody else"
        )
        then = "run it as that user, or give a socket of your own with --socket"
        raise Failure(what, then, Status.NO_DAEMON, {"kind": "no_daemon"})


def _connect(sock: socket.socket, name: str, end: float) -> None:
    while True:
        try:
            return sock.connect(name)
        except BlockingIOError:
            # As many as may wait to be accepted do, and nothing says when one was.
            if time.monotonic() > end:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
            time.sleep(_LOOK_AGAIN_SECONDS)


def ask(path: Path, method: str, *, seconds: float) -> dict[str, Any] | None:
    """The answer to a question without parameters; None when nobody listens, or hangs up.

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
    """What a daemon says of itself."""

    pid: int
    profile: str
    folder: Path
    """The profile's."""
    version: str
    instance_id: str
    started_at: str

    @property
    def home(self) -> Path:
        """The home that the profile is in."""
        return self.folder.parent.parent


def about(path: Path, seconds: float) -> About | None:
    """Who listens; None if nobody does. Raises OSError (TimeoutError), Failure."""
    info = ask(path, "server/info", seconds=seconds)
    if info is None:
        return None
    return About(
        pid=info["pid"],
        profile=info["profile"],
        folder=Path(info["data_folder"]),
        version=info["version"],
        instance_id=info["instance_id"],
        started_at=info["started_at"],
    )


class Serving(NamedTuple):
    """A process that holds a profile; what it left on record may be missing."""

    holder: Holder | None

    def __str__(self) -> str:
        if self.holder is None:
            return "another daemon"
        return f"the daemon with pid {self.holder.pid}, there since {self.holder.since},"

    @property
    def place(self) -> str:
        """Where it can be talked to, in words."""
        if self.holder is None or self.holder.socket is None:
            return "listens on no socket"
        return f"listens on {self.holder.socket}"


def who_serves(layout: Layout) -> Serving | None:
    """The process that is the profile's daemon now; None if there is none. Raises OSError."""
    from sessiond.journal.disk.files import Files
    from sessiond.journal.profile.holder import read_holder

    files = Files()
    try:
        descriptor = files.open_read(layout.daemon_lock)
    except FileNotFoundError:
        return None
    try:
        # Shared, so that two who look do not take each other for a daemon.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return Serving(read_holder(files, descriptor, layout.locks))
    else:
        return None
    finally:
        files.close(descriptor)
