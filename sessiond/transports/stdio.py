"""Stdin and stdout of the own process as one connection.

Law: while the connection lasts, only the protocol reaches the real stdout. The descriptors are
moved away first; an empty input and stderr take their places, so a stray print, of ours or of a
child process, ends up in the log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from sessiond.transports.base import FdPort, Port

_STDIN, _STDOUT, _STDERR = 0, 1, 2


@contextmanager
def stdio_port() -> Generator[FdPort]:
    """Yield a port over stdin and stdout; put both back afterwards."""
    sys.stdout.flush()
    python_stdout = sys.stdout
    # Both copies first: a standard descriptor that is closed must not be filled by chance.
    read_fd, write_fd = os.dup(_STDIN), os.dup(_STDOUT)
    port = FdPort(read_fd, write_fd)
    kept = os.dup(read_fd), os.dup(write_fd)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, _STDIN)
    os.close(nothing)
    os.dup2(_STDERR, _STDOUT)
    sys.stdout = sys.stderr
    try:
        yield port
    finally:
        port.close()
        sys.stderr.flush()
        sys.stdout = python_stdout
        for fd, place in zip(kept, (_STDIN, _STDOUT), strict=True):
            os.dup2(fd, place)
            os.close(fd)


async def serve_stdio(serve: Callable[[Port], Awaitable[None]]) -> None:
    """Serve one connection over stdin and stdout until it ends."""
    with stdio_port() as port:
        await serve(port)
