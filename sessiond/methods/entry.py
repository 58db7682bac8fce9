"""session/entry: one entry and how it stands in the tree."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from msgspec import Raw, Struct

from sessiond.errors import EntryNotFound
from sessiond.methods.common import Call, Client, Method, SessionParams, ask, encode, raw
from sessiond.methods.rows import children_are_near, entry_row, is_small
from sessiond.model.entries import EntryBytes
from sessiond.model.ids import EntryId
from sessiond.service.host import Host

__all__ = ["METHOD"]


class EntryParams(SessionParams):
    """Which entry."""

    entry_id: EntryId


class EntryResult(Struct, frozen=True):
    """The entry as stored, its seq, the ids of its children in file order, its label."""

    entry: EntryBytes
    seq: int
    children: list[str]
    label: str | None


def handle(client: Client, params: EntryParams, call: Call[Client]) -> Any:
    """Read one line."""

    def look(host: Host) -> Any:
        opened = host.opened
        seq = opened.session.ids.get(params.entry_id, 0)
        if not seq:
            raise EntryNotFound("no entry of this id", entry_id=params.entry_id, path="entry_id")
        upto = opened.session.seq
        if children_are_near(host) and is_small(opened, (seq,)):
            return _read(host, seq, upto)
        return host.later(call, lambda: to_thread.run_sync(_read, host, seq, upto))

    return ask(client, call, params.session_id, look)


def _read(host: Host, seq: int, upto: int) -> Raw:
    opened = host.opened
    session = opened.session
    host.children.extend(session, upto)
    children = [session.names[child] for child in host.children.children(seq, upto=upto)]
    label = encode(session.label_at(seq, upto))
    more = b',"children":%s,"label":%s' % (encode(children), label)
    return raw((entry_row(opened, seq, opened.journal.read(seq, seq)[0], more),))


METHOD = Method(
    name="session/entry",
    params=EntryParams,
    result=EntryResult,
    handle=handle,
    errors=(EntryNotFound,),
)
