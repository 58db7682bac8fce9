"""Repeats: mutations that a client may send again when an answer was lost, and calls that tell an outcome.

Law: each method that may change something has a row. What only reads has none: it is sent again.

    safe      done twice it is done once, so it is sent again
    keyed     the ids of its entries or its idempotency_key name it, so it is sent again with the same ones
    guarded   an expected head or revision guards it: it is never sent again, for a first try that was done
              would be answered as a conflict
    once      neither: it is never sent again

The `check` of a row is the call that shows the state which the mutation changes; a signal changes none.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

RepeatKind = Literal["safe", "keyed", "guarded", "once"]


class Repeat(Struct, frozen=True):
    """A row: what a lost answer means for a mutation."""

    kind: RepeatKind
    check: str | None


_ROWS: Final[dict[tuple[RepeatKind, str | None], tuple[str, ...]]] = {
    ("safe", "session/get"): (
        *("session/archive", "session/unarchive", "session/delete"),
        *("session/acquire", "session/renew", "session/release"),
    ),
    ("safe", "session/list"): ("scope/resolve", "scope/switch"),
    ("safe", "secret/list"): ("secret/get",),
    ("keyed", "session/entries"): (
        *("session/append", "session/compact", "session/merge", "session/prune"),
        *("session/decide", "session/artifact", "session/task"),
    ),
    ("guarded", "session/heads"): (
        *("session/branch", "session/navigate", "session/reset", "session/rewind"),
    ),
    ("guarded", "session/get"): ("session/update",),
    ("guarded", "state/get"): ("state/set", "state/delete"),
    ("guarded", "secret/list"): ("secret/set", "secret/delete"),
    ("once", "server/ping"): ("server/stop",),
    ("once", "session/get"): ("session/create", "session/forget", "session/restore"),
    ("once", "session/list"): (
        *("session/continue_recent", "session/fork", "session/rebase", "session/import"),
        "retention/run",
    ),
    ("once", "session/labels"): ("session/label",),
    ("once", "session/trash"): ("session/purge",),
    ("once", "session/verify"): ("session/repair",),
    ("once", "state/list"): ("state/load",),
    ("once", "secret/list"): ("secret/rotate",),
    ("once", None): ("session/signal", "session/export", "state/save"),
}
REPEATS: Final = {
    name: Repeat(kind, check) for (kind, check), names in _ROWS.items() for name in names
}
"""The rows by the names of the methods."""
