"""The client of pygls as a command of the conformance kit (tests/conformance/README.md).

    python tests/interop/conformance_pygls.py SESSIOND

pygls has no client for Unix sockets: each connection is a `sessiond stdio`, as in an editor. pygls makes
named tuples of answers unless it is told their types; here it is told that an answer is what JSON says.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import attrs
from pygls.client import JsonRPCClient
from pygls.exceptions import JsonRpcException
from pygls.protocol import JsonRPCProtocol

NOTIFICATIONS: Final = (
    *("changed", "closed", "compaction", "event", "lagged", "presence", "replaced"),
    *("signal", "synced"),
)

Json = dict[str, Any]


@attrs.define
class Answer:
    """A result as it is."""

    id: str
    jsonrpc: str
    result: Any


@attrs.define
class Told:
    """A notification as it is, or a request of the same name."""

    method: str
    jsonrpc: str
    params: Any
    id: str | None = None


class Plain(JsonRPCProtocol):
    """The protocol of pygls, which leaves values as JSON has them."""

    def get_message_type(self, method: str) -> type[Any] | None:
        """Return the type of a notification of the daemon."""
        return Told if method.startswith("session/") and self.is_told(method) else None

    def get_result_type(self, method: str) -> type[Any] | None:
        """Return the type of every result."""
        return Answer

    @staticmethod
    def is_told(method: str) -> bool:
        """Return whether the daemon tells this without being asked."""
        return method.partition("/")[2] in NOTIFICATIONS


class Events:
    """Events of one subscription, in their order."""

    def __init__(self) -> None:
        self._waiting: deque[Json] = deque()
        self._changed = asyncio.Event()

    def put(self, method: str, params: Json, *, is_first: bool = False) -> None:
        """Add an event; the first one of a subscription comes with its answer."""
        event = {"method": method, "params": params}
        (self._waiting.appendleft if is_first else self._waiting.append)(event)
        self._changed.set()

    async def next(self) -> Json:
        """Wait for the next event."""
        while not self._waiting:
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()


class Connection(JsonRPCClient):
    """A connection to the daemon."""

    def __init__(self) -> None:
        super().__init__(protocol_cls=Plain)
        self.feeds: dict[str, Events] = {}
        for name in NOTIFICATIONS:
            method = f"session/{name}"
            # pygls writes its marks on a handler, and a method takes none.
            self.feature(method)(partial(self._told, method))

    def _told(self, method: str, params: Json) -> None:
        feed = self.feeds.get(params["session_id"])
        if feed is not None:
            feed.put(method, params)

    async def ask(self, method: str, params: Json) -> Json:
        """Return the answer to a request."""
        try:
            return {"result": await self.protocol.send_request_async(method, params)}
        except JsonRpcException as error:
            return {"error": {"code": error.code, "message": error.message, "data": error.data}}

    async def subscribe(self, params: Json) -> Json:
        """Subscribe; return the answer."""
        session_id = params["session_id"]
        before, feed = self.feeds.get(session_id), Events()
        self.feeds[session_id] = feed
        answer = await self.ask("subscribe", params)
        if "error" in answer and before is not None:
            self.feeds[session_id] = before
        result = answer.get("result", {})
        if "replaced" in result:
            told = {"epoch": result["epoch"], "reason": result["replaced"]}
            feed.put("session/replaced", {"session_id": session_id, **told}, is_first=True)
        return answer

    async def flush(self, session_id: str) -> None:
        """Put `session/flushed` among the events, behind all up to now."""
        flushed = (await self.ask("session/flush", {"session_id": session_id}))["result"]
        self.feeds[session_id].put("session/flushed", {"session_id": session_id, **flushed})

    async def close(self) -> None:
        """End the connection."""
        stop: Callable[[], Awaitable[None]] = self.stop
        if self._server is not None and self._server.returncode is None:
            self._server.kill()
        await stop()


class Steps:
    """The steps of the kit."""

    def __init__(self, sessiond: str) -> None:
        self._sessiond = sessiond
        self._connections: dict[str, Connection] = {}
        self._flushes: set[asyncio.Task[None]] = set()

    async def act(self, step: Mapping[str, Any]) -> Json:
        """Carry out a step; return the line that answers the runner."""
        if step["do"] == "close":
            await self.close([step["on"]] if "on" in step else list(self._connections))
            return {}
        params = step.get("params", "{}")
        calls = step.get("calls", [])
        if any(map(loses_numbers, [params, *(one["params"] for one in calls)])):
            return {"unsupported": "a number in another spelling than Python's"}
        connection = await self._connection(step)
        match step["do"]:
            case "connect":
                return {}
            case "call":
                return {
                    "answer": json.dumps(await connection.ask(step["method"], json.loads(params)))
                }
            case "pipeline":
                asked = [connection.ask(one["method"], json.loads(one["params"])) for one in calls]
                return {"answers": json.dumps(await asyncio.gather(*asked))}
            case "subscribe":
                return {"answer": json.dumps(await connection.subscribe(json.loads(params)))}
            case "flush":
                self._flushes.add(asyncio.create_task(connection.flush(step["session_id"])))
                return {}
            case "next":
                return {"event": json.dumps(await connection.feeds[step["session_id"]].next())}
            case other:
                return {"unsupported": f"no surface for {other}"}

    async def close(self, names: Iterable[str]) -> None:
        """Close connections; one that was never made is closed already."""
        for name in names:
            if connection := self._connections.pop(name, None):
                await connection.close()

    async def _connection(self, step: Mapping[str, Any]) -> Connection:
        name = step.get("on", "")
        if name not in self._connections:
            connection = Connection()
            await connection.start_io(
                *(self._sessiond, "stdio"),
                env={**os.environ, "SESSIOND_SOCKET": os.environ["CONFORMANCE_SOCKET"]},
            )
            await connection.ask("initialize", json.loads(step.get("options", "{}")))
            self._connections[name] = connection
        return self._connections[name]


def loses_numbers(text: str) -> bool:
    """Return whether a number of a JSON text is spelled as Python spells no number."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    numbers = re.findall(r"-?\d[\d.eE+-]*", bare)
    return any(json.dumps(json.loads(number)) != number for number in numbers)


async def main(sessiond: str) -> None:
    """Carry out steps until standard input ends."""
    steps = Steps(sessiond)
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            said = await steps.act(json.loads(line))
        except Exception as error:  # noqa: BLE001 - the runner reports what broke
            said = {"failed": repr(error)}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
    await steps.act({"do": "close"})


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
