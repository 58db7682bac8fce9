"""The native dialect: lines are spelled as the wire spells entries.

Law: a payload passes through as bytes. `row` reads only the role of a message and the
model that it names, because the index needs these two. Readers accept the lines of
foreign writers (numbers as timestamps, missing parents, unknown keys and types, any order
of keys). The writer has one spelling, with `type` first.

    {"type":"session_header","version":1,"id":"019a…","timestamp":"…","cwd":"/my/project"}
    {"type":"message","id":"a1b2c3d4","parent_id":null,"timestamp":"…",
     "message":{"role":"user","content":"hi"}}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from sessiond.dialects.base import ContextLine, ContextMessage, CopyPlace
from sessiond.dialects.copying import Names, placed
from sessiond.dialects.lenient_json import fields, is_null, join, lenient, one_line, with_field
from sessiond.dialects.member_names import MemberNames, NamedMembers
from sessiond.dialects.native import header as native_header
from sessiond.dialects.native import rows as native_rows
from sessiond.dialects.native.compose import compose
from sessiond.dialects.native.context import messages_of
from sessiond.model.entries import Entry, Header, Opaque
from sessiond.model.ids import MAIN
from sessiond.model.message_lines import MessageLines
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.row import Kind, MessageFacts, MessageRun, Row, Rules

_ENVELOPE_FIELDS: Final = ("id", "parent_id", "timestamp", "head", "atom", "atom_of")
_ENVELOPE: Final = frozenset({"type", *_ENVELOPE_FIELDS})
_NAMES: Final = Names("parent_id", "first_kept_entry_id", ("target_id", "from_id"))
_encoder: Final = msgspec.json.Encoder()

_RULES: Final = Rules(
    records=frozenset({Kind.LABEL, Kind.INFO, Kind.LEAF}),
    moves="leaf",
    named_heads=True,
    replacement=True,
    atoms=True,
    auto_title=True,
    shows_files=True,
    truncates=True,
    titled_header=True,
)


class Native(NamedMembers):
    """The native dialect; `Dialect` describes the methods."""

    members = MemberNames("model_id", "thinking_level", "read_files", "modified_files")
    parent_member = "parent_id"

    @property
    def name(self) -> str:
        """Name of the dialect."""
        return "native"

    @property
    def rules(self) -> Rules:
        """Rules that allow everything sessiond can do."""
        return _RULES

    def decode_header(self, line: bytes) -> Header:
        """Return the header. Raises BadHeader."""
        return native_header.decode(line)

    def encode_header(self, header: Header) -> bytes:
        """Return the first line of a new file."""
        return native_header.encode(header)

    def copied_header(self, line: bytes, session_id: str, cwd: str | None) -> bytes:
        """Return the first line of a copy, which names the id of the original."""
        copied = super().copied_header(line, session_id, cwd)
        members = fields(line)
        stated = members.get("lineage")
        lineage = lenient(stated or b"")
        is_other = stated is not None and not bytes(stated).startswith(b"{")
        if is_other or not is_null(lineage.get("header_id")):
            return copied
        return with_field(copied, "lineage", join({**lineage, "header_id": members["id"]}))

    def row(self, line: bytes) -> Row:
        """Return the row of a stored line. Raises BadLine."""
        return native_rows.row(line)

    def message_lines(self, lines: Sequence[bytes]) -> MessageLines:
        """Return the columns of the usual messages up to the first line that needs a closer look."""
        return native_rows.message_lines(lines)

    def row_of(self, entry: Entry | Opaque) -> Row:
        """Return the row of an entry to store. Raises EntryInvalid."""
        return native_rows.row_of(entry)

    def encode(self, entry: Entry | Opaque) -> bytes:
        """Return the entry as exactly one line."""
        if isinstance(entry, Entry):
            return one_line(_encoder.encode(entry))
        spelled: dict[str, Any] = {"type": entry.type}
        for name in _ENVELOPE_FIELDS:
            value = getattr(entry, name)
            if not isinstance(value, UnsetType):
                spelled[name] = value
        own = {name: raw for name, raw in entry.fields.items() if name not in _ENVELOPE}
        return one_line(_encoder.encode(spelled | own))

    def plain(self, messages: Sequence[Raw]) -> list[MessageFacts]:
        """Return the facts of the messages up to the first one without a role."""
        return native_rows.plain(messages)

    def plain_lines(self, run: MessageRun, messages: Sequence[Raw]) -> list[bytes]:
        """Return the lines of the first messages, one for each id of the run."""
        encode = _encoder.encode
        head = b"" if run.head == MAIN else b',"head":' + encode(run.head)
        shared = b',"timestamp":%b%b,"message":' % (encode(run.timestamp), head)
        lines: list[bytes] = []
        above = encode(run.parent_id)
        for entry_id, message in zip(run.ids, messages, strict=False):
            own = encode(entry_id)
            line = b'{"type":"message","id":%b,"parent_id":%b%b%b}' % (own, above, shared, message)
            lines.append(one_line(line) if b"\n" in line else line)
            above = own
        return lines

    def placed(self, line: bytes, place: CopyPlace) -> bytes:
        """Return the line of an entry's copy in another native file."""
        return placed(line, place, _NAMES)

    def wire(self, line: bytes) -> bytes:
        """Return the line itself: file and wire have one spelling."""
        return line

    def context(self, lines: Sequence[ContextLine]) -> list[ContextMessage]:
        """Return the messages of these entries, in order; payloads are sliced, not decoded."""
        return messages_of(lines)

    def compose(self, message: ParsedMessage, timestamp: str) -> list[Raw]:  # noqa: ARG002
        """Return the messages that say what a message of any dialect says."""
        return compose(message)


NATIVE: Final = Native()
