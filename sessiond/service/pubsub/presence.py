"""Presence in one session: connections that reported a state.

Law: presence is told as a whole, never as a change, so a subscriber that missed a notification
knows everything with the next one. It is stored nowhere and ends with its connection.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from msgspec.structs import replace

from sessiond.errors import InvalidParams, Overloaded
from sessiond.limits import PRESENT_CLIENTS_MAX, RETRY_AFTER_MS
from sessiond.model.events import Departure, PresenceTold, Present
from sessiond.service.log.events import notification

__all__ = ["STATES", "Presence"]

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


class Presence:
    """Connections present in a session, in the order in which they appeared."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._present: dict[Hashable, Present] = {}

    def __len__(self) -> int:
        return len(self._present)

    def set(self, who: Hashable, present: Present, *, check: bool = False) -> bool:
        """Record a connection's presence; return whether it changed.

        A connection that keeps its state keeps the time at which the state began; its first reason
        stays until another one is given. Raises Overloaded, and with `check` InvalidParams.
        """
        before = self._present.get(who)
        if check:
            _require_follows(present.state, _IDLE if before is None else before.state)
        if before is not None and present.reason is None:
            present = replace(present, reason=before.reason)
        if before is None and len(self._present) >= PRESENT_CLIENTS_MAX:
            raise Overloaded(
                "this session has reached its limit of present connections: try again later",
                limit=PRESENT_CLIENTS_MAX,
                retry_after_ms=RETRY_AFTER_MS,
            )
        if before is not None and before.state == present.state:
            present = replace(present, since=before.since)
        self._present[who] = present
        return present != before

    def clear(self, who: Hashable) -> bool:
        """End a connection's presence; return whether there was one."""
        return self._present.pop(who, None) is not None

    def clients(self) -> list[Present]:
        """Return the present clients."""
        return [*self._present.values()]

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
