"""Result of a compaction for its caller: the entry, and the tokens saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct

from sessiond.errors import StorageError
from sessiond.model.events import CompactionTold
from sessiond.service.actor.actor import SessionActor
from sessiond.service.log.events import notification
from sessiond.service.ports import Ticket


class EntryRef(Struct, frozen=True):
    """Entry by id and seq."""

    id: str
    seq: int


class CompactResult(Struct, frozen=True):
    """Stored compaction, and the tokens saved.

    The figures are estimates unless the caller sent them; null if the disk cannot read their lines.
    """

    entry: EntryRef
    leaf_id: str | None
    seq: int
    tokens_before: int | None
    tokens_after: int | None


def tell_completed(actor: SessionActor, head: str, result: CompactResult) -> None:
    """Tell subscriptions with signals that a compaction is stored."""
    after = UNSET if result.tokens_after is None else result.tokens_after
    before = result.tokens_before or 0
    tell(actor, CompactionTold(actor.session_id, head, "completed", before, after))


def tell(actor: SessionActor, told: CompactionTold) -> None:
    """Tell subscriptions with signals of a compaction."""
    actor.hub.signals.hint(notification("session/compaction", told))


def stored_result(actor: SessionActor, head: str, stored: int) -> CompactResult:
    """Return the result of a compaction at this seq, for a caller who did not store it."""
    session = actor.opened.session
    at = session.heads.get(head)
    leaf_id = None if at is None else session.id_of(at.leaf)
    return CompactResult(EntryRef(session.names[stored], stored), leaf_id, session.seq, None, None)


def result_with_figures(
    actor: SessionActor,
    ticket: Ticket,
    result: CompactResult,
    said: int | None,
    then: Callable[[CompactResult], None] | None = None,
) -> CompactResult | Any:
    """Return the result with its figures, or DEFERRED while they are estimated.

    `said` is the figure before the compaction, if it needs no estimate; `then` gets the result.
    """

    def made(whole: CompactResult) -> CompactResult:
        if then is not None:
            then(whole)
        return whole

    async def estimate() -> CompactResult:
        return made(await tokens_around(actor, result, said))

    above = actor.opened.session.parents[result.entry.seq]
    try:
        before = actor.estimates.now(above) if said is None else said
        after = actor.estimates.now(result.entry.seq)
    except StorageError:
        # The compaction is stored, which matters more to the caller than the figures.
        return made(_with(result, said, None))
    if before is None or after is None:
        return actor.later(ticket, estimate)
    return made(_with(result, before, after))


async def tokens_around(
    actor: SessionActor, result: CompactResult, said: int | None
) -> CompactResult:
    """Return the result with its figures."""
    seq = result.entry.seq
    above = actor.opened.session.parents[seq]
    try:
        before = await actor.estimates.ask(above) if said is None else said
        return _with(result, before, await actor.estimates.ask(seq))
    except StorageError:
        return _with(result, said, None)


def _with(result: CompactResult, before: int | None, after: int | None) -> CompactResult:
    return CompactResult(result.entry, result.leaf_id, result.seq, before, after)
