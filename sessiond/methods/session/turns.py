"""session/turns: return a path as turns, as a chat shows them or as an agent runs them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from typing import Annotated, Any, Final, Literal

from anyio import to_thread
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond.dialects.lenient_json import fields, lenient, text
from sessiond.errors import HeadNotFound
from sessiond.limits import INLINE_WALK_STEPS, RESULT_BYTES_MAX
from sessiond.methods._shared.common import SessionParams, ask, encode, page_limit, raw
from sessiond.methods._shared.place import cursor_numbers, cursor_of, head_leaf
from sessiond.model.ids import MAIN, HeadName
from sessiond.model.usage import Usage
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.log.turn_reader import answers_a_call, read_turn
from sessiond.session.turns.blocks import ShownBlock
from sessiond.session.turns.boundaries import TurnSpan, turns_down, turns_up
from sessiond.session.turns.turn import ShownTurn, TurnPart

# Room for what stands around the turns of an answer.
_FRAME_BYTES: Final = 4096
# Of a turn that alone is larger than an answer: bytes of a block that is shown whole, tried in this order.
_BLOCK_BYTES: Final = (64 * 1024, 8 * 1024, 1024)


class TurnsParams(SessionParams):
    """View and head of the turns, from either end."""

    view: Literal["chat", "agent"] = "chat"
    head: HeadName = MAIN
    limit: int | None = None
    cursor: str | None = None
    from_end: bool = False


class TurnAt(Struct, frozen=True, kw_only=True):
    """A turn: its first and last line, and the members of the view.

    The id is that of the entry with which the turn begins.
    """

    id: str
    seq: int
    last_seq: int
    status: Annotated[str, Meta(description="pending, streaming, done, error, or as stored")]
    timestamp: str | UnsetType = UNSET
    request: list[ShownBlock] | UnsetType = UNSET
    response: list[ShownBlock] | UnsetType = UNSET
    started_at: str | UnsetType = UNSET
    ended_at: str | UnsetType | None = UNSET
    usage: Usage | UnsetType | None = UNSET


class TurnsResult(Struct, frozen=True):
    """Page of turns, oldest first; with `from_end` the pages go towards the root."""

    turns: list[TurnAt]
    next_cursor: str | None
    leaf_id: str | None
    seq: int


class _Page(Struct, frozen=True):
    """Beginning of a page: the leaf of its path, its first line; its size; whether the leaf streams, and what came."""

    leaf: int
    at: int | None
    limit: int
    is_streaming: bool
    streamed: list[ShownBlock]


def handle(client: Client, params: TurnsParams, call: Call[Client]) -> Any:
    """Walk up from the leaf, and read the lines of the turns."""
    limit = page_limit(params.limit)

    def look(actor: SessionActor) -> Any:
        session = actor.opened.session
        if params.cursor is None:
            leaf, at = head_leaf(session, params.head), None
        else:
            leaf, at = cursor_numbers(session, params.cursor, 2, 2, nodes=True)
        presence = actor.hub.presence
        streams = presence.streams(params.head)
        head = session.heads.get(params.head)
        streamed = presence.streamed(params.head, head) if head and head.leaf == leaf else []
        page, upto = _Page(leaf, at, limit, streams, streamed), session.seq
        journal = actor.opened.journal
        is_near = session.depths[leaf] <= INLINE_WALK_STEPS
        if is_near and (not upto or journal.span_bytes(1, upto) <= actor.opened.inline_bytes):
            return _read(actor, params, page, upto)
        return actor.later(call, lambda: to_thread.run_sync(_read, actor, params, page, upto))

    return ask(client, call, params.session_id, look)


def _read(actor: SessionActor, params: TurnsParams, page: _Page, upto: int) -> Raw:
    """Return the answer: as many turns as there are asked for and as fit."""
    opened, leaf = actor.opened, page.leaf
    found: list[bytes] = []
    size, more = _FRAME_BYTES, None
    spans = _spans(actor, page, from_end=params.from_end)
    for span in islice(spans, page.limit):
        is_last = span.last == leaf
        turn = read_turn(opened, span, is_last=is_last)
        if is_last and page.is_streaming and turn.status == "pending":
            turn.status = "streaming"
            turn.response += page.streamed
        shown = _fitting(turn, span, params.view)
        size += len(shown) + 1
        if found and size > RESULT_BYTES_MAX:
            spans = chain((span,), spans)
            break
        found.append(shown)
    after = next(spans, None)
    if after is not None:
        more = cursor_of(opened.session, (leaf, after.last if params.from_end else after.first))
    if params.from_end:
        found.reverse()
    tail = {"next_cursor": more, "leaf_id": opened.session.id_of(leaf), "seq": upto}
    return raw((b'{"turns":[', b",".join(found), b"],", encode(tail)[1:]))


def _spans(actor: SessionActor, page: _Page, *, from_end: bool) -> Iterator[TurnSpan]:
    """Yield the turns of the page and of all pages behind it, in the order of reading."""
    opened = actor.opened
    session, answers_call = opened.session, partial(answers_a_call, opened)
    if from_end:
        return turns_up(session, page.leaf if page.at is None else page.at, answers_call)
    path = session.path(page.leaf)
    first = 0 if page.at is None else bisect_left(path, page.at)
    return turns_down(session, path[first:], answers_call)


def _fitting(turn: ShownTurn, span: TurnSpan, view: str) -> bytes:
    """Return the turn; where it alone is larger than an answer, without the contents of its largest blocks."""
    shown = _shown(turn, span, view)
    for block_bytes in _BLOCK_BYTES:
        if len(shown) <= RESULT_BYTES_MAX - _FRAME_BYTES:
            break
        turn.request = [_light(part, block_bytes) for part in turn.request]
        turn.response = [_light(part, block_bytes) for part in turn.response]
        shown = _shown(turn, span, view)
    return shown


def _light(part: TurnPart, bytes_max: int) -> TurnPart:
    """Return a block; of a larger one its type, and in its metadata how many bytes were left out."""
    size, meta = len(encode(part)), b"{}"
    if size <= bytes_max:
        return part
    if isinstance(part, ShownBlock):
        word = part.type
        if part.meta is not UNSET and len(part.meta) < bytes_max // 2:
            meta = bytes(part.meta)
    else:
        word = text(lenient(part).get("type")) or "custom"
    return ShownBlock.of(word, "", {**fields(meta), "left_out": size})


def _shown(turn: ShownTurn, span: TurnSpan, view: str) -> bytes:
    parts = {"id": turn.id, "seq": span.first, "last_seq": span.last}
    if view == "agent":
        agents = {
            "status": turn.status,
            "started_at": turn.started_at,
            "ended_at": turn.ended_at,
            "usage": turn.usage,
        }
        return encode(parts | agents)
    chats = {
        "request": [*map(_as_block, turn.request)],
        "response": [*map(_as_block, turn.response)],
        "status": turn.status,
        "timestamp": turn.timestamp,
    }
    return encode(parts | chats)


def _as_block(part: TurnPart) -> TurnPart:
    """Return a block of an answer; a stored one that is no object with a `type` is put into a custom block."""
    if isinstance(part, ShownBlock) or text(lenient(part).get("type")) is not None:
        return part
    return Raw(b'{"type":"custom","content":"","meta":{"block":%s}}' % bytes(part))


METHOD = Method(
    name="session/turns",
    params=TurnsParams,
    result=TurnsResult,
    handle=handle,
    errors=(HeadNotFound,),
)
