"""A daemon that a test plays."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from tests.interop.emacs.editor import Json
from tests.kit.patience import PATIENCE_SECONDS


class ScriptedDaemon:
    """A daemon that says what a test wants: the test reads each request and answers it."""

    def __init__(self, place: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(PATIENCE_SECONDS)
        self._listener.bind(str(place))
        self._listener.listen()
        self._stack = ExitStack()
        self._stack.enter_context(self._listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def greet(self) -> None:
        """Take the next connection, and answer its `initialize`."""
        connection = self._listener.accept()[0]
        connection.settimeout(PATIENCE_SECONDS)
        self._connection = self._stack.enter_context(connection)
        self._input = self._stack.enter_context(connection.makefile("rb"))
        greeting = self.read("initialize")
        assert greeting["params"]["client_info"]["name"] == "emacs"
        self.answer(greeting, {})

    def read(self, method: str) -> Json:
        """Read the next request, which has this method."""
        header = self._input.readline()
        assert self._input.readline() == b"\r\n"
        request: Json = json.loads(self._input.read(int(header.split()[1])))
        assert request["method"] == method
        return request

    def say(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._connection.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def answer(self, request: Json, result: Json) -> None:
        self.say(id=request["id"], result=result)

    def refuse(self, request_id: int | None, kind: str, **data: Any) -> None:
        data = {"kind": kind, "retryable": True, **data}
        self.say(id=request_id, error={"code": -32001, "message": "not now", "data": data})

    def hang_up(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)
