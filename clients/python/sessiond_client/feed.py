"""One subscription as the consumer sees it, over any number of connections.

Law: every entry once, in the order of `seq`; or a `Replaced` that says why not.
The cursor moves when an event is put into `ready`, so after a lost connection the
daemon is asked for exactly what is missing, and what it sends twice is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw

from sessiond_client import wire
from sessiond_client.connect_options import wire_params
from sessiond_client.conversation import Setup
from sessiond_client.errors import ConnectionLost, ProtocolViolation
from sessiond_client.events import Changed, Event, Flushed, Notice
from sessiond_client.generated.messages import (
    NOTIFICATIONS,
    After,
    Cursor,
    EntryEvent,
    Lagged,
    Presence,
    Replaced,
    Signal,
    StateChange,
    Subscribed,
    Synced,
)
from sessiond_client.generated.results import FlushResult
from sessiond_client.limits import HELD_BYTES_MAX
from sessiond_client.stream import SUBSCRIBE_ID, Stream

__all__ = ["Feed"]


class Feed(Stream[Event]):
    """The state of one subscription: its place, and the events that the program has not taken yet."""

    def __init__(
        self, setup: Setup, session_id: str, options: Mapping[str, Any], *, deadline: float
    ) -> None:
        super().__init__(setup, deadline=deadline)
        self.position = _cursor(options.get("after"))
        """Behind the last entry taken; None while "from now" has no place yet."""
        self._session_id = session_id
        self._options = {"signals": False, **wire_params(options)}
        self._options.pop("after", None)
        self._told_present = False
        self._cursor = self.position
        self._held: list[tuple[str, Raw]] | None = None
        self._held_bytes = 0
        self._last_id = SUBSCRIBE_ID
        self._flushes: list[int] = []
        """The ids of flushes without an answer."""

    def take(self) -> Event | None:
        event = super().take()
        if isinstance(event, EntryEvent):
            self.position = event.cursor
        elif isinstance(event, Replaced):
            self.position = Cursor(0, epoch=event.epoch)
        return event

    def flush(self) -> None:
        """Ask for a `Flushed` behind every event of now; ask again after a lost connection."""
        flush_id = self._last_id = self._last_id + 1
        self._flushes.append(flush_id)
        if self.is_connected and self._held is None:
            self._put_flush(flush_id)

    def _begin(self) -> None:
        params: dict[str, object] = {"session_id": self._session_id, **self._options}
        if self._cursor is not None:
            params["after"] = _wire_cursor(self._cursor)
        # Events may overtake the answer, and only the answer says whether they
        # go on from the cursor or start again: until then they are held.
        self._held = []
        self._held_bytes = 0
        self.outgoing.put(wire.request(SUBSCRIBE_ID, "session/subscribe", params))

    def _result(self, call_id: int, result: Raw) -> None:
        if call_id in self._flushes:
            self._flushes.remove(call_id)
            self.ready.append(Flushed(self._session_id, wire.read(FlushResult, result).seq))
        elif self._held is not None:
            self._subscribed(wire.read(Subscribed, result))

    def _subscribed(self, answer: Subscribed) -> None:
        if answer.replaced:
            self._replaced(answer.epoch, _reason(answer.replaced))
        elif self._cursor is None:
            self._cursor = self.position = Cursor(answer.seq, epoch=answer.epoch)
        if answer.clients or self._told_present:
            self._presence(Presence(self._session_id, answer.clients))
        self.is_started = True
        held, self._held = self._held or [], None
        for method, params in held:
            self._event(method, params)
        for flush_id in self._flushes:
            self._put_flush(flush_id)

    def _put_flush(self, flush_id: int) -> None:
        params = {"session_id": self._session_id}
        self.outgoing.put(wire.request(flush_id, "session/flush", params))

    def _notification(self, method: str, params: Raw) -> None:
        if self._held is None:
            self._event(method, params)
            return
        self._held.append((method, params))
        self._held_bytes += len(params)
        if self._held_bytes > HELD_BYTES_MAX:
            raise ProtocolViolation("events without end before the answer to their subscription")

    def _event(self, method: str, params: Raw) -> None:
        if not method.startswith("session/"):
            # About the daemon, not this session; what follows from it shows by itself.
            return
        kind = NOTIFICATIONS.get(method)
        match None if kind is None else wire.read(kind, params):
            case EntryEvent() as event:
                self._entry(event)
            case Synced() | Lagged() | Signal() as event:
                self.ready.append(event)
            case Presence() as presence:
                self._presence(presence)
            case Replaced() as replaced:
                self._replaced(replaced.epoch, replaced.reason)
            case StateChange() as now:
                state = (now.archived, now.read_only, now.read_only_reason)
                body = wire.READ_OBJECT(params)
                self.ready.append(Changed(self._session_id, method, body, *state))
            case _:
                self._notice(method, wire.READ_OBJECT(params))

    def _notice(self, method: str, params: dict[str, Any]) -> None:
        self.ready.append(Notice(self._session_id, method, params))
        if method == "session/closed":
            # The daemon has let go of it: subscribing again goes on, or says why not.
            text = f"the session was closed: {params.get('reason')}"
            self.broken = ConnectionLost(text, outcome_unknown=False)

    def _entry(self, event: EntryEvent) -> None:
        if self._cursor is not None and event.seq <= self._cursor.seq:
            return
        try:
            self._cursor = event.cursor
        except msgspec.DecodeError as error:
            raise ProtocolViolation(f"an event without a readable entry: {error}") from error
        self.ready.append(event)

    def _presence(self, presence: Presence) -> None:
        # Nobody there is news only to whoever thinks that somebody is.
        self._told_present = bool(presence.clients)
        self.ready.append(presence)

    def _replaced(self, epoch: str, reason: str) -> None:
        start = Cursor(0, epoch=epoch)
        # Told twice, by the answer and by a notification, it is still one event.
        if self._cursor != start:
            self._cursor = start
            self.ready.append(Replaced(self._session_id, epoch, reason))

    def _lost(self) -> None:
        self._held = None


def _cursor(after: After | None) -> Cursor | None:
    if after is None or isinstance(after, Cursor):
        return after
    return Cursor(after) if isinstance(after, int) else wire.convert(Cursor, after)


def _wire_cursor(cursor: Cursor) -> Cursor:
    """Return the cursor to send: the start alone, or one proof that the daemon checks."""
    if cursor.seq == 0:
        return Cursor(0)
    if cursor.entry_id is not UNSET:
        return Cursor(cursor.seq, cursor.entry_id)
    return Cursor(cursor.seq, epoch=cursor.epoch)


def _reason(replaced: object) -> str:
    if isinstance(replaced, dict):
        replaced = cast("dict[str, object]", replaced).get("reason")
    return replaced if isinstance(replaced, str) else ""
