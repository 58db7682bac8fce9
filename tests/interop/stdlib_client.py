"""A client of sessiond in one file: standard library only, written from protocol.md alone.

    with Client("/run/user/1000/sessiond/default.sock") as client:
        session_id = client.call("session/create", cwd="/my/project")["session"]["id"]
        client.append(session_id, message={"role": "user", "content": "hi"})
        for event in client.subscribe(session_id, after={"seq": 0}):
            print(event["params"]["seq"])

Law: an append has its ids before it is first sent and is sent again with them until it is
answered for good. A subscription goes on behind its last event on the next connection.
"""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

Json = dict[str, Any]
T = TypeVar("T")

WAIT_SECONDS = 30.0
RETRY_SECONDS = 0.05


class Refused(Exception):
    """The daemon said no. Decide by `kind`."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['data']['kind']}: {error['message']}")
        self.error = error
        self.kind: str = error["data"]["kind"]
        # Whoever has the head may keep it for long: to wait is for session/acquire.
        self.is_final: bool = not error["data"]["retryable"] or self.kind == "lease_held"
        self.retry_seconds = error["data"].get("retry_after_ms", 0) / 1000


class Spelled(float):
    """A number with a fraction, and how it was spelled: payloads keep it."""

    def __init__(self, text: str) -> None:
        self.text = text


def write(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{" + ",".join(f"{json.dumps(key)}:{write(item)}" for key, item in value.items()) + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(write, value)) + "]"
    return value.text if isinstance(value, Spelled) else json.dumps(value)


class Connection:
    """A connection: newline-delimited JSON both ways, with answers found by their ids."""

    def __init__(self, path: str, hello: Json) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(WAIT_SECONDS)
        self._input = self._socket.makefile("rb")
        self._last_id = 0
        self._answers: dict[int, Json] = {}
        self._flushes: dict[int, str] = {}
        self.told: deque[Json] = deque()  # unasked, in its order
        try:
            self._socket.connect(path)
            if hello:
                self.answer(self.send("initialize", hello))
        except BaseException:
            self.close()
            raise

    def send(self, method: str, params: Json) -> int:
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._socket.sendall(write(request).encode() + b"\n")
        return self._last_id

    def answer(self, request_id: int) -> Any:
        """Return the result of a request. Raises Refused; OSError if the connection ends first."""
        while request_id not in self._answers:
            self.receive()
        answer = self._answers.pop(request_id)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def outcome(self, request_id: int) -> Any:
        """Return the result of a request, or its Refused. Raises OSError."""
        try:
            return self.answer(request_id)
        except Refused as refused:
            return refused

    def flush(self, session_id: str) -> None:
        self._flushes[self.send("session/flush", {"session_id": session_id})] = session_id

    def receive(self) -> None:
        # Only byte 0x0A ends a line, and so it does for a binary file.
        line = self._input.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the daemon closed the connection")
        message = json.loads(line, parse_float=Spelled)
        if "method" in message:
            self.told.append(message)
        elif message["id"] in self._flushes:
            params = {"session_id": self._flushes.pop(message["id"]), **message["result"]}
            self.told.append({"method": "flushed", "params": params})
        elif message["id"] is not None:
            self._answers[message["id"]] = message
        else:
            raise ConnectionAbortedError(message["error"]["message"])

    def wait_for_ever(self) -> None:
        self._socket.settimeout(None)

    def close(self) -> None:
        self._input.close()
        self._socket.close()


class Client(AbstractContextManager["Client"]):
    """Calls over a connection that is made when needed; `hello` has the params of `initialize`."""

    def __init__(self, path: str, **hello: str) -> None:
        self._path = path
        self._hello: Json = dict(hello)
        self._connection: Connection | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, method: str, /, **params: Any) -> Any:
        """Send one request, once. After an OSError it is unknown whether it was carried out."""
        (outcome,) = self.pipeline([(method, params)])
        if isinstance(outcome, Refused):
            raise outcome
        return outcome

    def pipeline(self, requests: Sequence[tuple[str, Json]]) -> list[Any]:
        """Send all requests, then wait; return the result or the Refused of each."""
        try:
            if self._connection is None:
                self._connection = Connection(self._path, self._hello)
            ids = [self._connection.send(method, params) for method, params in requests]
            return [self._connection.outcome(request_id) for request_id in ids]
        except OSError:
            self.close()
            raise

    def append(self, session_id: str, **params: Any) -> Json:
        """Store `message`, `entry` or `entries` exactly once, with as many retries as needed."""
        wanted: Json = {"session_id": session_id, **params}
        if "message" in wanted and not wanted.keys() & {"entry", "entries"}:
            wanted["entry"] = {"type": "message", "message": wanted.pop("message")}
        if wanted.get("idempotency_key") is None:
            for name in wanted.keys() & {"entry", "entries"}:
                wanted[name] = _with_ids(wanted[name])
        appended: Json = persist(lambda: self.call("session/append", **wanted))
        return appended

    def subscribe(self, session_id: str, after: Json | None = None, **more: Any) -> Subscription:
        """Return the events of a session behind `after`, or from now on."""
        params = {"session_id": session_id, **more}
        return Subscription(lambda: Connection(self._path, self._hello), params, after)


class Subscription:
    """An endless iterator of notifications, over any number of connections."""

    def __init__(self, connect: Callable[[], Connection], params: Json, after: Json | None) -> None:
        self._connect = connect
        self._params = params
        self.after = after  # where to go on: behind the last entry given out
        self._connection = self._subscribed()

    def flush(self) -> None:
        """Asks for a `flushed` behind every event up to now."""
        self._connection.flush(self._params["session_id"])

    def close(self) -> None:
        self._connection.close()

    def __iter__(self) -> Iterator[Json]:
        return self

    def __next__(self) -> Json:
        while not self._connection.told:
            try:
                self._connection.receive()
            except OSError:
                self._go_on()
        event = self._connection.told.popleft()
        if event["method"] == "session/event":
            params = event["params"]
            entry_id, epoch = params["entry"]["id"], params["epoch"]
            self.after = {"seq": params["seq"], "entry_id": entry_id, "epoch": epoch}
        elif event["method"] == "session/closed":
            self._go_on()
        return event

    def _go_on(self) -> None:
        self._connection.close()
        self._connection = persist(self._subscribed)

    def _subscribed(self) -> Connection:
        connection = self._connect()
        try:
            wanted = {**self._params, "after": self.after}
            began = connection.answer(connection.send("session/subscribe", wanted))
        except BaseException:
            connection.close()
            raise
        if self.after is None:
            self.after = {"seq": began["seq"], "epoch": began["epoch"]}
        connection.wait_for_ever()
        if "replaced" in began:
            replaced = {**self._params, "epoch": began["epoch"], "reason": began["replaced"]}
            connection.told.appendleft({"method": "replaced", "params": replaced})
        return connection


def persist(attempt: Callable[[], T]) -> T:
    """Repeat an attempt until its outcome is final. Raises its last error."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return attempt()
        except (Refused, OSError) as error:
            if getattr(error, "is_final", False) or time.monotonic() > end:
                raise
            time.sleep(max(RETRY_SECONDS, getattr(error, "retry_seconds", 0)))


def _with_ids(given: Any) -> Any:
    if isinstance(given, list):
        return [_with_ids(entry) for entry in given]
    return {"id": uuid.uuid4().hex, **given} if isinstance(given, dict) else given
