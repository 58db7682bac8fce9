"""Both Python clients over a real socket, against a daemon that the test scripts.

`Stage` is that daemon: one scene per connection, played in a thread. So one set of scenes serves
the anyio client and the blocking client, whose calls run in worker threads. A scene reads and
writes in a fixed order; no test sleeps.
"""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

from anyio import to_thread

from sessiond_client import BlockingClient, BlockingSubscription, Client, Cursor, EntryEvent, Event
from tests.kit.patience import PATIENCE_SECONDS

MESSAGE = {"role": "user", "content": "hi"}
BIG = 3_000_000  # far more than a socket buffers
STORED = {"entries": [{"id": "x", "parent_id": None, "seq": 1}], "leaf_id": "x", "seq": 1}


_GREETS = b'"method":"initialize"'


class Peer:
    """The daemon's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._lines = connection.makefile("rb")

    def read(self, method: str | None = None) -> dict[str, Any]:
        line = self._line(method)
        assert line, "the client closed"
        request: dict[str, Any] = json.loads(line)
        # A greeting asks, as a ping, whether the daemon is there.
        assert method in {None, request.get("method")} or _GREETS in line
        return request

    def ends(self) -> None:
        with suppress(ConnectionResetError):  # a client may leave before it has read all
            assert self._line() == b"", "the client said more than expected"

    def _line(self, method: str | None = None) -> bytes:
        """Return the next line; a greeting that no scene asks for is answered here."""
        line = self._lines.readline()
        if _GREETS in line and method not in {"initialize", "server/ping"}:
            self.answer(json.loads(line))
            line = self._lines.readline()
        return line

    def say(self, **message: Any) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def answer(self, request: dict[str, Any], result: Any = None) -> None:
        self.say(jsonrpc="2.0", id=request["id"], result={} if result is None else result)

    def refuse(self, request: dict[str, Any], kind: str, *, retryable: bool = False) -> None:
        data = {"kind": kind, "retryable": retryable}
        self.say(id=request["id"], error={"code": -32001, "message": "no", "data": data})

    def event(self, seq: int, text: str = "", *, full: Callable[[], object] | None = None) -> None:
        """Says it; `full` is called when the socket takes no more for now."""
        entry = {"type": "message", "id": f"e{seq}", "message": {"role": "user", "content": text}}
        params = {"session_id": "s", "epoch": "A", "seq": seq, "entry": entry, "leaf_id": f"e{seq}"}
        rest = memoryview(
            json.dumps({"method": "session/event", "params": params}).encode() + b"\n"
        )
        self.connection.settimeout(0)
        while rest:
            try:
                rest = rest[self.connection.send(rest) :]
            except BlockingIOError:
                if full is not None:
                    full()
                select.select([], [self.connection], [], PATIENCE_SECONDS)
        self.connection.settimeout(PATIENCE_SECONDS)

    def notify(self, word: str, **params: Any) -> None:
        self.say(method=f"session/{word}", params={"session_id": "s", **params})


Scene = Callable[[Peer], None]


class Stage:
    """Plays one scene per connection, in the order in which the client makes them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pool = ThreadPoolExecutor(8)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(PATIENCE_SECONDS)
        self._plays: list[Any] = []

    def play(self, *scenes: Scene) -> None:
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._plays.append(self._pool.submit(self._accept, scenes))

    def _accept(self, scenes: tuple[Scene, ...]) -> None:
        for scene in scenes:
            connection, _ = self._listener.accept()
            connection.settimeout(PATIENCE_SECONDS)
            self._plays.append(self._pool.submit(self._perform, scene, connection))

    @staticmethod
    def _perform(scene: Scene, connection: socket.socket) -> None:
        peer = Peer(connection)
        with connection, peer._lines:
            scene(peer)

    def close(self) -> None:
        """Every scene was played to its end, as written."""
        while self._plays:
            self._plays.pop(0).result(PATIENCE_SECONDS)
        self._pool.shutdown()
        self._listener.close()


class InThreads:
    """The blocking client, each call in a worker thread, spelled like the other one."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        self.disconnect = client.disconnect

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(*args: Any, **options: Any) -> Any:
            return await to_thread.run_sync(
                lambda: method(*args, **options), abandon_on_cancel=False
            )

        return call

    def subscribe(self, session_id: str, **options: Any) -> SubscriptionInThreads:
        return SubscriptionInThreads(self._client.subscribe(session_id, **options))


class SubscriptionInThreads:
    """The blocking subscription, each wait in a worker thread."""

    def __init__(self, subscription: BlockingSubscription) -> None:
        self._subscription = subscription
        self.request_flush = subscription.request_flush
        self.close = subscription.close

    @property
    def position(self) -> Cursor | None:
        return self._subscription.position

    async def __aenter__(self) -> SubscriptionInThreads:
        await to_thread.run_sync(self._subscription.__enter__)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._subscription.close()

    def __aiter__(self) -> SubscriptionInThreads:
        return self

    async def __anext__(self) -> Any:
        event = await to_thread.run_sync(next, self._subscription, None)
        if event is None:
            raise StopAsyncIteration
        return event


Connect = Callable[..., AbstractAsyncContextManager[Client]]


def quiet(peer: Peer) -> None:
    """Accept a connection that the client closes again."""
    peer.ends()


def seq_of(event: Event) -> int:
    assert isinstance(event, EntryEvent)
    return event.seq
