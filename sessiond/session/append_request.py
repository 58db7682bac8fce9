"""The request of an append: its entries, their place, and the condition to meet."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType

from sessiond.model.ids import MAIN, EntryId
from sessiond.session.draft import Staged


class Expected(Struct, frozen=True, forbid_unknown_fields=True):
    """The head's position as the caller believes it; a field left out is not compared."""

    leaf_id: EntryId | UnsetType | None = UNSET
    seq: int | UnsetType = UNSET


class AppendRequest(Struct):
    """An append call with typed entries."""

    session_id: str
    entries: Sequence[Staged]
    head: str = MAIN
    parent_id: str | UnsetType | None = UNSET
    expected: Expected | None = None
    lease_id: str | None = None
    branch_on_conflict: bool = False
    idempotency_key: str | None = None
    path: str = ""
    """Parameter that holds a lone entry; "" if the entry's fields are parameters themselves."""
