"""`sessiond` commands as forks of one process that has loaded their modules: less than half the time of a start.

A command is a process of its own, with the arguments, folder, environment, umask and streams of its caller. What
it has not is a start: that is for tests of `make search`, which run the same tests with whole commands, and for
tests that start `sessiond` by its path.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import inspect
import io
import marshal
import os
import pkgutil
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import sessiond.cli
import sessiond.cli.commands

__all__ = ["Fork", "commands_of_forks", "serve"]

_STREAMS: Final = (0, 1, 2)
_LATER: Final = (
    *("sessiond.daemon.daemon", "sessiond.daemon.process", "sessiond.daemon.process_log"),
    *("anyio._backends._asyncio", "anyio.streams.tls"),
)
"""Modules that commands load where they need them."""
_LAUNCHER: Final = """\
#!{python} -ISs
from __future__ import annotations
import array, marshal, os, signal, socket, sys
{ask}
streams = []
for number in (0, 1, 2):
    try:
        os.fstat(number)
        streams.append(number)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # the number is taken: the door must not get it
os.umask(mask := os.umask(0))
door, command = ask({door!r}, (sys.argv, dict(os.environb), mask, streams), streams)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, lambda number, _: os.kill(command, number))
status = int.from_bytes(door.recv(4, socket.MSG_WAITALL), "big", signed=True)
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


def ask(path: str, command: tuple[Any, ...], streams: list[int]) -> tuple[socket.socket, int]:
    """Ask for a command in this folder; return where its end will be told, and its pid.

    A command is its arguments, its environment in bytes, its umask, and the numbers of its standard streams, which
    are these descriptors; it has no others.
    """
    door = socket.socket(socket.AF_UNIX)
    door.connect(path)
    asked = marshal.dumps(command)
    folder = os.open(".", os.O_RDONLY)
    given = array.array("i", [folder, *streams])
    door.sendmsg([len(asked).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)])
    os.close(folder)
    door.sendall(asked)
    return door, int.from_bytes(door.recv(4, socket.MSG_WAITALL), "big")


class Fork:
    """A command that this process has asked for, with the surface of a `subprocess.Popen`."""

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        output: int,
        *,
        umask: int,
    ) -> None:
        """Start a command of `commands_of_forks`: its standard output and standard error are `output`."""
        self._returncode: int | None = None
        encoded = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a device
            streams = [nothing.fileno(), output, output]
            command = ([program, *arguments], encoded, umask, [*_STREAMS])
            self._told, self.pid = ask(str(_door(program)), command, streams)

    def poll(self) -> int | None:
        """Return the exit code, or None while the command runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._returncode

    def wait(self, seconds: float | None = None) -> int:
        """Return the exit code; negative, it is the number of a signal. Raises TimeoutExpired."""
        if self._returncode is None:
            self._told.settimeout(seconds)
            try:
                status = self._told.recv(4, socket.MSG_WAITALL)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("sessiond", seconds or 0) from None
            self._told.close()
            self._returncode = int.from_bytes(status, "big", signed=True)
        return self._returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if the command runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the command."""
        self.send_signal(signal.SIGKILL)


def _door(program: str | Path) -> Path:
    """Return the socket at which the server of a program listens."""
    return Path(program).with_name("door")


@contextmanager
def commands_of_forks(folder: Path) -> Iterator[str]:
    """Serve commands; yield the path of a program that stands for `sessiond`."""
    program = folder / "sessiond"
    door = _door(program)
    launcher = _LAUNCHER.format(python=sys.executable, ask=inspect.getsource(ask), door=str(door))
    program.write_text(launcher)
    program.chmod(0o700)
    server = subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve({str(door)!r})"],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield str(program)
        server.stdin.close()


def serve(path: str) -> None:
    """Fork a command for each caller, and tell the caller its end, until standard input ends."""
    for module in pkgutil.walk_packages(sessiond.cli.__path__, "sessiond.cli."):
        importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen(128)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        _Forks(door).run()


