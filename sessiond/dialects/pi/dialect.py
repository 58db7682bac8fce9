"""The pi dialect: files that pi 0.73 and 1.5 write and can still read afterwards.

Law: a pi file stays a pi file. Entries are written with pi's names and rules, and no
line is ever rewritten. pi does not record the leaf, so a move is a `custom` entry below
the target. Labels and session_info are ordinary entries and can be parents. `migrate`
converts files of versions 1 and 2.

    {"type":"session","version":3,"id":"…","timestamp":"2026-02-01T09:00:00.000Z","cwd":"/x"}
    {"type":"message","id":"10000003","parentId":"10000002","timestamp":"…",
     "message":{"role":"user","content":"Fix the flaky test","timestamp":1769936401000}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct

from sessiond import typed
from sessiond.dialects.base import (
    BadLine,
    ContextLine,
    ContextMessage,
    CopyPlace,
    Upgrade,
)
from sessiond.dialects.copying import Names, placed
from sessiond.dialects.lenient_json import fields, lenient, reference, require_readable, text
from sessiond.dialects.member_names import MemberNames, NamedMembers
from sessiond.dialects.message_lines import DECODE_ERRORS, Said, UsualLine, UsualLines
from sessiond.dialects.pi import header as pi_header
from sessiond.dialects.pi import names as pi_names
from sessiond.dialects.pi.checks import check
from sessiond.dialects.pi.compose import compose
from sessiond.dialects.pi.context import messages_of
from sessiond.dialects.pi.migrate import upgrade_of
from sessiond.dialects.settings import level_name, model_name
from sessiond.dialects.times import raw_time
from sessiond.dialects.usage import usage_in
from sessiond.model.entries import HEADER_TYPES, Entry, Header, Opaque
from sessiond.model.message_lines import MessageLines
from sessiond.model.nesting import SHALLOW_BYTES
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.row import (
    CompactionEffect,
    Effect,
    InfoEffect,
    Kind,
    LabelEffect,
    MessageFacts,
    MessageRun,
    ModelName,
    Row,
    Rules,
)
from sessiond.model.usage import Usage
from sessiond.model.working.annotations import custom_effect

_RULES: Final = Rules(
    records=frozenset(),
    moves="custom",
    named_heads=False,
    replacement=False,
    atoms=False,
    auto_title=False,
    settings_are_entries=True,
    # pi itself writes the lists into the summary, and shows the summary as it is stored.
    shows_files=False,
    truncates=False,
)
_NAMES: Final = Names("parentId", "firstKeptEntryId", ("targetId", "fromId"))
_ASSISTANT: Final = int(Kind.ASSISTANT)
_OTHER_ROLE: Final = int(Kind.OTHER_ROLE)
_KIND_OF_ROLE: Final[dict[str, int]] = {
    "user": int(Kind.USER),
    "assistant": _ASSISTANT,
    "toolResult": int(Kind.TOOL),
}


class _Line(Struct, gc=False, rename={"parent_id": "parentId"}):
    """The members of a usual line that the index reads."""

    type: str
    id: Annotated[str, Meta(min_length=1)]
    parent_id: str | None = None
    timestamp: str | float | None = None
    message: Said | None = None


class _UsualLine(UsualLine, frozen=True, gc=False):
    """The members of a usual message line that the index reads."""

    parent_id: str | None = msgspec.field(default=None, name="parentId")


_line: Final = typed.decoder(_Line)
_usual: Final = UsualLines(_UsualLine, _KIND_OF_ROLE)


class Pi(NamedMembers):
    """The pi dialect; `Dialect` describes the methods."""

    members = MemberNames("modelId", "thinkingLevel", "readFiles", "modifiedFiles")
    parent_member = "parentId"

    @property
    def name(self) -> str:
        """Name of the dialect."""
        return "pi"

    @property
    def rules(self) -> Rules:
        """Rules: one head, no records, append only."""
        return _RULES

    def decode_header(self, line: bytes) -> Header:
        """Return the header of a file of any version. Raises BadHeader."""
        return pi_header.decode(line)

    def encode_header(self, header: Header) -> bytes:
        """Return the first line of a new file."""
        return pi_header.encode(header)

    def upgrade(self, header: bytes) -> Upgrade | None:
        """Return the migration of a file of version 1 or 2."""
        return upgrade_of(header)

    def row(self, line: bytes) -> Row:
        """Return the row of a stored line. Raises BadLine."""
        try:
            found = _line.decode(line)
        except DECODE_ERRORS:
            return _unusual_row(line)
        if len(line) > SHALLOW_BYTES or not line.isascii():
            require_readable(line)
        said = found.message
        if found.type != "message" or said is None:
            return _unusual_row(line)
        kind = _KIND_OF_ROLE.get(said.role, _OTHER_ROLE)
        made = Row(kind, found.id, found.parent_id or None, timestamp=found.timestamp)
        if kind == _ASSISTANT:
            if said.model:
                made.setting = ModelName(said.model, said.provider or None)
            if said.usage is not UNSET:
                made.usage = usage_in(said.usage)
        return made

    def message_lines(self, lines: Sequence[bytes]) -> MessageLines:
        """Return the columns of the usual messages up to the first line that needs a closer look."""
        made = _usual.columns(_usual.read(lines))
        # pi spells "no parent" as an empty id too.
        made.parent_ids = [one or None for one in made.parent_ids]
        return made

    def row_of(self, entry: Entry | Opaque) -> Row:
        """Return the row of an entry to store. Raises EntryInvalid."""
        check(entry)
        return self.row(pi_names.encode(entry))

    def encode(self, entry: Entry | Opaque) -> bytes:
        """Return the entry as exactly one line."""
        return pi_names.encode(entry)

    def plain(self, messages: Sequence[Raw]) -> list[MessageFacts]:  # noqa: ARG002
        """Return nothing: pi reads more of a message, so each one needs a closer look."""
        return []

    def plain_lines(self, run: MessageRun, messages: Sequence[Raw]) -> list[bytes]:  # noqa: ARG002
        """Return nothing: no message is plain here."""
        assert not run.ids, "no message is plain here"
        return []

    def placed(self, line: bytes, place: CopyPlace) -> bytes:
        """Return the line of an entry's copy in another pi file."""
        if place.first_kept_id is None:
            # pi spells "keep no entry" as "the first kept entry is the compaction itself".
            place = msgspec.structs.replace(place, first_kept_id=place.id)
        return placed(line, place, _NAMES)

    def wire(self, line: bytes) -> bytes:
        """Return the entry with native names and times; payloads stay unchanged."""
        return pi_names.wire(line)

    def context(self, lines: Sequence[ContextLine]) -> list[ContextMessage]:
        """Return the messages that pi would send for these entries."""
        return messages_of(lines)

    def compose(self, message: ParsedMessage, timestamp: str) -> list[Raw]:
        """Return the messages that say what a message of any dialect says."""
        return compose(message, timestamp)


