"""A dispatcher with a few methods, and a client that notes everything it is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Raw, Struct

from sessiond.errors import Cancelled, InvalidRequest, PermissionDenied
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Dispatcher, Exchange, Method
from sessiond.rpc.params import Params


class Inner(Struct, forbid_unknown_fields=True):
    leaf_id: str


class Item(Struct, forbid_unknown_fields=True):
    message: str


class EchoParams(Params):
    text: str = ""
    expected: Inner | None = None
    entries: tuple[Item, ...] = ()
    counts: dict[str, int] | None = None


class NeedParams(Params):
    session_id: str


class RawParams(Params):
    payload: Raw


class Result(Struct):
    text: str


class Peer:
    """Keeps what was put, as JSON values and as bytes."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.flushes = 0
        self.has_room = True

    def put(self, body: bytes) -> None:
        self.bodies.append(body)

    def put_all(self, bodies: Sequence[bytes]) -> None:
        self.bodies.extend(bodies)

    def admits(self, size: int) -> bool:
        return self.has_room

    def flush(self) -> None:
        self.flushes += 1

    def take(self) -> list[Any]:
        values = [json.loads(body) for body in self.bodies]
        self.bodies.clear()
        return values


class Rig:
    """A dispatcher with one connection; `pending` are the calls that were deferred."""

    def __init__(self) -> None:
        self.pending: list[Call[str]] = []
        self.cancelled: list[Call[str]] = []
        self.logged: list[tuple[str, str, Exception]] = []
        self.peer = Peer()
        self.dispatcher = Dispatcher(
            self._methods(),
            log_exception=lambda *what: self.logged.append(what),
            allow=self._allow,
        )
        self.exchange: Exchange[str] = self.dispatcher.connection(self.peer, "client-1")

    def _methods(self) -> list[Method[str, Any]]:
        def method(
            name: str, handle: Callable[..., Any], params: Any = EchoParams, **more: Any
        ) -> Method[str, Any]:
            return Method(name=name, params=params, result=Result, handle=handle, **more)

        return [
            method("echo", self._echo, aliases=("session/echo", "say")),
            method("need", lambda client, params, call: Result(params.session_id), NeedParams),
            method("payload", lambda client, params, call: params.payload, RawParams),
            method("later", self._later),
            method("wait", self._wait),
            method("boom", self._boom),
            method("bad_result", lambda client, params, call: object()),
            method("null", lambda client, params, call: None),
            method("answers_itself", self._answer_now),
            method("defer_and_fail", self._defer_and_fail),
            method("answer_and_fail", self._answer_and_fail),
            method("forbidden", self._echo, access="write"),
            method("change", self._echo, access="write"),
            method("initialize", self._echo, lenient=True),
        ]

    def _allow(self, client: str, method: Method[str, Any]) -> None:
        assert client == "client-1"
        if method.name == "forbidden":
            raise PermissionDenied("read only", need="write")

    def _echo(self, client: str, params: EchoParams, call: Call[str]) -> Result:
        return Result(params.text)

    def _later(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        self.pending.append(call)
        return DEFERRED

    def _wait(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        def give_up() -> None:
            self.cancelled.append(call)
            if params.text != "too late":
                call.fail(Cancelled("given up"))

        call.defer(give_up)
        self.pending.append(call)
        return DEFERRED

    def _boom(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        raise KeyError("secret content")

    def _answer_now(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        call.answer(b'{"text":"early"}')
        return DEFERRED

    def _defer_and_fail(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        call.defer(None)
        raise InvalidRequest("no")

    def _answer_and_fail(self, client: str, params: EchoParams, call: Call[str]) -> Any:
        call.answer(Result("said"))
        raise KeyError("too late")

    def send(self, text: str | bytes) -> list[Any]:
        self.exchange.receive(text.encode() if isinstance(text, str) else text)
        return self.peer.take()

    def call(self, method: str, params: str | None = None, id_text: str = "1") -> Any:
        tail = "" if params is None else f',"params":{params}'
        (answer,) = self.send(f'{{"jsonrpc":"2.0","id":{id_text},"method":"{method}"{tail}}}')
        return answer


def failed(answer: Any) -> tuple[int, Any]:
    assert set(answer) == {"jsonrpc", "id", "error"}
    return answer["error"]["code"], answer["error"]["data"]
