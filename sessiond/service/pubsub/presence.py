"""Presence in one session: connections that reported a state, here and at other daemons.

Law: presence is told as a whole, never as a change, so a subscriber that missed a notification
knows everything with the next one. It is stored nowhere and ends with its connection.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sessiond.errors import InvalidParams, Overloaded
from sessiond.limits import PRESENT_CLIENTS_MAX, RETRY_AFTER_MS
from sessiond.model.events import Departure, PresenceTold, Present
from sessiond.service.log.events import notification

__all__ = ["STATES", "Arrived", "Presence"]

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


class Arrived(Struct, frozen=True):
    """A present connection, and the time of its arrival, by which daemons put connections in one order."""

    came_ns: int
    present: Present


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
        return present != before

    def clear(self, who: Hashable) -> bool:
        """End a connection's presence; return whether there was one."""
        return self._here.pop(who, None) is not None

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