PI: Final = Pi()


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
    kind: int = pi_names.KIND_OF_PI_TYPE.get(word, Kind.OPAQUE)
    setting: ModelName | str | None = None
    usage: Usage | None = None
    if kind == Kind.MODEL:
        setting = model_name(found, "modelId")
    elif kind == Kind.THINKING:
        setting = level_name(text(found.get("thinkingLevel")))
    elif word == "message":
        said = lenient(found.get("message", b""))
        role = text(said.get("role"))
        kind = Kind.OPAQUE if role is None else _KIND_OF_ROLE.get(role, _OTHER_ROLE)
        if kind == _ASSISTANT:
            setting = model_name(said, "model")
            usage = usage_in(said["usage"]) if "usage" in said else None
    return Row(
        kind,
        entry_id,
        reference(found.get("parentId")) or None,
        setting=setting,
        effect=_effect(kind, entry_id, found),
        timestamp=raw_time(found.get("timestamp")),
        usage=usage,
    )


def _effect(kind: int, entry_id: str, found: Mapping[str, Raw]) -> Effect | None:
    match kind:
        case Kind.LABEL:
            target = reference(found.get("targetId")) or ""
            return LabelEffect(target, text(found.get("label")) or None)
        case Kind.INFO:
            return InfoEffect({"title": text(found.get("name")) or None})
        case Kind.COMPACTION:
            kept = reference(found.get("firstKeptEntryId"))
            return CompactionEffect(None if kept == entry_id else kept, replacement=False)
        case Kind.CUSTOM:
            return custom_effect(text(found.get("customType")) or "", found.get("data"))
        case _:
            return None
