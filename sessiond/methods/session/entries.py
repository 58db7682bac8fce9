"""session/entries: read the log forwards or backwards, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

from anyio import to_thread
from msgspec import Meta, Raw, Struct

from sessiond.errors import InvalidParams
from sessiond.limits import RESULT_BYTES_MAX
from sessiond.methods._shared.common import SessionParams, ask, encode, page_limit, raw
from sessiond.methods._shared.rows import entry_row
from sessiond.model.entries import EntryBytes
from sessiond.model.row import Kind
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.log.chunks import chunks
from sessiond.service.log.events import type_word
from sessiond.service.log.open_session import OpenSession


class EntriesParams(SessionParams):
    """Page after one seq, or before one seq backwards."""

    after_seq: Annotated[int, Meta(ge=0)] | None = None
    before_seq: Annotated[int, Meta(ge=0)] | None = None
    limit: int | None = None
    types: list[str] | None = None


class EntryAt(Struct, frozen=True):
    """Entry and its seq."""

    seq: int
    entry: EntryBytes


class EntriesResult(Struct, frozen=True):
    """Page of entries; `next_seq` is the cursor of the next page, null at the end."""

    entries: list[EntryAt]
    next_seq: int | None
    seq: int


def handle(client: Client, params: EntriesParams, call: Call[Client]) -> Any:
    """Read a page of the lines that exist now."""
    if params.after_seq is not None and params.before_seq is not None:
        raise InvalidParams(
            "a page has one direction: send after_seq or before_seq", path="before_seq"
        )
    limit = page_limit(params.limit)

    def look(actor: SessionActor) -> Any:
        upto = actor.seq
        size = actor.opened.journal.span_bytes(1, upto) if upto else 0
        if size <= actor.opened.inline_bytes:
            return _page(actor.opened, params, limit, upto)
        return actor.later(
            call, lambda: to_thread.run_sync(_page, actor.opened, params, limit, upto)
        )

    return ask(client, call, params.session_id, look)


def _page(opened: OpenSession, params: EntriesParams, limit: int, upto: int) -> Raw:
    rows: list[bytes] = []
    size = 0
    next_seq: int | None = None
    backwards = params.before_seq is not None
    last = 0
    for seq, line in _lines(opened, params, limit, upto):
        row = entry_row(opened, seq, line)
        if len(rows) == limit or (rows and size + len(row) > RESULT_BYTES_MAX // 2):
            next_seq = last
            break
        rows.append(row)
        size += len(row)
        last = seq
    if backwards and next_seq is not None and next_seq <= 1:
        next_seq = None
    tail = b'],"next_seq":%s,"seq":%d}' % (encode(next_seq), upto)
    return raw((b'{"entries":[', b",".join(rows), tail))


def _lines(
    opened: OpenSession, params: EntriesParams, limit: int, upto: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the requested lines in the requested direction, read a chunk at a time."""
    kinds = opened.session.kinds
    types = frozenset(params.types) if params.types is not None else None
    if params.before_seq is not None:
        order = range(min(params.before_seq - 1, upto), 0, -1)
    else:
        order = range((params.after_seq or 0) + 1, upto + 1)
    entries = (seq for seq in order if kinds[seq] != Kind.NONE)
    # One more than the page has tells that there is a next page.
    wanted = entries if types is not None else islice(entries, limit + 1)
    for chunk in chunks(opened.journal, wanted):
        for seq, line in zip(chunk, opened.journal.read_many(chunk), strict=True):
            if types is None or type_word(kinds[seq], opened.dialect.wire(line)) in types:
                yield seq, line


METHOD = Method(name="session/entries", params=EntriesParams, result=EntriesResult, handle=handle)
