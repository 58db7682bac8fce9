"""Notifications of a raw connection, as records."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tests.torture.payloads import digest
from tests.torture.records import Closed, Heard, Lagged, Seen, Synced, now

__all__ = ["heard"]


class _Event(Struct):
    session_id: str
    seq: int
    entry: Raw
    epoch: str
    head: str | None = None
    leaf_id: str | UnsetType | None = UNSET
    origin: dict[str, Any] = {}


class _Name(Struct):
    id: str


def heard(conn: str, method: str, raw: Raw) -> Seen | Synced | Lagged | Heard | Closed | None:
    """Return the record of a notification; None for a notification that proves nothing."""
    if method == "session/event":
        return _seen(conn, msgspec.json.decode(raw, type=_Event))
    said = msgspec.json.decode(raw)
    match method:
        case "session/synced":
            return Synced(now(), conn, said["session_id"], said["seq"])
        case "session/lagged":
            return Lagged(now(), conn, said["session_id"], said["seq"], said["dropped_signals"])
        case "session/signal":
            return Heard(now(), conn, said["session_id"], said["data"]["mark"])
        case "session/closed":
            return Closed(now(), conn, said["session_id"], said["reason"])
        case _:
            return None


def _seen(conn: str, event: _Event) -> Seen:
    return Seen(
        now(),
        conn,
        event.session_id,
        event.seq,
        msgspec.json.decode(event.entry, type=_Name).id,
        digest(event.entry),
        event.epoch,
        event.head,
        "" if isinstance(event.leaf_id, UnsetType) else event.leaf_id,
        bool(event.origin.get("external")),
    )
