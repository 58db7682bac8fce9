"""session/build_context: the messages that a model is sent at a head or an entry."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sessiond.errors import EntryNotFound, HeadNotFound
from sessiond.methods._shared.common import SessionParams, ask, page_limit
from sessiond.methods._shared.context_since import ContextQuestion, Known
from sessiond.methods._shared.place import cursor_numbers, leaf_of, other_cursor
from sessiond.model.entries import MessageBytes
from sessiond.model.ids import EntryId, HeadName
from sessiond.model.row import ModelName
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.session.index import Session
from sessiond.session.providers.shapes import Shape, View


class BuildContextParams(SessionParams):
    """Head or entry; the context that the caller holds; the view; further parts to include; the page."""

    head: HeadName | None = None
    entry_id: EntryId | None = None
    known: Known | None = None
    if_none_match: str | None = None
    repair: bool = False
    shape: Shape = "stored"
    include: list[Literal["system"]] | None = None
    limit: int | None = None
    cursor: str | None = None


class BuildContextResult(Struct, frozen=True):
    """Messages from index `unchanged` on, and the source entry of each message (null: no entry).

    The first `unchanged` messages have equal bytes and equal sources in both contexts, or stand on the
    pages before this one. `next_cursor` comes with pages only, and is null on the last one.

    `tokens` is an estimate of the whole context, see "Estimates" in protocol.md.
    """

    messages: list[MessageBytes]
    sources: list[str | None]
    thinking_level: str
    model: ModelName | None
    leaf_id: str | None
    seq: int
    etag: str
    tokens: int
    unchanged: int
    system: str | UnsetType | None = UNSET
    next_cursor: str | UnsetType | None = UNSET


class NotModified(Struct, frozen=True):
    """Answer that the caller's context is current."""

    etag: str
    not_modified: bool = True


def handle(client: Client, params: BuildContextParams, call: Call[Client]) -> Any:
    """Answer on the loop if the context is cached, else splice the answer in a worker thread."""

    def look(actor: SessionActor) -> Any:
        question = _question(actor, params)
        if call.result_meta is None:
            call.result_meta = _told(actor.opened.session, question.leaf)
        if params.cursor is None and params.if_none_match == question.etag:
            return NotModified(question.etag)
        answer = question.stored_now() if question.is_stored else question.viewed_now()
        if answer is not None:
            return answer
        return actor.later(call, question.stored if question.is_stored else question.viewed)

    return ask(client, call, params.session_id, look)


def _question(actor: SessionActor, params: BuildContextParams) -> ContextQuestion:
    """Return the question of a call. Raise InvalidParams for a cursor of another context."""
    session, start, pages = actor.opened.session, 0, None
    if params.cursor is None:
        leaf = leaf_of(session, params)
    else:
        leaf, start, pages = cursor_numbers(session, params.cursor, 1, 3, nodes=True)
    is_paged = params.cursor is not None or params.limit is not None
    question = ContextQuestion(
        actor=actor,
        leaf=leaf,
        seq=actor.seq,
        known=params.known if params.cursor is None else None,
        view=View(params.repair, params.shape),
        system=_system(actor) if params.include else UNSET,
        settings=actor.opened.stated.at(session, leaf),
        start=start,
        limit=page_limit(params.limit) if is_paged else None,
    )
    if pages not in {None, question.pages}:
        raise other_cursor()
    return question


def _told(session: Session, leaf: int) -> bytes | None:
    """Return `_meta` with what the path to a leaf lacks; None where it lacks nothing."""
    found = session.gaps(session.up(leaf))
    return msgspec.json.encode({"problems": found[::-1]}) if found else None


def _system(actor: SessionActor) -> str | None:
    """Return the system prompt of the session."""
    prompt = actor.opened.whole().system_prompt
    return prompt if isinstance(prompt, str) else None


METHOD = Method(
    name="session/build_context",
    aliases=("build_context",),
    params=BuildContextParams,
    result=BuildContextResult | NotModified,
    handle=handle,
    errors=(
        EntryNotFound,
        HeadNotFound,
    ),
)
