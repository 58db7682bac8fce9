"""Construct as a program whose usage is walked: its requests and responses, and its chat window."""

from __future__ import annotations

from typing import Any

from sessiond_client import (
    BlockingClient,
    BlockingSubscription,
    EntryEvent,
    Flushed,
    Presence,
    Signal,
)
from sessiond_client.results import Turn
from tests.kit.turns import LiveTurns

__all__ = ["CODE", "FILE", "TOOL", "FrontEnd", "answered", "asked", "blocks_of"]

Json = Any
FILE = {"type": "file", "content": "", "meta": {"path": "app.vue"}}
TOOL = {"type": "tool", "content": "", "meta": {"name": "write", "state": "done"}}
CODE = {"type": "code", "content": "<template/>", "meta": {"language": "vue"}}


def asked(entry_id: str, words: str, *blocks: Json, at: str) -> Json:
    """Return the request with which a turn is dispatched."""
    message = {"role": "user", "content": words}
    shown = [{"type": "text", "content": words}, *blocks]
    return {
        "type": "message",
        "id": entry_id,
        "message": message,
        "blocks": shown,
        "started_at": at,
    }


def answered(words: str, *blocks: Json, status: str, at: str) -> Json:
    """Return the response with which the loop ends a turn."""
    usage = {"input": 40, "output": 9}
    message = {"role": "assistant", "content": words, "usage": usage}
    shown = [*blocks, {"type": "text", "content": words}]
    ending = {"turn_status": status, "ended_at": at}
    return {"type": "message", "message": message, "blocks": shown, **ending}


class FrontEnd:
    """A chat window: it knows the session by events alone."""

    def __init__(
        self, client: BlockingClient, session_id: str, events: BlockingSubscription
    ) -> None:
        self.entries: list[int] = []
        """Seqs in the order in which their events came."""
        self._client = client
        self._session_id = session_id
        self._events = events
        self._live = LiveTurns()

    def look(self) -> list[Signal]:
        """Take all events up to now, compare the window with the daemon, and return the signals."""
        self._events.request_flush()
        signals: list[Signal] = []
        for event in self._events:
            match event:
                case EntryEvent():
                    self.entries.append(event.seq)
                    moved = {"head": event.head, "leaf_id": event.leaf_id} if event.head else {}
                    self._live.take({"entry": event.entry, **moved})
                case Signal():
                    signals.append(event)
                    self._live.take_signal({"kind": event.kind, "data": event.data})
                case Presence():
                    present = [{"state": one.state} for one in event.clients]
                    self._live.take_presence({"clients": present})
                case Flushed():
                    break
                case _:
                    pass
        kept = [(one["id"], one["request"], one["response"]) for one in self._live.chat()]
        turns = self._client.turns(self._session_id).turns
        assert kept == [(one.id, *blocks_of(one)) for one in turns]
        assert self.entries == list(range(1, len(self.entries) + 1))
        return signals


def blocks_of(turn: Turn) -> tuple[list[Json], list[Json]]:
    """Return the blocks of a turn as plain JSON."""
    shown = [
        [
            {"type": one.type, "content": one.content}
            | ({} if one.meta is None else {"meta": one.meta})
            for one in blocks
        ]
        for blocks in (turn.request, turn.response)
    ]
    return shown[0], shown[1]
