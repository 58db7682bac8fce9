"""Errors that every store raises, and that methods raise before they ask the store."""

from __future__ import annotations

from typing import Final

from sessiond.errors import InvalidParams, SessionExists
from sessiond.service.log.session_info import Persist

__all__ = ["exists_again", "lies_inside", "require_forward", "still_there"]

_ORDER: Final = ("never", "on_assistant", "immediate")


def require_forward(now: Persist, wanted: Persist) -> None:
    """Raise InvalidParams for a level that lies behind the current one."""
    if _ORDER.index(wanted) < _ORDER.index(now):
        raise InvalidParams(
            f"persist goes from never to on_assistant to immediate, and here it is {now}",
            path="persist",
        )


def lies_inside() -> InvalidParams:
    """Return the refusal to forget a session whose file is the profile's own."""
    text = "only a session outside the profile can be forgotten; call session/delete for this one"
    return InvalidParams(text, path="session_id")


def exists_again(session_id: str) -> SessionExists:
    """Return the refusal to restore a session whose id belongs to a session outside the trash."""
    text = "a session of this id exists: delete that session before you restore this one"
    return SessionExists(text, session_id=session_id)


def still_there(session_id: str) -> SessionExists:
    """Return the refusal to purge a session that is not deleted."""
    return SessionExists(
        "only a session in the trash can be purged; call session/delete first",
        session_id=session_id,
    )
