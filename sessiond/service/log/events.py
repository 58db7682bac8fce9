"""Notifications as bytes: an event is encoded once and shared by all its receivers.

{"jsonrpc":"2.0","method":"session/event","params":{"session_id":"…","epoch":"…",
 "seq":7,"entry":{…the stored line…},"head":"main","leaf_id":"a1b2c3d4",
 "origin":{"client_id":"…","request_id":3}}}
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from sessiond.dialects.lenient_json import lenient, text
from sessiond.model.events import Origin
from sessiond.model.row import TYPE_OF_KIND, Kind, LeafEffect, Row, Rules

_encoder = msgspec.json.Encoder()
_HEAD: Final = b'{"jsonrpc":"2.0","method":"%s","params":%s}'


class Event(Struct):
    """Entry on its way to subscribers."""

    seq: int
    row: Row
    wire: bytes
    origin: Origin | None = None


def type_word(kind: int, wire: bytes) -> str:
    """Return the entry's type in the spelling of the wire."""
    return TYPE_OF_KIND.get(kind) or text(lenient(wire).get("type")) or ""


def notification(method: str, params: Struct) -> bytes:
    """Return the body of a notification."""
    return _HEAD % (method.encode(), _encoder.encode(params))


def event_prefix(session_id: str, epoch: str) -> bytes:
    """Return the beginning of all events of a session, up to the seq."""
    named = _encoder.encode({"session_id": session_id, "epoch": epoch})
    return b'{"jsonrpc":"2.0","method":"session/event","params":' + named[:-1] + b',"seq":'


def event_body(prefix: bytes, event: Event, rules: Rules, *, bodies: bool) -> bytes:
    """Return the event's body, with the whole entry or only its id, type and parent."""
    row = event.row
    parts = [prefix, b"%d" % event.seq, b',"entry":']
    if bodies:
        parts.append(event.wire)
    else:
        brief = {
            "id": row.id,
            "type": type_word(row.kind, event.wire),
            "parent_id": row.parent_id,
        }
        parts.append(_encoder.encode(brief))
    if row.kind not in rules.records:
        parts += (b',"head":', _encoder.encode(row.head), b',"leaf_id":', _encoder.encode(row.id))
    elif row.kind == Kind.LEAF and isinstance(row.effect, LeafEffect):
        leaf_id = None if row.effect.drop else row.effect.target_id
        parts += (b',"head":', _encoder.encode(row.head), b',"leaf_id":', _encoder.encode(leaf_id))
        if row.effect.drop:
            parts.append(b',"dropped":true')
    if event.origin is not None:
        parts += (b',"origin":', _encoder.encode(event.origin))
    parts.append(b"}}")
    return b"".join(parts)
