"""session/entry: read one entry and its place in the tree."""

from __future__ import annotations

from functools import partial
from typing import Any

from anyio import to_thread
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.dialects.base import BadLine
from sessiond.errors import EntryNotFound
from sessiond.methods._shared.common import SessionParams, ask, encode, raw
from sessiond.methods._shared.rows import children_are_near, entry_row, is_small
from sessiond.model.entries import EntryBytes
from sessiond.model.ids import EntryId
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.log.annotations import annotations_of
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.rewritten import changed


class EntryParams(SessionParams):
    """Id of the entry."""

    entry_id: EntryId


class EntryResult(Struct, frozen=True):
    """Entry as stored, its seq, the ids of its children in file order, its label.

    `annotations` is there if the entry has any: the sum of them.
    """

    entry: EntryBytes
    seq: int
    children: list[str]
    label: str | None
    annotations: dict[str, Any] | UnsetType = UNSET


def handle(client: Client, params: EntryParams, call: Call[Client]) -> Any:
    """Read one line."""

    def look(actor: SessionActor) -> Any:
        opened = actor.opened
        session = opened.session
        seq = session.ids.get(params.entry_id, 0)
        if not seq:
            raise EntryNotFound("no entry of this id", entry_id=params.entry_id, path="entry_id")
        upto = opened.session.seq
        if children_are_near(actor) and is_small(opened, (seq, *session.annotations_at(seq, upto))):
            return _read(actor, params.entry_id, seq, upto)
        read = partial(_read, actor, params.entry_id, seq, upto)
        return actor.later(call, lambda: to_thread.run_sync(read))

    return ask(client, call, params.session_id, look)


def _read(actor: SessionActor, entry_id: str, seq: int, upto: int) -> Raw:
    opened = actor.opened
    session = opened.session
    actor.children.extend(session, upto)
    children = [session.names[child] for child in actor.children.children(seq, upto=upto)]
    label = encode(session.label_at(seq, upto))
    more = b',"children":%s,"label":%s' % (encode(children), label)
    if annotations := annotations_of(opened, seq, upto):
        more += b',"annotations":' + encode(annotations)
    (line,) = opened.journal.read(seq, seq)
    _require_same(opened, entry_id, line)
    return raw((entry_row(opened, seq, line, more),))


def _require_same(opened: OpenSession, entry_id: str, line: bytes) -> None:
    """Raise StorageError if another program replaced the line since its seq was looked up."""
    try:
        same = opened.dialect.row(line).id == entry_id
    except BadLine:
        same = False
    if not same:
        raise changed(opened.path)


METHOD = Method(
    name="session/entry",
    params=EntryParams,
    result=EntryResult,
    handle=handle,
    errors=(EntryNotFound,),
)
