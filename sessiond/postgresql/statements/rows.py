"""The row of a session: its columns, and its position as a condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from sessiond.postgresql.company import SENDERS, senders_of
from sessiond.postgresql.statements.prepared import number
from sessiond.service.database.database import Head

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

# A person may have put a time there that is infinite, or that no number of nanoseconds can say.
_WRITTEN: Final = (
    "(least(greatest(extract(epoch FROM written_at), 0), 9000000000) * 1000000)::bigint"
)
HEAD: Final = (
    "number, session_id, epoch, seq, digest, size, place, is_deleted,"
    f" {_WRITTEN}, version, leases,"
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
)
"""Columns of a `Head`; times are in microseconds since 1970."""

SEEN: Final = f"{HEAD}, {SENDERS}"
"""Columns of a `Head` with the senders of the session, in one snapshot.

Not for a statement that waits for the row: it would see the senders as they were before the wait.
"""

CHANGED: Final = "changed = pg_current_xact_id(), version = version + 1"
"""A row's every change but an append: appends under way find another version."""

DELETED: Final = f"{CHANGED}, is_deleted = true, leases = ''"
"""A delete, which ends the leases: a restore does not bring them back."""

OF_VERSION: Final = "number = %(number)s AND version = %(version)s"
"""Condition of a change that is not tied to a position: carried out late, the change finds another version."""

AT: Final = (
    "number = %(number)s AND epoch = %(epoch)s AND seq = %(seq)s AND digest = %(digest)s"
    " AND version = %(version)s AND NOT is_deleted"
)
"""Condition that a session is at a position."""


def position(at: Head) -> dict[str, Any]:
    """Return the values of AT, and of OF_VERSION."""
    return {
        "number": at.number,
        "epoch": at.epoch,
        "seq": at.seq,
        "digest": at.digest,
        "version": at.version,
    }


def id_of(data: bytes) -> str:
    """Return the id in a row; for bytes that a person has put there and that are no text, how SQL spells them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"\\x{data.hex()}"


def head_of(row: Sequence[Any]) -> Head:
    """Return the row that HEAD or SEEN names, also one that a person has changed."""
    number, session_id, epoch, seq, digest, size, place, is_deleted, *rest = row
    written_us, version, leases, now_us, *senders = rest
    return Head(
        number,
        id_of(bytes(session_id)),
        epoch,
        seq,
        bytes(digest),
        size,
        place,
        is_deleted=is_deleted,
        written_ns=written_us * 1000,
        version=version,
        leases=bytes(leases),
        now_ns=now_us * 1000,
        senders=senders_of(*senders) if senders else None,
    )


def heads_in(result: PGresult) -> list[Head]:
    """Return the rows of a prepared statement that selects HEAD or SEEN."""
    return [
        _from_binary([result.get_value(row, column) for column in range(result.nfields)])
        for row in range(result.ntuples)
    ]


def _from_binary(row: Sequence[bytes | None]) -> Head:
    first, session_id, epoch, seq, digest, size, place, is_deleted, *rest = row
    written_us, version, leases, now_us, *senders = rest
    return head_of(
        [
            number(first),
            session_id,
            (epoch or b"").decode(),
            number(seq),
            digest,
            number(size),
            (place or b"").decode(),
            is_deleted == b"\x01",
            number(written_us),
            number(version),
            leases,
            number(now_us),
            *((one or b"").decode() for one in senders),
        ]
    )
