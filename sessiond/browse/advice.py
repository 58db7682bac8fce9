"""Errors as one line: what went wrong, and what to do next in this application."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sessiond.browse.words import spelled
from sessiond_client import RpcError, SessiondClientError
from sessiond_client.errors import Unanswered

_NEXT: Final[Mapping[str, str]] = {
    "entry_invalid": "change the text, then try again",
    "entry_not_found": "another client changed the session; press Esc and open it again",
    "head_not_found": "give the name of a head that the tree shows",
    "invalid_params": "change what you typed, then try again",
    "lease_held": "another client works on this head; try again later, or give another head",
    "lease_lost": "try again",
    "overloaded": "try again in a moment",
    "draining": "the daemon is stopping; try again in a moment",
    "permission_denied": "this daemon lets you read only",
    "plan_stale": "the session went on meanwhile; try again",
    "precondition_failed": "the session went on meanwhile; look at it, then try again",
    "session_archived": "press F to fork it, or bring it back with `sessiond unarchive`",
    "session_corrupt": "see `sessiond verify`, then `sessiond repair`",
    "session_locked": "another process holds its file; try again when that process has ended",
    "session_not_found": "the session was deleted, see `sessiond trash`; press Esc for the list",
    "session_read_only": "press F: a fork can be changed",
    "summarizer_unavailable": "no program here writes summaries: type a text instead",
    "too_large": "choose fewer entries, or export the session with E",
    "vetoed": "another client refused it",
}
_NEXT_BY_ERRNO: Final[Mapping[str, str]] = {
    "EEXIST": "nothing was overwritten; give another name",
    "EACCES": "give a folder that you may write to",
    "ENOENT": "make the folder first, or give another path",
    "ENOSPC": "make room on that disk",
    "EROFS": "that disk is read-only; give another path",
}


# The daemon's own advice speaks of methods.
_ADVISED: Final = frozenset(
    {"head_not_found", "session_archived", "session_read_only", "summarizer_unavailable"}
)


def advice(error: SessiondClientError) -> str:
    """Return the line for an error."""
    return spelled(" ".join(_told(error).split()))


def _told(error: SessiondClientError) -> str:
    if isinstance(error, RpcError):
        errno = str(error.data.get("errno", ""))
        then = _NEXT_BY_ERRNO.get(errno) or _NEXT.get(error.kind)
        what = error.message
        if error.kind in _ADVISED:
            what = re.split("[;:] ", what)[0]
        return f"{what}: {then or ('try again' if error.retryable else _GIVE_UP)}"
    if isinstance(error, Unanswered) and error.outcome_unknown:
        return f"{error}: it may have been done; look at the session before you try again"
    return f"{error}: see `sessiond status`, then try again"


_GIVE_UP: Final = "press Esc to go back"
