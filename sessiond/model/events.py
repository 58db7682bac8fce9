"""What the daemon tells its clients unasked, by name.

An event is spliced from stored bytes where it is made (`service/log/events.py`);
here is its shape, so that the schema, and every test, can hold it to it.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond.model.entries import EntryBytes

__all__ = [
    "NOTIFICATIONS",
    "CatalogChange",
    "CatalogChanged",
    "Changed",
    "Closed",
    "CompactionTold",
    "Draining",
    "Figures",
    "Lagged",
    "Origin",
    "PresenceTold",
    "Present",
    "ProgressTold",
    "ProgressValue",
    "ReplacedTold",
    "SessionEvent",
    "SignalTold",
    "Synced",
    "Withdrawn",
]


# Spliced, not decoded: there are numbers in JSON that no decoder here can hold.
_Id = Annotated[Raw, Meta(extra_json_schema={"anyOf": [{"type": "string"}, {"type": "number"}]})]


class Origin(Struct, frozen=True, omit_defaults=True):
    """Who made an entry, or sent a signal; live events only. `request_id` is the id of the request, as it was sent."""

    client_id: str | None = None
    request_id: _Id | UnsetType = UNSET
    external: bool = False


class SessionEvent(Struct, frozen=True):
    """One stored entry. `head` and `leaf_id` say which head it moved where, if it moved one.

    `dropped` is true, and `leaf_id` null, where the entry drops the head; else it is absent.
    """

    session_id: str
    epoch: str
    seq: int
    entry: EntryBytes
    head: str | UnsetType = UNSET
    leaf_id: str | UnsetType | None = UNSET
    dropped: Literal[True] | UnsetType = UNSET
    origin: Origin | UnsetType = UNSET


class Synced(Struct, frozen=True):
    """A replay has come to `seq`, which was the last one when it began."""

    session_id: str
    seq: int


class ReplacedTold(Struct, frozen=True):
    """The file is another one than it was: drop what you hold, everything is replayed from its start."""

    session_id: str
    epoch: str
    reason: Literal["ahead", "epoch", "truncated"]


class Lagged(Struct, frozen=True):
    """The connection was full: what follows `seq` is replayed from the file.

    `dropped_signals` counts the signals that are gone since the last time it was told.
    """

    session_id: str
    seq: int
    dropped_signals: int


class SignalTold(Struct, frozen=True):
    """What a client passes on to those who watch, and stored nowhere; `data` as it was sent."""

    session_id: str
    kind: str
    data: Raw
    origin: Origin


class Present(Struct, frozen=True, omit_defaults=True):
    """A connection that says it is there. `since` is when it came into this state."""

    access: str
    state: str
    since: str
    client_id: str | None = None
    name: str | None = None
    head: str | None = None
    data: Raw | UnsetType = UNSET


class PresenceTold(Struct, frozen=True):
    """Everybody who is present now, in the order in which they came."""

    session_id: str
    clients: list[Present]


class CompactionTold(Struct, frozen=True):
    """How a head stands: "recommended" when its context leaves less of the window than the reserve.

    The others tell of a compaction that the daemon carries out. `tokens_after` is there when it
    is completed and the disk gives what an estimate takes, `reason` (an error's kind) when it failed.
    """

    session_id: str
    head: str
    state: Literal["recommended", "started", "completed", "failed"]
    tokens_before: int
    tokens_after: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class Withdrawn(Struct, frozen=True):
    """A request of the daemon that waits at the client: its answer is not needed any more."""

    id: int


class Changed(Struct, frozen=True):
    """Whether the session is archived, or can only be read, is another thing than it was.

    `read_only_reason` is null while the session can be written to.
    """

    session_id: str
    archived: bool
    read_only: bool
    read_only_reason: Literal["bad_line"] | None


class Closed(Struct, frozen=True):
    """The session was closed under its subscribers; there are no more events of it."""

    session_id: str
    reason: str


CatalogChange = Literal["created", "updated", "deleted", "archived", "unarchived", "many"]


class CatalogChanged(Struct, frozen=True):
    """What lists show has changed. `session_id` is null for "many"."""

    revision: int
    session_id: str | None
    change: CatalogChange


class Draining(Struct, frozen=True):
    """The daemon stops. Come back after `retry_after_ms`."""

    retry_after_ms: int


Figures = tuple[int, int | None, str]
"""How much is done, of how much (None: not known), in which unit."""


class ProgressValue(Struct, frozen=True):
    """How far the work is: `done` of `total` (null when that is not known) of a unit."""

    kind: Literal["begin", "report", "end"]
    done: int
    total: int | None
    unit: str


class ProgressTold(Struct, frozen=True):
    """How far a request is that asked to be told, by the token it gave."""

    token: str | int
    value: ProgressValue


NOTIFICATIONS: Final[dict[str, type[Struct]]] = {
    "session/event": SessionEvent,
    "session/synced": Synced,
    "session/replaced": ReplacedTold,
    "session/lagged": Lagged,
    "session/signal": SignalTold,
    "session/presence": PresenceTold,
    "session/compaction": CompactionTold,
    "session/changed": Changed,
    "session/closed": Closed,
    "catalog/changed": CatalogChanged,
    "server/draining": Draining,
    "$/progress": ProgressTold,
    "$/cancelRequest": Withdrawn,
}
