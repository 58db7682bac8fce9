"""The clients of this repository as commands of the conformance kit (tests/conformance/README.md).

    python tests/interop/conformance_clients.py anyio|blocking|stdlib

Law: a step goes through the surface that a user of the client has. Payloads pass through as
`Raw`, so the kit sees the bytes that the daemon sent.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import anyio
import msgspec
from anyio import to_thread
from msgspec import UNSET, Raw, Struct

from sessiond_client import (
    BlockingClient,
    BlockingSubscription,
    Client,
    EntryEvent,
    Event,
    Flushed,
    Lagged,
    Notice,
    Presence,
    Replaced,
    RpcError,
    SessiondClientError,
    Signal,
    Subscription,
    Synced,
    connect,
    connect_blocking,
)
from tests.interop import stdlib_client

SOCKET: Final = os.environ.get("CONFORMANCE_SOCKET", "")
PAYLOADS: Final = frozenset(
    {"message", "entry", "details", "metadata", "compaction", "data", "value"}
)
METHODS: Final[Mapping[type[Any], str]] = {
    Synced: "session/synced",
    Lagged: "session/lagged",
    Signal: "session/signal",
    Presence: "session/presence",
    Replaced: "session/replaced",
    Flushed: "session/flushed",
}


class Asked(Struct, frozen=True):
    """A call of a step; `params` is JSON text."""

    method: str
    params: str


class Step(Struct, frozen=True):
    """A step that the runner asks for."""

    do: str
    on: str | None = None
    method: str = ""
    params: str = "{}"
    options: str = "{}"
    session_id: str = ""
    calls: list[Asked] = []


Said = dict[str, Any]


def wanted(params: str) -> dict[str, Any]:
    """Return the params as a user would give them, with payloads as bytes."""
    found = {}
    for name, raw in msgspec.json.decode(params, type=dict[str, Raw]).items():
        found[name] = raw if name in PAYLOADS else msgspec.json.decode(raw)
        if name in {"entries", "messages"} and isinstance(found[name], list):
            found[name] = msgspec.json.decode(raw, type=list[Raw])
    return found


def refusal(error: RpcError) -> bytes:
    body = {"code": error.code, "message": error.message, "data": error.data}
    return msgspec.json.encode({"error": body})


def event_text(event: Event) -> str:
    """Return the notification from which an event was made."""
    if isinstance(event, Notice):
        return msgspec.json.encode({"method": event.method, "params": event.params}).decode()
    params = {
        field.encode_name: value
        for field in msgspec.structs.fields(event)
        if (value := getattr(event, field.name)) is not UNSET
    }
    method = "session/event" if isinstance(event, EntryEvent) else METHODS[type(event)]
    return msgspec.json.encode({"method": method, "params": params}).decode()


def ended(step: Step, clients: Mapping[str, object]) -> list[str]:
    """Return the connections that a step closes: the named one, or all."""
    return [name for name in clients if step.on in {None, name}]


class Tasks:
    """The client for anyio programs."""

    def __init__(self) -> None:
        self.clients: dict[str, Client] = {}
        self.feeds: dict[tuple[str, str], Subscription] = {}

    async def do(self, step: Step) -> Said:
        if step.do == "close":
            for name in ended(step, self.clients):
                self.clients.pop(name).disconnect()
            return {}
        assert step.on is not None
        if step.on not in self.clients:
            client = connect(SOCKET, **msgspec.json.decode(step.options))
            self.clients[step.on] = await client.__aenter__()
        client = self.clients[step.on]
        match step.do:
            case "connect":
                return {}
            case "call":
                return {"answer": await self._call(client, step.method, step.params)}
            case "pipeline":
                return {"answers": await self._pipeline(client, step.calls)}
            case "subscribe":
                return {"answer": await self._subscribe(client, step)}
            case "flush":
                self.feeds[step.on, step.session_id].request_flush()
                return {}
            case "next":
                return {"event": event_text(await anext(self.feeds[step.on, step.session_id]))}
            case _:
                return {"unsupported": f"no surface for {step.do}"}

    async def _call(self, client: Client, method: str, params: str) -> str:
        try:
            result = await client.call_raw(method, **wanted(params))
        except RpcError as error:
            return refusal(error).decode()
        return f'{{"result":{result.decode()}}}'

    async def _pipeline(self, client: Client, calls: list[Asked]) -> str:
        answers = [""] * len(calls)

        async def make(number: int, call: Asked) -> None:
            answers[number] = await self._call(client, call.method, call.params)

        async with anyio.create_task_group() as group:
            for number, call in enumerate(calls):
                group.start_soon(make, number, call)
        return f"[{','.join(answers)}]"

    async def _subscribe(self, client: Client, step: Step) -> str:
        feed = client.subscribe(**wanted(step.params))
        try:
            await feed.__aenter__()
        except RpcError as error:
            return refusal(error).decode()
        session_id = wanted(step.params)["session_id"]
        self.feeds[step.on or "", session_id] = feed
        return '{"result":{}}'


class Threads:
    """The client for scripts and threads."""

    def __init__(self) -> None:
        self.clients: dict[str, BlockingClient] = {}
        self.feeds: dict[tuple[str, str], BlockingSubscription] = {}

    def do(self, step: Step) -> Said:
        if step.do == "close":
            for name in ended(step, self.clients):
                self.clients.pop(name).disconnect()
            return {}
        assert step.on is not None
        if step.on not in self.clients:
            client = connect_blocking(SOCKET, **msgspec.json.decode(step.options))
            self.clients[step.on] = client.__enter__()
        client = self.clients[step.on]
        match step.do:
            case "connect":
                return {}
            case "call":
                return {"answer": self._call(client, step)}
            case "subscribe":
                return {"answer": self._subscribe(client, step)}
            case "flush":
                self.feeds[step.on, step.session_id].request_flush()
                return {}
            case "next":
                return {"event": event_text(next(self.feeds[step.on, step.session_id]))}
            case _:
                return {"unsupported": f"no surface for {step.do}"}

    def _call(self, client: BlockingClient, step: Step) -> str:
        try:
            return f'{{"result":{client.call_raw(step.method, **wanted(step.params)).decode()}}}'
        except RpcError as error:
            return refusal(error).decode()

    def _subscribe(self, client: BlockingClient, step: Step) -> str:
        feed = client.subscribe(**wanted(step.params))
        try:
            feed.__enter__()
        except RpcError as error:
            return refusal(error).decode()
        self.feeds[step.on or "", wanted(step.params)["session_id"]] = feed
        return '{"result":{}}'


class Plain:
    """The client of the standard library. Its JSON is its own; `write` spells it as it came."""

    def __init__(self) -> None:
        self.clients: dict[str, stdlib_client.Client] = {}
        self.feeds: dict[tuple[str, str], stdlib_client.Subscription] = {}

    def do(self, step: Step) -> Said:
        if step.do == "close":
            return self._close(step)
        assert step.on is not None
        if step.on not in self.clients:
            self.clients[step.on] = stdlib_client.Client(SOCKET, **json.loads(step.options))
        match step.do:
            case "connect":
                return {}
            case "call":
                return {"answer": self._outcomes(step.on, [Asked(step.method, step.params)])[0]}
            case "pipeline":
                return {"answers": f"[{','.join(self._outcomes(step.on, step.calls))}]"}
            case "subscribe":
                return {"answer": self._subscribe(step.on, self._params(step.params))}
            case "flush":
                self.feeds[step.on, step.session_id].flush()
                return {}
            case "next":
                return {"event": self._next(self.feeds[step.on, step.session_id])}
            case _:
                return {"unsupported": f"no surface for {step.do}"}

    def _close(self, step: Step) -> Said:
        for name in ended(step, self.clients):
            self.clients.pop(name).close()
        for key in [key for key in self.feeds if step.on in {None, key[0]}]:
            self.feeds.pop(key).close()
        return {}

    def _next(self, feed: stdlib_client.Subscription) -> str:
        event = next(feed)
        if event["method"] in {"flushed", "replaced"}:  # its own words
            event["method"] = f"session/{event['method']}"
        return stdlib_client.write(event)

    def _params(self, text: str) -> dict[str, Any]:
        params: dict[str, Any] = json.loads(text, parse_float=stdlib_client.Spelled)
        return params

    def _outcomes(self, name: str, calls: list[Asked]) -> list[str]:
        requests = [(call.method, self._params(call.params)) for call in calls]
        if [call.method for call in calls] == ["session/append"]:
            outcomes: list[Any] = [self._append(name, requests[0][1])]
        else:
            outcomes = self.clients[name].pipeline(requests)
        return [self._text(outcome) for outcome in outcomes]

    def _append(self, name: str, params: dict[str, Any]) -> Any:
        try:
            return self.clients[name].append(**params)
        except stdlib_client.Refused as refused:
            return refused

    def _subscribe(self, name: str, params: dict[str, Any]) -> str:
        try:
            feed = self.clients[name].subscribe(**params)
        except stdlib_client.Refused as refused:
            return self._text(refused)
        self.feeds[name, params["session_id"]] = feed
        return '{"result":{}}'

    def _text(self, outcome: Any) -> str:
        if isinstance(outcome, stdlib_client.Refused):
            return stdlib_client.write({"error": outcome.error})
        return stdlib_client.write({"result": outcome})


def failed(error: Exception) -> Said:
    return {"failed": repr(error)}


def say(said: Said) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.flush()


async def serve_with_tasks() -> None:
    tasks = Tasks()
    while line := await to_thread.run_sync(sys.stdin.buffer.readline):
        try:
            say(await tasks.do(msgspec.json.decode(line, type=Step)))
        except SessiondClientError as error:
            say(failed(error))


def serve(client: Threads | Plain) -> None:
    for line in sys.stdin.buffer:
        try:
            say(client.do(msgspec.json.decode(line, type=Step)))
        except (SessiondClientError, OSError) as error:
            say(failed(error))


if __name__ == "__main__":
    if sys.argv[1] == "anyio":
        anyio.run(serve_with_tasks)
    else:
        serve(Threads() if sys.argv[1] == "blocking" else Plain())
