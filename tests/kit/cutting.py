"""A socket between a client and a daemon, which cuts the connection where a test says."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

__all__ = ["CuttingProxy"]

Json = dict[str, Any]


class CuttingProxy:
    """A listener that passes lines on to a daemon, and notes the requests that it saw.

    `cuts` names methods whose answer is not passed on: the connection is closed instead. `refusals`
    has errors for methods that are answered here. Each holds for one request.
    """

    def __init__(self, path: Path, daemon: Path) -> None:
        self.path = path
        self.cuts: list[str] = []
        self.refusals: dict[str, Json] = {}
        self.seen: list[str] = []
        """Methods of requests and notifications, in their order."""
        self._daemon = daemon
        self._listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Self:
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Closing alone does not end an accept that waits.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                daemon = socket.socket(socket.AF_UNIX)
                daemon.connect(str(self._daemon))
                threading.Thread(target=_Pair(self, client, daemon).run, daemon=True).start()


class _Pair:
    """One connection of a client, and the one to the daemon behind."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket, daemon: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._daemon = daemon
        self._cut_id: int | None = None

    def run(self) -> None:
        answers = threading.Thread(target=self._pass_answers, daemon=True)
        answers.start()
        self._pass_requests()
        answers.join()
        self._client.close()
        self._daemon.close()

    def _pass_requests(self) -> None:
        proxy = self._proxy
        with suppress(OSError), self._client.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                method = message.get("method", "")
                proxy.seen.append(method)
                if (refusal := proxy.refusals.pop(method, None)) is not None:
                    answer = {"jsonrpc": "2.0", "id": message["id"], "error": refusal}
                    self._client.sendall(json.dumps(answer).encode() + b"\n")
                    continue
                if method in proxy.cuts:
                    proxy.cuts.remove(method)
                    self._cut_id = message["id"]
                self._daemon.sendall(line)
        self._end()

    def _pass_answers(self) -> None:
        with suppress(OSError), self._daemon.makefile("rb") as lines:
            for line in lines:
                if self._cut_id is not None and json.loads(line).get("id") == self._cut_id:
                    break
                self._client.sendall(line)
        self._end()

    def _end(self) -> None:
        for one in (self._client, self._daemon):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
