"""Presence in one session: connections that reported a state, here and at other daemons.

Law: presence is told as a whole, never as a change, so a subscriber that missed a notification
knows everything with the next one. It is stored nowhere and ends with its connection. So does what
a client has said of an answer that it streams.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from sessiond import typed
from sessiond.errors import InvalidParams, Overloaded
from sessiond.limits import PRESENT_CLIENTS_MAX, RETRY_AFTER_MS, STREAMED_BYTES_MAX
from sessiond.model.events import Departure, PresenceTold, Present
from sessiond.model.ids import MAIN
from sessiond.service.log.events import notification
from sessiond.session.index import Head
from sessiond.session.turns.blocks import ShownBlock

_IDLE: Final = "idle"
STATES: Final = {
    _IDLE: ("thinking", "executing", "compacting"),
    "thinking": (_IDLE, "executing", "compacting", "aborting", "error"),
    "executing": (_IDLE, "thinking", "compacting", "aborting", "error"),
    "compacting": (_IDLE, "thinking", "executing", "aborting", "error"),
    "aborting": (_IDLE,),
    "error": (_IDLE,),
}
"""States of an agent, each with the states that may follow. A state may always stay."""
_STREAMING: Final = frozenset({"thinking", "executing", "streaming"})
"""States in which a client works on the last turn of its head."""
_CHUNKS_MAX: Final = 256


class Arrived(Struct, frozen=True):
    """A present connection, and the time of its arrival, by which daemons put connections in one order."""

    came_ns: int
    present: Present


class _Delta(Struct, frozen=True):
    """A part of an answer on its way: words, and the type of the block that they belong to."""

    text: str
    type: str = "text"


class _Streamed:
    """The answer that a client streams: the blocks so far, since its head came where it is."""

    def __init__(self, at: Head) -> None:
        self.at = at
        self._blocks: list[tuple[str, list[str]]] = []
        self._size = 0
        self._left_out = 0

    def add(self, delta: _Delta) -> None:
        """Add a part, unless the bytes that are kept would exceed the limit."""
        begins = not self._blocks or self._blocks[-1][0] != delta.type
        size = len(delta.text.encode(errors="replace"))
        # A block costs memory beside its words.
        cost = size + (len(delta.type) + _CHUNKS_MAX if begins else 0)
        if self._left_out or self._size + cost > STREAMED_BYTES_MAX:
            # Words behind a gap would read as one text with the words before the gap.
            self._left_out += size
            return
        self._size += cost
        if begins:
            self._blocks.append((delta.type, []))
        chunks = self._blocks[-1][1]
        chunks.append(delta.text)
        if len(chunks) == _CHUNKS_MAX:
            # A text of many short strings takes many times its size.
            chunks[:] = ["".join(chunks)]

    def shown(self) -> list[ShownBlock]:
        """Return the blocks; the last one says how many bytes were left out behind it."""
        last = len(self._blocks) - 1
        return [
            ShownBlock.of(
                word,
                "".join(chunks),
                {"left_out": self._left_out} if self._left_out and at == last else None,
            )
            for at, (word, chunks) in enumerate(self._blocks)
        ]


_came: Final = attrgetter("came_ns")


class Presence:
    """Connections present in a session, in the order in which they appeared.

    The length is the number of connections of this daemon.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._here: dict[Hashable, Arrived] = {}
        self.elsewhere: Sequence[Arrived] = ()
        """Connections present at other daemons."""
        self._streamed: dict[Hashable, _Streamed] = {}
        self._latest_ns = 0

    def __len__(self) -> int:
        return len(self._here)

    def set(self, who: Hashable, present: Present, *, check: bool = False, now_ns: int = 0) -> bool:
        """Record a connection's presence; return whether it changed.

        A connection that keeps its state keeps the time at which the state began; its first reason
        stays until another one is given. Raises Overloaded, and with `check` InvalidParams.
        """
        arrived = self._here.get(who)
        before = None if arrived is None else arrived.present
        if check:
            _require_follows(present.state, _IDLE if before is None else before.state)
        if before is not None and present.reason is None:
            present = replace(present, reason=before.reason)
        if before is None and len(self._here) + len(self.elsewhere) >= PRESENT_CLIENTS_MAX:
            raise Overloaded(
                "this session has reached its limit of present connections: try again later",
                limit=PRESENT_CLIENTS_MAX,
                retry_after_ms=RETRY_AFTER_MS,
            )
        if before is not None and before.state == present.state:
            present = replace(present, since=before.since)
        if arrived is None:
            # Each daemon knows the clock of a database to some milliseconds only. Arrivals here have one order, and
            # come behind those of other daemons that are known here.
            behind_ns = max((one.came_ns + 1 for one in self.elsewhere), default=0)
            self._latest_ns = max(now_ns, self._latest_ns, behind_ns)
        came_ns = self._latest_ns if arrived is None else arrived.came_ns
        self._here[who] = Arrived(came_ns, present)
        if present.state not in _STREAMING or (before is not None and before.head != present.head):
            self._streamed.pop(who, None)
        return present != before

    def clear(self, who: Hashable) -> bool:
        """End a connection's presence; return whether there was one."""
        self._streamed.pop(who, None)
        return self._here.pop(who, None) is not None

    # -- answers on their way ------------------------------------------------------------

    def hear(self, who: Hashable, data: Raw, heads: Mapping[str, Head]) -> None:
        """Keep a part of the answer that a client streams on its head; other content is not kept."""
        arrived = self._here.get(who)
        at = None if arrived is None else heads.get(arrived.present.head or MAIN)
        if arrived is None or at is None or arrived.present.state not in _STREAMING:
            return
        try:
            delta = typed.decode(data, _Delta)
        except (msgspec.DecodeError, RecursionError):
            return
        streamed = self._streamed.get(who)
        if streamed is None or streamed.at != at:
            # What was said before the head moved is stored by now, or was given up.
            streamed = self._streamed[who] = _Streamed(at)
        if delta.text:
            streamed.add(delta)

    def streams(self, head: str) -> bool:
        """Return whether a client works on the last turn of a head."""
        return any(one.state in _STREAMING and (one.head or MAIN) == head for one in self.clients())

    def streamed(self, head: str, at: Head | None) -> list[ShownBlock]:
        """Return what clients of this daemon have said so far of their answers on a head that is there."""
        found: list[ShownBlock] = []
        for who, streamed in self._streamed.items():
            if streamed.at == at and (self._here[who].present.head or MAIN) == head:
                found += streamed.shown()
        return found

    def forget_streamed(self) -> None:
        """Drop the answers on their way, as another log took the place of the one that they were below."""
        self._streamed.clear()

    def here(self) -> list[Arrived]:
        """Return the present connections of this daemon."""
        return [*self._here.values()]

    def clients(self) -> list[Present]:
        """Return the present clients.

        Daemons that let clients in at the same moment may be over the limit together: the list is not.
        """
        arrived = sorted([*self._here.values(), *self.elsewhere], key=_came)
        return [one.present for one in arrived[:PRESENT_CLIENTS_MAX]]

    def body(self, left: Departure | None = None) -> bytes:
        """Return the notification of all present clients."""
        told = PresenceTold(self._session_id, self.clients(), left)
        return notification("session/presence", told)


def _require_follows(state: str, before: str) -> None:
    """Raise InvalidParams unless `state` may follow the state `before`."""
    for name in (state, before):
        if name not in STATES:
            text = f"{name!r} is no state that can be checked: {', '.join(STATES)} are"
            raise InvalidParams(text, path="state", state=before, allowed=[*STATES])
    if state != before and state not in STATES[before]:
        allowed = STATES[before]
        text = f"{state} may not follow {before}: {' or '.join(allowed)} may"
        raise InvalidParams(text, path="state", state=before, allowed=[*allowed])
