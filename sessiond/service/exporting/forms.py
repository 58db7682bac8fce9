"""Weaker forms of an entry, for a dialect that does not take the entry as it is.

Law: a form keeps what the model sees before what only a reader sees. Each form says what it loses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from sessiond.dialects.base import Dialect
from sessiond.dialects.lenient_json import items, join, lenient, text
from sessiond.dialects.payload import read_message
from sessiond.model.entries import (
    INFO_SETTINGS,
    BranchSummary,
    Custom,
    CustomMessage,
    Message,
    ModelChange,
    Opaque,
    SessionInfoEntry,
)
from sessiond.session.draft import Staged

Form = tuple[Staged, str]
"""An entry, and what the entry loses against the stored one; "" for nothing."""

_TITLE_ONLY: Final = "facts of the session besides its title were left out"
_OTHERS: Final = "facts of the session besides its title and its settings were left out"
_SPEAKER: Final = "messages of an extension for the assistant became messages for the user"
_PLAIN: Final = "messages of an extension became a plain text"
_TURN: Final = "blocks and states of turns were left out of messages"
UNKNOWN: Final = "entries of an unknown type became data of an extension"
_FROM: Final = "branch summaries no longer name the branch that was left"


def weaker_forms(entry: Staged, target: Dialect) -> Iterator[Form]:
    """Yield the forms of an entry that was refused, the best first."""
    match entry:
        case SessionInfoEntry():
            name = entry.auto_title if entry.name is UNSET else entry.name
            settings = {field: getattr(entry, field) for field in INFO_SETTINGS}
            if any(value is not UNSET for value in settings.values()):
                yield SessionInfoEntry(name=name, timestamp=entry.timestamp, **settings), _OTHERS
            if name is not UNSET:
                yield SessionInfoEntry(name=name, timestamp=entry.timestamp), _TITLE_ONLY
        case CustomMessage():
            yield from _custom_messages(entry, target)
        case Message() if entry.blocks is not UNSET or entry.turn_status is not UNSET:
            bare = Message(message=entry.message, id=entry.id, timestamp=entry.timestamp)
            yield bare, _TURN
        case ModelChange() if entry.provider is UNSET:
            yield replace(entry, provider=""), ""
        case BranchSummary() if entry.from_id is not None:
            yield replace(entry, from_id=None), _FROM
        case Opaque():
            data = Raw(join(entry.fields))
            own = Custom(custom_type=entry.type, data=data, id=entry.id, timestamp=entry.timestamp)
            yield own, UNKNOWN
        case _:
            pass


def _custom_messages(entry: CustomMessage, target: Dialect) -> Iterator[Form]:
    loss = ""
    if entry.role == "assistant":
        entry, loss = replace(entry, role=UNSET), _SPEAKER
        yield entry, loss
    spoken = _as_spoken(target, entry)
    if spoken is not None:
        yield spoken, loss
    plain = _plain(entry.content)
    if plain is not None:
        yield replace(entry, content=plain, details=UNSET), _PLAIN


def _as_spoken(target: Dialect, entry: CustomMessage) -> CustomMessage | None:
    """Return the entry with its content as a message of the target has a content."""
    reading = read_message(join({"role": Raw(b'"user"'), "content": entry.content}))
    time = entry.timestamp if isinstance(entry.timestamp, str) else ""
    made = [] if reading is None else target.compose(reading, time)
    if len(made) != 1:
        return None
    message = lenient(made[0])
    content = message.get("content", message.get("contents"))
    return None if content is None else replace(entry, content=content)


def _plain(content: Raw) -> Raw | None:
    """Return the texts of a content as one text; None if the content is a text already."""
    blocks = items(content)
    if blocks is None:
        return None
    read = map(lenient, blocks)
    # Operator's blocks have their text as `content`.
    said = (text(block.get("text")) or text(block.get("content")) for block in read)
    return Raw(msgspec.json.encode("\n".join(filter(None, said))))
