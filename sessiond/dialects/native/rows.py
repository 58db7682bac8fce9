"""The rows of native lines.

Law: a usual message costs one decode of a few short fields. Any other line may cost more,
but gets a row too. An opening calls `row` once per line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.dialects.base import BadLine
from sessiond.dialects.entry_members import type_of_entry
from sessiond.dialects.lenient_json import fields, lenient, reference, require_readable, text
from sessiond.dialects.message_lines import DECODE_ERRORS, NamedSaid, SpokenLine, UsualLines
from sessiond.dialects.native.checks import RESULT_ROLES, check
from sessiond.dialects.native.effects import effect_of_entry, effect_of_fields
from sessiond.dialects.settings import level_name, model_name
from sessiond.dialects.times import raw_time
from sessiond.dialects.usage import usage_in
from sessiond.model.entries import (
    HEADER_TYPES,
    Entry,
    Message,
    ModelChange,
    Opaque,
    ThinkingLevelChange,
)
from sessiond.model.ids import MAIN
from sessiond.model.message_lines import MessageLines
from sessiond.model.nesting import SHALLOW_BYTES
from sessiond.model.row import KIND_OF_TYPE, Kind, MessageFacts, ModelName, Row
from sessiond.model.usage import Usage

# Plain ints: an IntEnum member costs an attribute look-up a line.
_ASSISTANT: Final = int(Kind.ASSISTANT)
_OTHER_ROLE: Final = int(Kind.OTHER_ROLE)
_OPAQUE: Final = int(Kind.OPAQUE)
KIND_OF_ROLE: Final[dict[str, int]] = {
    "user": int(Kind.USER),
    "assistant": _ASSISTANT,
    **dict.fromkeys(RESULT_ROLES, int(Kind.TOOL)),
}
"""Kind of a message by its role; every other role has one kind."""


# Types of lines that say more than the members of a usual line.
_KNOWN: Final = frozenset({*KIND_OF_TYPE, *HEADER_TYPES})

_FACTS_OF_ROLE: Final = {
    role: MessageFacts(kind) for role, kind in KIND_OF_ROLE.items() if kind != _ASSISTANT
}
_NO_ROLE: Final = MessageFacts(int(Kind.OPAQUE))


class _Line(Struct, gc=False):
    """The members of a usual line that the index reads."""

    type: str
    id: Annotated[str, Meta(min_length=1)]
    parent_id: str | None = None
    head: str = MAIN
    atom: tuple[int, int] | None = None
    timestamp: str | float | None = None
    atom_of: str | None = None
    message: NamedSaid | None = None


class _UsualLine(SpokenLine, frozen=True, gc=False, kw_only=True):
    """The members of a usual message line that the index reads; it has no `atom`."""

    head: str = MAIN
    atom: None = None
    atom_of: str | None = None


_line: Final = typed.decoder(_Line)
_said: Final = typed.decoder(NamedSaid)
_numbers: Final = typed.decoder(tuple[int, int])
_usual: Final = UsualLines(_UsualLine, KIND_OF_ROLE)


def row(line: bytes) -> Row:
    """Return the row of a stored line. Raises BadLine."""
    try:
        found = _line.decode(line)
    except DECODE_ERRORS:
        return _unusual_row(line)
    # The decoder does not check the encoding of skipped members, but clients get the whole line.
    if len(line) > SHALLOW_BYTES or not line.isascii():
        require_readable(line)
    said = found.message
    if said is not None and found.type == "message":
        kind = KIND_OF_ROLE.get(said.role, _OTHER_ROLE)
    elif found.type not in _KNOWN:
        # A record of an agent that says nothing, as half of the lines of some are.
        kind = _OPAQUE
    else:
        return _unusual_row(line)
    made = Row(kind, found.id, found.parent_id, found.head or MAIN)
    if kind == _ASSISTANT and said is not None:
        if said.model:
            made.setting = ModelName(said.model, said.provider or None)
        if isinstance(said.usage, Raw):
            made.usage = usage_in(said.usage)
    made.timestamp = found.timestamp
    if found.atom is not None:
        made.atom = _sane(found.atom)
        made.atom_of = found.atom_of
    return made


def message_lines(lines: Sequence[bytes]) -> MessageLines:
    """Return the columns of the usual messages up to the first line that needs a closer look."""
    found = _usual.read(lines)
    made = _usual.columns(found)
    made.heads = [line.head or MAIN for line in found]
    return made


def row_of(entry: Entry | Opaque) -> Row:
    """Return the row of an entry to store. Raises EntryInvalid."""
    kind: int = Kind.OPAQUE
    setting: ModelName | str | None = None
    usage: Usage | None = None
    if isinstance(entry, Message):
        # One decode of the payload serves both the check and the row.
        facts = _message_facts(entry.message)
        kind, setting, usage = facts.kind, facts.model, facts.usage
        if kind == Kind.OPAQUE or entry.blocks is not UNSET:
            check(entry)
    else:
        check(entry)
        if isinstance(entry, Entry):
            kind = KIND_OF_TYPE[type_of_entry(entry)]
            setting = _setting_of(entry)
    assert isinstance(entry.id, str), "the writer gives every entry an id"
    return Row(
        kind,
        entry.id,
        None if isinstance(entry.parent_id, UnsetType) else entry.parent_id,
        MAIN if isinstance(entry.head, UnsetType) else entry.head,
        setting,
        effect_of_entry(entry),
        None if isinstance(entry.atom, UnsetType) else entry.atom,
        None if isinstance(entry.timestamp, UnsetType) else entry.timestamp,
        usage=usage,
    )


def plain(messages: Sequence[Raw]) -> list[MessageFacts]:
    """Return the facts of the messages up to the first one without a role."""
    found: list[MessageFacts] = []
    for message in messages:
        facts = _message_facts(message)
        if facts.kind == _OPAQUE:
            break
        found.append(facts)
    return found


def _setting_of(entry: Entry) -> ModelName | str | None:
    match entry:
        case ModelChange(model_id=model_id, provider=provider) if model_id:
            return ModelName(model_id, provider if isinstance(provider, str) and provider else None)
        case ThinkingLevelChange(thinking_level=level):
            return level_name(level)
        case _:
            return None


def _unusual_row(line: bytes) -> Row:
    """Return the row of any entry, decoded field by field. Raises BadLine."""
    require_readable(line)
    found = fields(line)
    word, entry_id = text(found.get("type")), text(found.get("id"))
    if word is None:
        raise BadLine("has no type")
    if not entry_id:
        raise BadLine("has no id")
    if word in HEADER_TYPES:
        raise BadLine("is a second header")
    kind: int = KIND_OF_TYPE.get(word, Kind.OPAQUE)
    setting: ModelName | str | None = None
    usage: Usage | None = None
    if word == "message":
        facts = _message_facts(found.get("message"))
        kind, setting, usage = facts.kind, facts.model, facts.usage
    elif kind == Kind.MODEL:
        setting = model_name(found, "model_id")
    elif kind == Kind.THINKING:
        setting = level_name(text(found.get("thinking_level")))
    return Row(
        kind,
        entry_id,
        reference(found.get("parent_id")),
        text(found.get("head")) or MAIN,
        setting,
        effect_of_fields(kind, found),
        _atom(found.get("atom")),
        raw_time(found.get("timestamp")),
        text(found.get("atom_of")),
        usage,
    )


def _message_facts(message: Raw | None) -> MessageFacts:
    """Return the facts of a message; its kind is opaque if it has no role."""
    if message is None:
        return _NO_ROLE
    try:
        said = _said.decode(message)
    except DECODE_ERRORS:
        found = lenient(message)
        role = text(found.get("role"))
        if not role:
            return _NO_ROLE
        said = NamedSaid(role, text(found.get("model")), text(found.get("provider")))
        if "usage" in found:
            said.usage = found["usage"]
    facts = _FACTS_OF_ROLE.get(said.role)
    if facts is not None:
        return facts
    kind = KIND_OF_ROLE.get(said.role, _OTHER_ROLE)
    if kind != _ASSISTANT:
        return MessageFacts(kind)
    return MessageFacts(
        kind,
        ModelName(said.model, said.provider or None) if said.model else None,
        usage_in(said.usage) if isinstance(said.usage, Raw) else None,
    )


def _atom(raw: Raw | None) -> tuple[int, int] | None:
    if raw is None:
        return None
    try:
        return _sane(_numbers.decode(raw))
    except msgspec.DecodeError:
        return None


def _sane(atom: tuple[int, int]) -> tuple[int, int] | None:
    """Return the atom; None if its numbers make no sense."""
    return atom if 1 <= atom[0] <= atom[1] else None
