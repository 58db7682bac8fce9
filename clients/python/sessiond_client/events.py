"""What a subscription yields, and the place in the log where it goes on.

An `EntryEvent` comes once per entry and in the order of `seq`. `Replaced` is the
one event that takes something back: everything held of the session is void.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond_client import wire

__all__ = [
    "READ_OBJECT",
    "After",
    "Cursor",
    "EntryEvent",
    "EntryName",
    "Event",
    "Flushed",
    "Lagged",
    "Notice",
    "Presence",
    "Present",
    "Replaced",
    "Signal",
    "Synced",
]


class Cursor(Struct, frozen=True, omit_defaults=True):
    """A place in a session's log, and what proves that it is still the same log."""

    seq: int
    entry_id: str | UnsetType = UNSET
    epoch: str | UnsetType = UNSET


After = Cursor | Mapping[str, Any] | Literal[0]


class EntryName(Struct, frozen=True):
    """What an entry is called."""

    id: str
    type: str


_READ_NAME: Final = wire.reader(EntryName)
READ_OBJECT: Final = wire.reader(dict[str, Any])
_READ_ANY: Final[Callable[[Raw], Any]] = wire.reader(object)


class EntryEvent(Struct, frozen=True, dict=True):
    """An entry was stored. `raw` is its bytes as stored, `entry` a reading of them."""

    session_id: str
    epoch: str
    seq: int
    raw: Raw = msgspec.field(name="entry")
    head: str | UnsetType = UNSET
    leaf_id: str | UnsetType | None = UNSET
    """The head's leaf right after this entry; unset where the entry moves no head."""
    origin: dict[str, Any] | UnsetType = UNSET

    @cached_property
    def entry(self) -> dict[str, Any]:
        """The entry, decoded when first asked for."""
        return READ_OBJECT(self.raw)

    @cached_property
    def name(self) -> EntryName:
        """The entry's `id` and `type`, without reading its payload."""
        return _READ_NAME(self.raw)

    @property
    def cursor(self) -> Cursor:
        """Give it as `after` to go on behind this entry, also in another process."""
        return Cursor(self.seq, self.name.id, self.epoch)


class Synced(Struct, frozen=True):
    """A replay has caught up: what follows is live."""

    session_id: str
    seq: int


class Flushed(Struct, frozen=True):
    """What `request_flush` asked for: every entry up to `seq` came before this."""

    session_id: str
    seq: int


class Lagged(Struct, frozen=True):
    """This consumer was too slow; the daemon replays from the log. No entry is missing.

    So many signals are, since the last time it was told.
    """

    session_id: str
    seq: int
    dropped_signals: int = 0


class Replaced(Struct, frozen=True):
    """The log is not the one that was read before: drop what you hold. All of it is replayed."""

    session_id: str
    epoch: str
    reason: str = ""


class Signal(Struct, frozen=True, dict=True):
    """Somebody told all who watch. `raw` is what, as it was sent, `data` a reading of it."""

    session_id: str
    kind: str
    raw: Raw = msgspec.field(name="data", default=Raw(b"null"))
    origin: dict[str, Any] | UnsetType = UNSET

    @cached_property
    def data(self) -> Any:
        """What it says, decoded when first asked for."""
        return _READ_ANY(self.raw)


class Present(Struct, frozen=True):
    """A connection that says it is there; `since` is when it came into this state."""

    state: str
    access: str = "write"
    since: str = ""
    client_id: str | None = None
    name: str | None = None
    head: str | None = None
    data: Any = None


class Presence(Struct, frozen=True):
    """Everybody who is present now; what was told before is void."""

    session_id: str
    clients: list[Present]


class Notice(Struct, frozen=True):
    """Any other notification about the session, its closing for one."""

    session_id: str
    method: str
    params: dict[str, Any]


Event = EntryEvent | Synced | Flushed | Lagged | Replaced | Signal | Presence | Notice
