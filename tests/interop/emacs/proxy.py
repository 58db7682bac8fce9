"""A socket between Emacs and the daemon."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.interop.emacs.editor import Editor, quoted
from tests.interop.test_stubs import said
from tests.processes.harness.daemon import SESSIOND


class Proxy:
    """A socket between Emacs and the daemon: it counts bytes, and may swallow answers."""

    def __init__(self, place: Path, daemon: str) -> None:
        self._daemon = daemon
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen()
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self.bytes_sent = 0
        self.swallow = b""
        self.refuse = False
        self.cuts = 0
        self._run(self._accept)

    def _run(self, target: Callable[..., None], *sockets: socket.socket) -> None:
        thread = threading.Thread(target=target, args=sockets)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return
            if self.refuse:
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            self._sockets += [near, far]
            far.connect(self._daemon)
            self._run(self._requests, near, far)
            self._run(self._answers, near, far)

    def _requests(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := near.recv(65536):
                self.bytes_sent += len(data)
                far.sendall(data)
            far.shutdown(socket.SHUT_RDWR)

    def _answers(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := far.recv(65536):
                if self.swallow and self.swallow in data:
                    self.swallow = b""
                    self.cuts += 1
                    break
                near.sendall(data)
            near.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End the connections and the threads."""
        for one in list(self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()


@contextmanager
def through_a_proxy(editor: Editor, place: Path, environment: Mapping[str, str]) -> Iterator[Proxy]:
    """Put a proxy between Emacs and the daemon."""
    daemon = said([SESSIOND, "start", "--json"], environment)["socket"]
    proxy = Proxy(place / "proxy", daemon)
    editor.eval(f'(setenv "SESSIOND_SOCKET" {quoted(str(place / "proxy"))})')
    try:
        yield proxy
    finally:
        proxy.end()
