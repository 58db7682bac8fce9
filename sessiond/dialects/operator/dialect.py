"""The operator dialect: files that Operator writes and can still read afterwards.

Law: an Operator file stays an Operator file. Entries are written with Operator's names and rules, and
no line is ever rewritten. A move is a `leaf` record, as in a native file. Labels and session_info are
ordinary entries and can be parents. `migrate` converts files of Operator's older generations.

    {"type":"session","version":3,"id":"…","timestamp":1784000000.25,"cwd":"/x"}
    {"id":"aa000007","timestamp":1784000008.25,"parent_id":"aa000006","type":"message",
     "message":{"contents":[{"type":"text","content":"Plan A."}],"id":"1111…",
     "timestamp":1784000008.25,"role":"user"}}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from sessiond.dialects.base import ContextLine, ContextMessage, CopyPlace, Upgrade
from sessiond.dialects.lenient_json import fields
from sessiond.dialects.member_names import MemberNames
from sessiond.dialects.message_lines import SpokenLine, UsualLines
from sessiond.dialects.native.rows import KIND_OF_ROLE
from sessiond.dialects.operator import header as operators_header
from sessiond.dialects.operator import names as operators_names
from sessiond.dialects.operator.checks import check
from sessiond.dialects.operator.compose import compose
from sessiond.dialects.operator.context import messages_of
from sessiond.dialects.operator.migrate import upgrade_of
from sessiond.dialects.times import raw_time
from sessiond.dialects.translated import Translated
from sessiond.model.entries import Entry, Header, Opaque
from sessiond.model.message_lines import MessageLines
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.row import (
    CompactionEffect,
    Effect,
    InfoEffect,
    Kind,
    LeafEffect,
    Row,
    Rules,
)

_RULES: Final = Rules(
    records=frozenset({Kind.LEAF}),
    moves="leaf",
    named_heads=False,
    replacement=False,
    atoms=False,
    auto_title=False,
    settings_are_entries=True,
    # Operator itself writes the lists into the summary, and shows the summary as it is stored.
    shows_files=False,
    truncates=False,
)


_usual: Final = UsualLines(SpokenLine, KIND_OF_ROLE)


class Operator(Translated):
    """The operator dialect; `Dialect` describes the methods."""

    members = MemberNames("model_id", "thinking_level", "read_files", "modified_files")
    parent_member = "parent_id"

    @property
    def name(self) -> str:
        """Name of the dialect."""
        return "operator"

    @property
    def rules(self) -> Rules:
        """Rules: one head, moves as records, labels and names as nodes, append only."""
        return _RULES

    def decode_header(self, line: bytes) -> Header:
        """Return the header of a file of any generation. Raises BadHeader."""
        return operators_header.decode(line)

    def encode_header(self, header: Header) -> bytes:
        """Return the first line of a new file."""
        return operators_header.encode(header)

    def upgrade(self, header: bytes) -> Upgrade | None:
        """Return the migration of a file of an older generation."""
        return upgrade_of(header)

    def wire(self, line: bytes) -> bytes:
        """Return the entry with native names and times; payloads stay unchanged."""
        return operators_names.wire(line)

    def encode(self, entry: Entry | Opaque) -> bytes:
        """Return the entry as exactly one line."""
        return operators_names.encode(entry)

    def check(self, entry: Entry | Opaque) -> None:
        """Raise EntryInvalid, which names the field, if the entry may not be stored."""
        check(entry)

    def unusual_row(self, line: bytes) -> Row:
        """Return the row of any entry by its translation. Raises BadLine."""
        found = super().unusual_row(line)
        found.effect = _effect(found.effect)
        found.timestamp = raw_time(fields(line).get("timestamp"))
        return found

    def message_lines(self, lines: Sequence[bytes]) -> MessageLines:
        """Return the columns of the usual messages up to the first line that needs a closer look."""
        return _usual.columns(_usual.read(lines))

    def placed(self, line: bytes, place: CopyPlace) -> bytes:
        """Return the line of an entry's copy in another Operator file."""
        return operators_names.placed(line, place)

    def context(self, lines: Sequence[ContextLine]) -> list[ContextMessage]:
        """Return the messages that Operator would send for these entries."""
        return messages_of(lines)

    def compose(self, message: ParsedMessage, timestamp: str) -> list[Raw]:
        """Return the message that says what a message of any dialect says."""
        return compose(message, timestamp)


OPERATOR: Final = Operator()


def _effect(effect: Effect | None) -> Effect | None:
    """Return the part of a native effect that the entry has in Operator."""
    match effect:
        case LeafEffect(target_id, drop=True):
            return LeafEffect(target_id)
        case CompactionEffect(replacement=True):
            return replace(effect, replacement=False)
        case InfoEffect(facts):
            return InfoEffect({"title": (facts.get("title") or "").strip() or None})
        case _:
            return effect
