"""A proxy for a Unix socket that cuts connections in the middle of their bytes.

    python -m tests.torture.proxy LISTENING SOCKET LOG SEED

Most connections have a budget of bytes, for both directions together. At its end both sides are
cut, anywhere in a frame. The proxy ends with its standard input.
"""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from tests.torture.records import Closed, Connected, Log, now

__all__ = ["begin"]

CHUNK: Final = 1 << 16
SPARED_SHARE: Final = 0.2
BYTES_MAX: Final = 400_000


class _Pair:
    """A connection through the proxy, and the rest of its byte budget."""

    def __init__(self, client: socket.socket, daemon: socket.socket, budget: int) -> None:
        self._sides = (client, daemon)
        self._budget = budget
        self._lock = threading.Lock()

    def run(self) -> str:
        """Pass bytes on until the connection ends; gives whether it was "cut" or "ended"."""
        client, daemon = self._sides
        back = threading.Thread(target=self._pass_on, args=(daemon, client), daemon=True)
        back.start()
        self._pass_on(client, daemon)
        back.join()
        for side in self._sides:
            side.close()
        return "cut" if self._budget <= 0 else "ended"

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        """Pass on one direction; its end ends the other direction, too."""
        try:
            while data := source.recv(CHUNK):
                with self._lock:
                    data = data[: max(0, self._budget)]
                    self._budget -= len(data)
                target.sendall(data)
                if self._budget <= 0:
                    break
        except OSError:
            pass
        for side in self._sides:
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


def begin(listening: Path, target: Path, seed: float, log: Log) -> socket.socket:
    """Serve in a thread of this process, until the listening socket is closed; return that socket."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(listening))
    listener.listen(64)
    words = (listener, str(target), log, Random(seed))
    threading.Thread(target=serve, args=words, daemon=True).start()
    return listener


def serve(listener: socket.socket, target: str, log: Log, chance: Random) -> None:
    """Take connections until the socket is closed."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        daemon = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            daemon.connect(target)
        except OSError:
            daemon.close()
            client.close()
            continue
        spared = chance.random() < SPARED_SHARE
        budget = 1 << 60 if spared else int(BYTES_MAX ** chance.uniform(0.3, 1.0))
        log.add(Connected(now(), "proxy", "proxy"))

        def run(pair: _Pair) -> None:
            log.add(Closed(now(), "proxy", "", pair.run()))

        pair = _Pair(client, daemon, budget)
        threading.Thread(target=run, args=(pair,), daemon=True).start()


def main() -> None:
    listening, target, log, seed = sys.argv[1:]
    begin(Path(listening), Path(target), int(seed), Log(Path(log)))
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
