"""The error and the sign of calls that need the state of a shared store while the store does not answer.

Law: a read answers with what this daemon knows, and says that it may be old. What only the store can tell is
an error.
"""

from __future__ import annotations

from typing import Final

import msgspec

from sessiond.errors import StorageError
from sessiond.service.ports import Asker

_encode: Final = msgspec.json.Encoder().encode


def out_of_sight(session_id: str) -> StorageError:
    """Return the refusal of what only the store can tell."""
    return StorageError(
        "the store of the session does not answer, and what this daemon knows of the session may be"
        " old: try again",
        errno="EAGAIN",
        path=session_id,
    )


def require_current_lists(asker: Asker) -> None:
    """Raise StorageError if the lists were old as they were asked, for what rests on a session that they lack."""
    if asker.result_meta is not None:
        raise StorageError(
            "the store of the sessions does not answer, and the lists of this daemon may be old: try again",
            errno="EAGAIN",
            path="lists",
        )


def stale_meta(since: str) -> bytes:
    """Return `_meta` of a result that may be old, since a store has not answered from a time on."""
    return _encode({"stale_since": since})
