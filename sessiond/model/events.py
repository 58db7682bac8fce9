"""The notifications that the daemon sends to its clients, by name.

`service/log/events.py` splices events from stored bytes. The shapes here are those that the
schema publishes and that tests check the events against.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond.model.entries import EntryBytes

# Spliced, not decoded: JSON allows numbers that no decoder here can represent.
_Id = Annotated[Raw, Meta(extra_json_schema={"anyOf": [{"type": "string"}, {"type": "number"}]})]


class Origin(Struct, frozen=True, omit_defaults=True):
    """The client that made an entry or sent a signal, in live events only.

    `request_id` is the id of the request, as the client sent it. `external` is true for an entry
    that a foreign writer appended to the file.
    """

    client_id: str | None = None
    request_id: _Id | UnsetType = UNSET
    external: bool = False


class SessionEvent(Struct, frozen=True):
    """A stored entry. If the entry moved a head, `head` is that head and `leaf_id` its new leaf.

    `dropped` is true, and `leaf_id` null, if the entry drops the head; else `dropped` is absent.
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
    """The end of a replay at `seq`, which was the last seq when the replay began."""

    session_id: str
    seq: int


class ReplacedTold(Struct, frozen=True):
    """Notice that the file was replaced: drop all known entries, a full replay follows."""

    session_id: str
    epoch: str
    reason: Literal["ahead", "epoch", "truncated"]


class Lagged(Struct, frozen=True):
    """Notice that the connection's buffer was full: entries after `seq` are replayed from the file.

    `dropped_signals` counts the signals lost since the previous such notice.
    """

    session_id: str
    seq: int
    dropped_signals: int


class SignalTold(Struct, frozen=True, omit_defaults=True):
    """A signal of a client to all subscribers; `data` is as it was sent.

    The signal of a prompt that waits in the session's queue has its `queue_id`. Other signals are
    stored nowhere.
    """

    session_id: str
    kind: str
    data: Raw
    origin: Origin
    queue_id: str | None = None


class Present(Struct, frozen=True, omit_defaults=True):
    """A present connection. `since` is the time at which the connection entered its state.

    `reason` says why the connection is here: it stays until the presence ends.
    """

    access: str
    state: str
    since: str
    client_id: str | None = None
    name: str | None = None
    head: str | None = None
    reason: str | None = None
    data: Raw | UnsetType = UNSET


class Departure(Struct, frozen=True, omit_defaults=True):
    """A connection that ended its presence, with the reason that it gave."""

    reason: str
    client_id: str | None = None
    name: str | None = None


class PresenceTold(Struct, frozen=True, omit_defaults=True):
    """The connections that are present now, in the order in which they came.

    `left` is a hint, told once: a connection that ended its presence just now and said why.
    """

    session_id: str
    clients: list[Present]
    left: Departure | None = None


class CompactionTold(Struct, frozen=True):
    """The state of compaction on a head.

    "recommended" means that the head's context leaves less of the window than the reserve. The
    other states report a compaction that the daemon carries out; "completed" also one that a client
    made. `tokens_after` comes with "completed", unless the lines for the estimate could not be read.
    `reason`, an error's kind, comes with "failed".
    """

    session_id: str
    head: str
    state: Literal["recommended", "started", "completed", "failed"]
    tokens_before: int
    tokens_after: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class Withdrawn(Struct, frozen=True):
    """The cancellation of a request of the daemon: the client need not answer any more."""

    id: int


ReadOnlyReason = Literal["bad_line", "older_version", "other_agent", "not_writable"]
"""Reason why a session can be read and not changed: a line that does not parse, a file of an older version

that is read where it is, or a file of a program whose files are only read.
"""


class Changed(Struct, frozen=True):
    """A change of a session's archived or read-only state.

    `read_only_reason` is null while the session can be written to.
    """

    session_id: str
    archived: bool
    read_only: bool
    read_only_reason: ReadOnlyReason | None


class Closed(Struct, frozen=True):
    """Notice that the session was closed under its subscribers; no more of its events follow."""

    session_id: str
    reason: str


CatalogChange = Literal[
    "created", "updated", "deleted", "archived", "unarchived", "switched", "many"
]


class CatalogChanged(Struct, frozen=True):
    """A change of what lists show. `session_id` is null for "many"."""

    revision: int
    session_id: str | None
    change: CatalogChange


StateChange = Literal["set", "deleted", "expired", "many"]


class StateChanged(Struct, frozen=True):
    """A hint that a key of the state store has changed; `key` null with "many": any may have changed.

    The truth is what state/get says. `revision` is that of the change, or the store's with "many".
    """

    namespace: str | None
    key: str | None
    revision: int
    change: StateChange


class Draining(Struct, frozen=True):
    """Notice that the daemon stops. Reconnect after `retry_after_ms`."""

    retry_after_ms: int


Figures = tuple[int, int | None, str]
"""Progress as a tuple: amount done, total (None if unknown), unit."""


class ProgressValue(Struct, frozen=True):
    """The progress of work: `done` of `total` (null if unknown) in `unit`."""

    kind: Literal["begin", "report", "end"]
    done: int
    total: int | None
    unit: str


class ProgressTold(Struct, frozen=True):
    """The progress of the request that gave `token`."""

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
    "state/changed": StateChanged,
    "server/draining": Draining,
    "$/progress": ProgressTold,
    "$/cancelRequest": Withdrawn,
}
