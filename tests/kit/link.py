"""One blocking connection for tests that run a daemon as a process: no retries, no client library.

Law: a blocking socket with a bound on every wait; messages come out in the order
in which they came in.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final, Self

from tests.kit.patience import PATIENCE_SECONDS, soon_answered
from tests.kit.sessions import SESSION

__all__ = ["Link", "Refused", "request"]

_STUCK_SECONDS: Final = 0.5


class Refused(Exception):
    """An error answer, with the parts of its `error` member."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error
        self.code: int = error["code"]
        self.data: dict[str, Any] = error["data"]
        self.kind: str = error["data"]["kind"]


def request(id_: int | str | None, method: str, **params: Any) -> bytes:
    """One line; without an id it is a notification."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    if id_ is not None:
        body["id"] = id_
    return json.dumps(body).encode() + b"\n"


class Link:
    """A connected Unix socket that talks in lines."""

    def __init__(self, path: Path, *, alive: Callable[[], None] | None = None) -> None:
        """Connect at once; with `alive`, once the process listens that `alive` finds running."""
        self._socket = _connected(path) if alive is None else _connected_once_up(path, alive)
        self._alive = alive
        self._received = b""
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def end_input(self) -> None:
        """Send no more."""
        self._socket.shutdown(socket.SHUT_WR)

    def line(self) -> bytes | None:
        """The next line; None when the daemon has closed the connection."""
        while b"\n" not in self._received:
            data = self._receive()
            if not data:
                assert not self._received, "the connection ended inside a line"
                return None
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line

    def has_more(self, within: float = 0) -> bool:
        """Return whether unread data has come, or comes within so many seconds."""
        return bool(self._received or select.select([self._socket], [], [], within)[0])

    def message(self) -> dict[str, Any]:
        """Return the next message."""
        line = self.line()
        if line is None and self._alive is not None:
            # A process that ended says more than a connection that did; it is reaped a moment later.
            time.sleep(_STUCK_SECONDS)
            self._alive()
        assert line is not None, "the daemon closed the connection"
        message: dict[str, Any] = json.loads(line)
        return message

    def rest(self) -> bytes:
        """Return all bytes up to the end of the connection."""
        parts = [self._received]
        self._received = b""
        while data := self._receive():
            parts.append(data)
        return b"".join(parts)

    def flood(self, data: bytes, total: int) -> int:
        """Send this again and again and read nothing, until `total` or until nothing is taken."""
        self._socket.settimeout(_STUCK_SECONDS)
        sent = 0
        try:
            while sent < total:
                sent += self._socket.send(data)
        except TimeoutError:
            return sent
        finally:
            self._socket.settimeout(PATIENCE_SECONDS)
        return sent

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(1 << 20)
        except ConnectionResetError:
            return b""

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a call; notifications before it are passed over. Raises Refused."""
        self._last_id += 1
        self.send(request(self._last_id, method, **params))
        return self.answer(self._last_id)

    def answer(self, id_: int | str | None) -> Any:
        """The result of a request that was sent. Raises Refused."""
        while True:
            message = self.message()
            if "method" not in message and message["id"] == id_:
                break
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]

    def answers(self, ids: Collection[int | str]) -> list[dict[str, Any]]:
        """Return the answers to requests that were sent, or those that came before the connection ended."""
        found: list[dict[str, Any]] = []
        waiting = {*ids}
        while waiting:
            try:
                message = self.message()
            except AssertionError:
                break  # the end may come inside a line
            if "method" not in message:
                found.append(message)
                waiting.discard(message["id"])
        return found

    def refusal(self, method: str, **params: Any) -> Refused:
        """Return the refusal of a call; fail if it is not refused."""
        try:
            result = self.ask(method, **params)
        except Refused as refused:
            return refused
        raise AssertionError(f"{method} was not refused: {result}")

    def event(self) -> dict[str, Any]:
        """Return the params of the next event; all that comes before it is passed over."""
        while (message := self.message()).get("method") != "session/event":
            pass
        params: dict[str, Any] = message["params"]
        return params

    def create(
        self, *texts: str, session_id: str = SESSION, persist: str = "immediate", **more: Any
    ) -> Any:
        """Create a session in /p, which is stored at once unless `persist` says otherwise.

        Append these messages to it, and return the answer to the creation.
        """
        where = {"cwd": "/p", "session_id": session_id, "persist": persist}
        created = self.ask("session/create", **(where | more))
        for text in texts:
            self.say(session_id, text)
        return created

    def listed(self, **filters: Any) -> list[dict[str, Any]]:
        """Return the rows of a list of sessions, page by page to its end."""
        page = self.ask("session/list", **filters)
        found: list[dict[str, Any]] = page["sessions"]
        while page["next_cursor"] is not None:
            page = self.ask("session/list", **filters, cursor=page["next_cursor"])
            found += page["sessions"]
        return found

    def say(self, session_id: str, content: str, **params: Any) -> Any:
        """Append one message."""
        message = {"role": "user", "content": content}
        return self.ask("session/append", session_id=session_id, message=message, **params)

    def contents(self, session_id: str) -> list[str]:
        """The content of every message of a session, in order of seq."""
        page = self.ask("session/entries", session_id=session_id, limit=10_000)
        assert page["next_seq"] is None
        return [row["entry"]["message"]["content"] for row in page["entries"]]


def _connected(path: Path) -> socket.socket:
    """Return a connected socket."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(PATIENCE_SECONDS)
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        raise
    return sock


def _connected_once_up(path: Path, alive: Callable[[], None]) -> socket.socket:
    """Return a connected socket as soon as a process listens."""

    def passes(error: Exception) -> bool:
        alive()
        return isinstance(error, OSError)

    return soon_answered(lambda: _connected(path), passes)
