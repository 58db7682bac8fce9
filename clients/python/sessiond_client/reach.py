"""The way to a connection: a socket, and a daemon that is started where none listens.

Law: `sessiond start` does the work, and it is safe to run twice at once: it joins a daemon that
runs, waits for one that ends, and of many only one starts. So a client keeps no lock.

    $SESSIOND_COMMAND                                   split as a shell does
    python -P -m sessiond                               if it is installed beside this client
    sessiond                                            from the PATH
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from sessiond_client.connect_options import ConnectOptions
from sessiond_client.limits import LAST_WORDS_BYTES, READ_BYTES, START_SECONDS
from sessiond_client.peer import require_own_peer
from sessiond_client.place import socket_place

__all__ = ["Port", "Reach", "Start", "start_command", "way_to"]

# What connecting fails with where a start may help.
_NOBODY_LISTENS: Final = (FileNotFoundError, ConnectionRefusedError)


class Port:
    """One connection to the daemon, a socket that never blocks. Who waits is decided elsewhere."""

    def __init__(self, path: str | os.PathLike[str], peer_uid: int | None = None) -> None:
        """Connect, at once or not at all.

        Raises OSError (BlockingIOError: its queue is full), and ForeignSocket.
        """
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.settimeout(0)
            with require_own_peer(self.socket, path, peer_uid) as name:
                self.socket.connect(name)
        except BaseException:
            self.socket.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self.socket.fileno()

    def receive(self) -> bytes | None:
        """Return the bytes that have come: None = none yet, b"" = the daemon closed."""
        try:
            return self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return None

    def send(self, buffers: Sequence[memoryview]) -> int:
        """Send bytes; return how many the kernel took, 0 = none for now."""
        try:
            return self.socket.sendmsg(buffers)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()


def start_command(
    environ: Mapping[str, str],
    *,
    socket: str | os.PathLike[str] | None,
    profile: str | None,
    home: str | os.PathLike[str] | None,
) -> list[str]:
    """Return the command to run. Raises FileNotFoundError if there is no sessiond on this machine."""
    if own := environ.get("SESSIOND_COMMAND"):
        command = shlex.split(own)
    elif all(map(importlib.util.find_spec, ("sessiond", "click"))):
        # Without its dependencies, such as click, sessiond is the client alone.
        # -P: a folder of that name where the program was started is not taken for it.
        command = [sys.executable, "-P", "-m", "sessiond"]
    elif found := shutil.which("sessiond", path=environ.get("PATH")):
        command = [found]
    else:
        text = "there is no sessiond to start: install it, or name it in SESSIOND_COMMAND"
        raise FileNotFoundError(text)
    flags = {"--socket": socket, "--profile": profile, "--home": home}
    told = [part for flag, value in flags.items() if value for part in (flag, os.fspath(value))]
    return [*command, "start", "--json", *told]


class Start:
    """The command while it runs, in a thread, for starting a process may block. Readable at its end."""

    def __init__(
        self, command: Callable[[], Sequence[str]], environ: Mapping[str, str], *, until: float
    ) -> None:
        """`until` is when to give up."""
        self.until = until
        self.has_ended = False
        self._environ = environ
        self._failure: OSError | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        self._readable, self._ended = os.pipe()
        threading.Thread(target=self._run, args=(command,), daemon=True).start()

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._readable

    def finish(self) -> None:
        """End the start, done or too slow. Raises OSError if the start left no daemon."""
        self.close()
        if not self.has_ended:
            raise TimeoutError("sessiond was not started in time")
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End the command if it still runs; a daemon that it started goes on."""
        with self._lock:
            self._is_closed = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
        os.close(self._readable)

    def leave_to_parent(self) -> None:
        """Let go of the command of the process that this one was forked from."""
        os.close(self._readable)
        if not self.has_ended:
            os.close(self._ended)

    def _run(self, command: Callable[[], Sequence[str]]) -> None:
        try:
            self._failure = self._outcome(command())
        except OSError as error:
            self._failure = error
        self.has_ended = True
        os.close(self._ended)

    def _outcome(self, command: Sequence[str]) -> OSError | None:
        with self._lock:
            if self._is_closed:
                return None
            self._process = subprocess.Popen(  # noqa: S603 - the user's own program
                command,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        said, _ = self._process.communicate()
        if self._process.returncode == 0:
            return None
        lines = said[-LAST_WORDS_BYTES:].decode("utf-8", "replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "no reason given")
        text = f"sessiond was not started (status {self._process.returncode}): {last}"
        return ChildProcessError(text)


class Reach:
    """The way to a connection: connect, and start a daemon where none listens, once a try."""

    def __init__(
        self,
        connect: Callable[[], Port],
        launch: Callable[[float], Start] | None,
        *,
        only_again: bool = False,
    ) -> None:
        """`launch` starts a daemon and gives up at a given time; None = only join one.

        With `only_again` the daemon of the first connection is not started.
        """
        self._connect = connect
        self._launch = launch
        self._may_launch = not only_again
        self._start: Start | None = None

    @property
    def is_starting(self) -> bool:
        """True while a start is under way."""
        return self._start is not None

    def go_on(self, now: float) -> Port | Start:
        """Return a connection, or the start to wait for.

        Raises OSError: this try has failed. Raises ForeignSocket: the next one will fail, too.
        """
        if self._start is None:
            try:
                port = self._connect()
            except _NOBODY_LISTENS:
                if self._launch is None or not self._may_launch:
                    raise
                self._start = self._launch(now + START_SECONDS)
            else:
                self._may_launch = True
                return port
        start = self._start
        if not start.has_ended and now < start.until:
            return start
        self._start = None
        start.finish()
        return self._connect()

    def leave_to_parent(self) -> None:
        """Forget a start of the process that this one was forked from: its command goes on."""
        if self._start is not None:
            self._start.leave_to_parent()
            self._start = None

    def close(self) -> None:
        """End a start that is under way."""
        if self._start is not None:
            self._start.close()
            self._start = None


class MakeReach(Protocol):
    """Function that makes the way of one connection: of a client's calls, or of a stream."""

    def __call__(self, *, for_calls: bool = False) -> Reach:
        """Return a new way."""
        ...


def way_to(socket_path: str | os.PathLike[str] | None, options: ConnectOptions) -> MakeReach:
    """Return what makes the way of one connection, for every connection of a client."""
    profile, home = options.get("profile"), options.get("home")
    # Said once: a change of the environment does not lead a client to another daemon.
    environ = dict(os.environ)
    place = socket_place(environ, socket=socket_path, profile=profile, home=home)

    def launch(until: float) -> Start:
        command = partial(start_command, environ, socket=socket_path, profile=profile, home=home)
        return Start(command, environ, until=until)

    may_start = options.get("start", socket_path is None)
    port = partial(Port, place, options.get("peer_uid"))

    def reach(*, for_calls: bool = False) -> Reach:
        starts = may_start or (for_calls and options.get("restart", False))
        return Reach(port, launch if starts else None, only_again=not may_start)

    return reach
