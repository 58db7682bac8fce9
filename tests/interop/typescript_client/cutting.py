"""Lines between a client and a daemon, cut off or refused where a test says."""

from __future__ import annotations

import json
from typing import Any

from tests.kit.line_proxy import Cut

__all__ = ["Cutting"]

Json = dict[str, Any]


class Cutting:
    """The two directions of a proxy, and the requests that came through.

    `cuts` names methods whose answer is not passed on: the connection ends instead. `refusals` has
    errors for methods that the daemon never sees. Each holds for one request.
    """

    def __init__(self) -> None:
        self.cuts: list[str] = []
        self.refusals: dict[str, Json] = {}
        self.seen: list[str] = []
        """Methods of requests and notifications, in their order."""
        self._cut: set[int] = set()
        self._refused: dict[int, Json] = {}

    def request(self, line: bytes) -> list[bytes]:
        """Pass a request on; a refused one is a ping for the daemon, which answers in its place."""
        message = json.loads(line)
        method = message.get("method", "")
        self.seen.append(method)
        if (refusal := self.refusals.pop(method, None)) is not None:
            self._refused[message["id"]] = refusal
            ping = {"jsonrpc": "2.0", "id": message["id"], "method": "server/ping"}
            return [json.dumps(ping).encode() + b"\n"]
        if method in self.cuts:
            self.cuts.remove(method)
            self._cut.add(message["id"])
        return [line]

    def answer(self, line: bytes) -> list[bytes]:
        """Pass an answer on, or a refusal in its place. Raises Cut."""
        number = json.loads(line).get("id")
        if number in self._cut:
            self._cut.remove(number)
            raise Cut
        if (refusal := self._refused.pop(number, None)) is not None:
            told = {"jsonrpc": "2.0", "id": number, "error": refusal}
            return [json.dumps(told).encode() + b"\n"]
        return [line]
