"""The receipt of an append, as a value, and as JSON for many appends at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from sessiond.session.draft import Draft

_encode: Final = msgspec.json.Encoder().encode
_RECEIPT: Final = (
    b'{"entries":[{"id":%b,"parent_id":%b,"seq":%d,"timestamp":%b}],"leaf_id":%b,"seq":%d'
    b',"head":%b,"duplicate":false,"durability":%b}'
)


class StoredEntry(Struct, frozen=True):
    """A stored entry as the receipt of an append reports it."""

    id: str
    parent_id: str | None
    seq: int
    timestamp: str


class Receipt(Struct):
    """The answer to an append: the stored entries, the head's new position, the durability.

    `duplicate`: an earlier call stored these entries, and the receipt names them as stored then.
    `durability` is known once the batch is stored.
    """

    entries: list[StoredEntry]
    leaf_id: str | None
    seq: int
    head: str
    duplicate: bool
    durability: Literal["disk", "os", "memory"] = "disk"


def receipts_of_run(draft: Draft, offsets: Sequence[int], durability: str) -> list[bytes]:
    """Return the receipts, as JSON, of rows that were staged in runs, given where they are.

    Each row is one call's only entry, and the leaf of its head.
    """
    texts: list[bytes] = []
    first, rows = draft.base_seq + 1, draft.rows
    durable = _encode(durability)
    last_id, own = None, b"null"
    last_head, head = None, b""
    # The lines of a draft that were given no time have the draft's.
    now = _encode(draft.now)
    for offset in offsets:
        row, seq = rows[offset], first + offset
        above = own if row.parent_id == last_id else _encode(row.parent_id)
        last_id, own = row.id, _encode(row.id)
        if row.head is not last_head:
            last_head, head = row.head, _encode(row.head)
        texts.append(_RECEIPT % (own, above, seq, now, own, seq, head, durable))
    return texts
