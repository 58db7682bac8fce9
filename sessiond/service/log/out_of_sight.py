"""The error of a call that needs the state of a shared session while its store does not answer."""

from __future__ import annotations

from sessiond.errors import StorageError

__all__ = ["out_of_sight"]


def out_of_sight(session_id: str) -> StorageError:
    """Return the refusal of what only the store can tell."""
    return StorageError(
        "the store of the session does not answer, and what this daemon knows of the session may be"
        " old: try again",
        errno="EAGAIN",
        path=session_id,
    )
