"""The far end of a client's conversation: reads queued requests and sends what a test wants."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from sessiond_client.conversation import Conversation

__all__ = ["Daemon"]


class Daemon:
    """The far end of one conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.now = 0.0

    def connect(self) -> list[dict[str, Any]]:
        """Accept the connection; return the requests that come at once."""
        self.conversation.connected()
        return self.requests()

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests sent since the last call."""
        outgoing = self.conversation.outgoing
        data = b""
        while outgoing:
            buffers = outgoing.buffers()
            data += b"".join(buffers)
            outgoing.taken(sum(map(len, buffers)))
        return [json.loads(line) for line in data.splitlines()]

    def lose(self) -> None:
        self.conversation.lost(ConnectionResetError("gone"), self.now)

    def say(self, **message: Any) -> None:
        self.conversation.received(msgspec.json.encode(message) + b"\n", self.now)

    def answer(self, call_id: int, result: object = None) -> None:
        self.say(jsonrpc="2.0", id=call_id, result={} if result is None else result)

    def refuse(self, call_id: int | None, error: dict[str, Any]) -> None:
        data = {key: value for key, value in error.items() if key != "code"}
        self.say(id=call_id, error={"code": error["code"], "message": "no", "data": data})

    def event(self, seq: int, *, epoch: str = "A") -> None:
        entry = {"type": "message", "id": f"e{seq}", "message": {"role": "user"}}
        params = {"session_id": "s", "epoch": epoch, "seq": seq, "entry": entry}
        self.say(method="session/event", params=params)

    def notify(self, word: str, **params: Any) -> None:
        self.say(method=f"session/{word}", params={"session_id": "s", **params})
