#!/usr/bin/env python3
"""The plainest client there is, as a command of the conformance kit: JSON-RPC in either framing.

Law: it does each step that it reads as one line of JSON on standard input, and says one line
on standard output. Bodies pass through as text: nothing here spells a payload anew.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from typing import Any


class Connection:
    """A connection to the daemon, with the messages that no step has read yet."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(os.environ["CONFORMANCE_SOCKET"])
        self.input = self.socket.makefile("rb")
        self.is_lines = os.environ["CONFORMANCE_FRAMING"] == "ndjson"
        self.unread: deque[str] = deque()
        self.last_id = 0

    def close(self) -> None:
        self.input.close()
        self.socket.close()

    def send(self, body: str) -> None:
        data = body.encode()
        head = b"" if self.is_lines else b"Content-Length: %d\r\n\r\n" % len(data)
        self.socket.sendall(head + data + b"\n" * self.is_lines)

    def read(self) -> str | None:
        """Return the next body; None at the end."""
        line = self.input.readline()
        if self.is_lines or not line:
            return line.decode()[:-1] or None
        assert line.startswith(b"Content-Length: "), line
        assert line.endswith(b"\r\n"), line
        assert self.input.readline() == b"\r\n"
        return self.input.read(int(line[16:])).decode()

    def request(self, method: str, params: str) -> int:
        self.last_id += 1
        self.send(f'{{"id":{self.last_id},"method":{json.dumps(method)},"params":{params}}}')
        return self.last_id

    def find(self, is_it: Callable[[Any], bool]) -> str:
        """Return the first matching body; earlier bodies stay for later steps."""
        for body in self.unread:
            if is_it(json.loads(body)):
                self.unread.remove(body)
                return body
        while (body_read := self.read()) is not None:
            if is_it(json.loads(body_read)):
                return body_read
            self.unread.append(body_read)
        raise EOFError("the daemon closed the connection")

    def answer(self, request_id: int) -> str:
        return self.find(lambda body: isinstance(body, dict) and body.get("id") == request_id)


class Wire:
    """The steps. Connections have names and are made when a step first names them."""

    def __init__(self) -> None:
        self.connections: dict[str, Connection] = {}
        self.flushes: dict[int, str] = {}

    def do(self, step: dict[str, Any]) -> dict[str, Any]:
        if step["do"] == "close":
            ended = [step["on"]] if "on" in step else list(self.connections)
            for name in set(ended) & self.connections.keys():
                self.connections.pop(name).close()
            return {}
        if step["on"] not in self.connections:
            self.connections[step["on"]] = Connection()
        done: dict[str, Any] = getattr(self, step["do"])(self.connections[step["on"]], step)
        return done

    def connect(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        return {"answer": connection.answer(connection.request("initialize", step["options"]))}

    def call(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        return {"answer": connection.answer(connection.request(step["method"], step["params"]))}

    def pipeline(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        sent = [connection.request(call["method"], call["params"]) for call in step["calls"]]
        return {"answers": f"[{','.join(map(connection.answer, sent))}]"}

    def subscribe(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        answer = connection.answer(connection.request("session/subscribe", step["params"]))
        result = json.loads(answer).get("result", {})
        if "replaced" in result:
            session_id = json.loads(step["params"])["session_id"]
            params = {"session_id": session_id, "epoch": result["epoch"]}
            params["reason"] = result["replaced"]
            event = {"method": "session/replaced", "params": params}
            connection.unread.appendleft(json.dumps(event))
        return {"answer": answer}

    def flush(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        params = json.dumps({"session_id": step["session_id"]})
        self.flushes[connection.request("session/flush", params)] = step["session_id"]
        return {}

    def next(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        def is_it(body: Any) -> bool:
            of = body.get("params", {}).get("session_id") or self.flushes.get(body.get("id"))
            return bool(of == step["session_id"])

        event = connection.find(is_it)
        if "method" not in (body := json.loads(event)):
            params = {"session_id": step["session_id"], **body["result"]}
            event = json.dumps({"method": "session/flushed", "params": params})
        return {"event": event}

    def send(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        if "message" in step or "text" in step:
            connection.send(step.get("message") or step["text"])
        for part in step.get("bytes", []):
            text, times = part if isinstance(part, list) else (part, 1)
            connection.socket.sendall(text.encode("latin-1") * int(times))
        return {}

    def receive(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        body = connection.unread.popleft() if connection.unread else connection.read()
        return {"closed": "true"} if body is None else {"received": body}

    def end(self, connection: Connection, step: dict[str, Any]) -> dict[str, Any]:
        """End the client's input; the daemon still answers earlier requests."""
        connection.socket.shutdown(socket.SHUT_WR)
        return {}


def main() -> None:
    """Do steps until standard input ends."""
    wire = Wire()
    for line in sys.stdin:
        try:
            said = wire.do(json.loads(line))
        except (OSError, EOFError) as error:
            said = {"failed": repr(error)}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
