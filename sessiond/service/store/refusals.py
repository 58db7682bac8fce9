"""Errors that every store raises, and that methods raise before they ask the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sessiond.errors import InvalidParams, SessionExists, StorageError
from sessiond.limits import LINE_BYTES_MAX
from sessiond.service.log.chunks import line_is_too_long
from sessiond.service.log.session_info import Persist

_ORDER: Final = ("never", "on_assistant", "immediate")


def require_forward(now: Persist, wanted: Persist) -> None:
    """Raise InvalidParams for a level that lies behind the current one."""
    if _ORDER.index(wanted) < _ORDER.index(now):
        raise InvalidParams(
            f"persist goes from never to on_assistant to immediate, and here it is {now}",
            path="persist",
        )


def short_enough(lines: Sequence[bytes]) -> Sequence[bytes]:
    """Return the lines of a copy. Raises TooLarge for a line that no reader would take."""
    longest = max(map(len, lines), default=0)
    if longest > LINE_BYTES_MAX:
        raise line_is_too_long(longest)
    return lines


def id_is_taken(session_id: str) -> SessionExists:
    """Return the refusal of a new session under the id of a session that exists."""
    return SessionExists("a session of this id exists", session_id=session_id)


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


def was_deleted(session_id: str) -> StorageError:
    """Return the refusal of a copy whose session was gone again before the copy was answered."""
    text = f"another program has deleted {session_id} while it was made: make it again"
    return StorageError(text, errno="EBUSY", path=session_id, retryable=True)
