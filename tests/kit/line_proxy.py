"""A socket between a client and a daemon, through which lines pass as a test says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["Cut", "Pass", "line_proxy", "unchanged"]

Pass = Callable[[bytes], list[bytes]]
"""Function that returns the lines to send for a line; raises Cut to end the connection."""


class Cut(Exception):
    """The end of a connection, instead of a line."""


def unchanged(line: bytes) -> list[bytes]:
    """Pass a line on as it is."""
    return [line]


@contextmanager
def line_proxy(
    path: Path, daemon: Path, *, requests: Pass = unchanged, answers: Pass = unchanged
) -> Iterator[None]:
    """Serve a socket at `path` that passes lines to the daemon and back."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(str(path))
        listener.listen()
        ends, threads = [listener], list[threading.Thread]()

        def accept() -> None:
            with suppress(OSError):  # the end of the block closes the listener
                while True:
                    client, _ = listener.accept()
                    stack.enter_context(client)
                    server = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                    server.connect(str(daemon))
                    ends.extend((client, server))
                    start(_forward, client, server, requests)
                    start(_forward, server, client, answers)

        def start(job: Callable[..., None], *arguments: object) -> None:
            threads.append(threading.Thread(target=job, args=arguments))
            threads[-1].start()

        start(accept)
        try:
            yield
        finally:
            _shut_down(*ends)
            for thread in threads:
                thread.join(PATIENCE_SECONDS)


def _forward(source: socket.socket, target: socket.socket, through: Pass) -> None:
    """Pass lines on until one of the two ends is gone; then close both."""
    with source.makefile("rb") as lines, suppress(OSError, Cut):
        for line in lines:
            for out in through(line):
                target.sendall(out)
    _shut_down(source, target)


def _shut_down(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
