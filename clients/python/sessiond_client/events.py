"""The events of a subscription, and the place in the log where the subscription goes on.

An `EntryEvent` comes once per entry and in the order of `seq`. `Replaced` is the
one event that takes something back: everything held of the session is void.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond_client.generated.messages import *  # noqa: F403 - their public place is here
from sessiond_client.generated.messages import (
    EntryEvent,
    Lagged,
    Presence,
    Replaced,
    Signal,
    Synced,
)


class Flushed(Struct, frozen=True):
    """The answer to `request_flush`: every entry up to `seq` came before this event."""

    session_id: str
    seq: int


class Notice(Struct, frozen=True):
    """Any other notification about the session, its closing for one."""

    session_id: str
    method: str
    params: dict[str, Any]


class Changed(Notice, frozen=True):
    """A notice that the session became archived or read-only, or ceased to be."""

    archived: bool
    read_only: bool
    read_only_reason: str | None = None


Event = EntryEvent | Synced | Flushed | Lagged | Replaced | Signal | Presence | Notice
