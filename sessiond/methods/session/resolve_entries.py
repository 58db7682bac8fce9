"""session/resolve_entries: find the entries named by ids, labels, or parts of ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from anyio import to_thread
from msgspec import Meta, Struct

from sessiond.errors import AmbiguousRef, EntryNotFound
from sessiond.limits import INLINE_WALK_STEPS, MATCHES_SHOWN_MAX, PAGE_ROWS_DEFAULT
from sessiond.methods._shared.common import SessionParams, ask
from sessiond.model.ids import EntryId
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.session.index import Session
from sessiond.session.refs import entries_meant, short_ids, steps_to_resolve


class ResolveEntriesParams(SessionParams):
    """Text that a person wrote for each entry."""

    refs: Annotated[list[EntryId], Meta(min_length=1, max_length=PAGE_ROWS_DEFAULT)]


class EntryMeant(Struct, frozen=True):
    """Entry, and the shortest text that names this entry alone."""

    entry_id: str
    seq: int
    short: str


class EntryMatch(EntryMeant, frozen=True):
    """Entry among several that a ref may name."""

    label: str | None


class ResolveEntriesResult(Struct, frozen=True):
    """Entries in the order of the refs."""

    entries: list[EntryMeant]


def handle(client: Client, params: ResolveEntriesParams, call: Call[Client]) -> Any:
    """Answer from the index; in a worker thread if all ids of a long session are compared."""
    refs = params.refs

    def look(actor: SessionActor) -> Any:
        session = actor.opened.session
        if steps_to_resolve(session, refs) <= INLINE_WALK_STEPS:
            return _resolve(session, refs)
        return actor.later(call, lambda: to_thread.run_sync(_resolve, session, refs))

    return ask(client, call, params.session_id, look)


def _resolve(session: Session, refs: list[str]) -> ResolveEntriesResult:
    found = entries_meant(session, refs)
    seqs = [_only(session, refs, at, seqs) for at, seqs in enumerate(found)]
    return ResolveEntriesResult([*_meant(session, seqs)])


def _only(session: Session, refs: list[str], at: int, found: list[int]) -> int:
    """Return the one entry that a ref names. Raise EntryNotFound, AmbiguousRef."""
    ref, path = refs[at], f"refs[{at}]"
    if not found:
        what = "no entry has this id or label, and no id begins or ends with this text"
        raise EntryNotFound(what, entry_id=ref, path=path)
    if len(found) > 1:
        matches = [
            EntryMatch(one.entry_id, one.seq, one.short, session.label_at(one.seq, session.seq))
            for one in _meant(session, found[:MATCHES_SHOWN_MAX])
        ]
        what = "more than one entry matches: send the id of one"
        raise AmbiguousRef(what, path=path, ref=ref, matches=msgspec.to_builtins(matches))
    return found[0]


def _meant(session: Session, seqs: list[int]) -> Iterator[EntryMeant]:
    shorts = short_ids(session, seqs)
    for seq in seqs:
        yield EntryMeant(session.names[seq], seq, shorts[seq])


METHOD = Method(
    name="session/resolve_entries",
    params=ResolveEntriesParams,
    result=ResolveEntriesResult,
    handle=handle,
    access="read",
    errors=(
        EntryNotFound,
        AmbiguousRef,
    ),
)
