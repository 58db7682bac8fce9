"""What a compaction came to, as its caller is told: the entry, and what it saved."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.errors import StorageError
from sessiond.service.actor.actor import Host
from sessiond.service.ports import Ticket

__all__ = ["CompactResult", "EntryRef", "compacted", "tokens_around"]


class EntryRef(Struct, frozen=True):
    """An entry by id and seq."""

    id: str
    seq: int


class CompactResult(Struct, frozen=True):
    """The compaction, and what it saved.

    The figures are estimates unless given; null where the disk does not give what they take.
    """

    entry: EntryRef
    leaf_id: str | None
    seq: int
    tokens_before: int | None
    tokens_after: int | None


def compacted(
    host: Host, ticket: Ticket, result: CompactResult, said: int | None
) -> CompactResult | Any:
    """The result with its figures; LATER when estimating them takes a while.

    `said` is the figure before, where it needs no estimate.
    """

    async def estimate() -> CompactResult:
        return await tokens_around(host, result, said)

    above = host.opened.session.parents[result.entry.seq]
    try:
        before = host.estimates.now(above) if said is None else said
        after = host.estimates.now(result.entry.seq)
    except StorageError:
        # It is stored all the same, which is what the caller has to know.
        return _with(result, said, None)
    if before is None or after is None:
        return host.later(ticket, estimate)
    return _with(result, before, after)


async def tokens_around(host: Host, result: CompactResult, said: int | None) -> CompactResult:
    """The result with its figures."""
    seq = result.entry.seq
    above = host.opened.session.parents[seq]
    try:
        before = await host.estimates.ask(above) if said is None else said
        return _with(result, before, await host.estimates.ask(seq))
    except StorageError:
        return _with(result, said, None)


def _with(result: CompactResult, before: int | None, after: int | None) -> CompactResult:
    return CompactResult(result.entry, result.leaf_id, result.seq, before, after)