class _Forks:
    """The commands that run, and their callers."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._callers: dict[int, socket.socket] = {}
        self._is_over = False
        self._woken, self._wakes = socket.socketpair()
        for one in (self._woken, self._wakes):
            one.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakes.fileno())
        self._watched = selectors.DefaultSelector()
        for source, act in (
            (door, self._accept),
            (self._woken, self._reap),
            (sys.stdin, self._end),
        ):
            self._watched.register(source, selectors.EVENT_READ, act)

    def run(self) -> None:
        while not self._is_over:
            # What was abandoned has ended before a command begins that may need its socket or its lock.
            for key, _ in sorted(
                self._watched.select(), key=lambda one: one[0].data == self._accept
            ):
                key.data()

    def _end(self) -> None:
        self._is_over = True

    def _accept(self) -> None:
        caller, _ = self._door.accept()
        # A caller may be killed before it has asked.
        with suppress(OSError, EOFError):
            pid = _forked(caller)
            self._callers[pid] = caller
            self._watched.register(caller, selectors.EVENT_READ, partial(self._abandon, pid))
            caller.sendall(pid.to_bytes(4, "big"))

    def _abandon(self, pid: int) -> None:
        """Kill a command whose caller was killed: a caller sends nothing behind its question."""
        # The command may have ended at the same moment, and been reaped just before.
        if pid in self._callers:
            caller = self._callers.pop(pid)
            self._watched.unregister(caller)
            caller.close()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _reap(self) -> None:
        """Tell the callers of commands that have ended."""
        self._woken.recv(4096)
        for pid, status in _ended():
            caller = self._callers.pop(pid)
            with caller, suppress(OSError, KeyError):
                self._watched.unregister(caller)
                caller.sendall(status.to_bytes(4, "big", signed=True))


def _ended() -> Iterator[tuple[int, int]]:
    """Yield the commands that have ended, each with its exit code, or with the negative number of a signal."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def _forked(caller: socket.socket) -> int:
    """Fork the command that a caller asks for; return its pid."""
    room = socket.CMSG_SPACE((1 + len(_STREAMS)) * array.array("i").itemsize)
    head, ancillary, _, _ = caller.recvmsg(4, room, socket.MSG_WAITALL)
    asked = marshal.loads(caller.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
    given = array.array("i")
    for _, _, data in ancillary:
        given.frombytes(data)
    pid = os.fork()
    if pid == 0:
        _become(asked, [*given])
    for descriptor in given:
        os.close(descriptor)
    return pid


def _become(asked: Any, given: list[int]) -> NoReturn:
    """Run a command in this process, and end."""
    arguments, environment, mask, numbers = asked
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        folder, *streams = given
        os.fchdir(folder)
        for number in _STREAMS:
            os.close(number)
        for number, descriptor in zip(numbers, streams, strict=True):
            os.dup2(descriptor, number)
        # Nothing of the server but these streams.
        os.closerange(3, max(64, *given) + 64)
        os.umask(mask)
        os.environb.clear()
        os.environb.update(environment)
        random.seed()
        sys.argv = arguments
        sys.stdin, sys.stdout, sys.stderr = (
            _stream(number) if number in numbers else None for number in _STREAMS
        )
        code = _exit_code(sessiond.cli.main)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        # As Python says that a stream could not be flushed.
        code = 120
    finally:
        os._exit(code)


def _stream(number: int) -> io.TextIOWrapper:
    """Return a standard stream as Python makes it at a start."""
    if number == 0:
        return io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), "utf-8")
    raw = io.BufferedWriter(io.FileIO(number, "w"))
    errors = "backslashreplace" if number == 2 else "strict"
    lines = number == 2 or os.isatty(number)
    return io.TextIOWrapper(raw, "utf-8", errors, line_buffering=lines)


def _exit_code(main: Any) -> int:
    """Run a program; return the status with which Python would end."""
    try:
        main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException:  # noqa: BLE001 - whatever ends a program is printed
        traceback.print_exc()
        return 1
    return 0
