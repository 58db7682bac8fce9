"""The piglet dialect: files that piglet writes and can still read afterwards.

Law: a piglet file stays a piglet file. Entries are written with piglet's names and rules, and no
line is ever rewritten. The last entry of any type is the leaf, so a move is a branch summary
below the target, and this node becomes the leaf. A label is a node, too. A `meta` line is none and
moves nothing: it states all facts of the session again, so the dialect of a file knows the header.

    {"type":"meta","ts":"…","data":{"id":"7c2f1a90-…","cwd":"/x","createdAt":"…"}}
    {"type":"user","id":"a1b2c3d4","ts":"2026-04-24T10:00:02.104233817-04:00",
     "data":{"content":"explain the auth flow","timestamp":"2026-04-24T10:00:02.104233817-04:00"}}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from msgspec import Raw

from sessiond.dialects.base import ContextLine, ContextMessage, CopyPlace, Upgrade
from sessiond.dialects.member_names import MemberNames
from sessiond.dialects.piglet import header as piglet_header
from sessiond.dialects.piglet import names, placing, writing
from sessiond.dialects.piglet.checks import INFO_FIELDS, check, require_line
from sessiond.dialects.piglet.compose import compose
from sessiond.dialects.piglet.context import messages_of
from sessiond.dialects.piglet.legacy import PigletUpgrade
from sessiond.dialects.piglet.meta import lineage_of_facts
from sessiond.dialects.piglet.usual import message_lines
from sessiond.dialects.translated import Translated
from sessiond.model.entries import Entry, Header, Opaque
from sessiond.model.message_lines import MessageLines
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.row import InfoEffect, Kind, Row, Rules

_RULES: Final = Rules(
    records=frozenset({Kind.INFO}),
    moves="branch_summary",
    named_heads=False,
    replacement=True,
    pointer=False,
    atoms=False,
    auto_title=False,
    # piglet has no file lists, and shows a summary as it is stored.
    shows_files=False,
    truncates=False,
    whole_info=INFO_FIELDS,
    titled_header=True,
    sidecar_lock=True,
)


class Piglet(Translated):
    """The piglet dialect; `Dialect` describes the methods. `header` is that of one file."""

    members = MemberNames("model_id", "thinking_level", "readFiles", "modifiedFiles")
    parent_member = "parentId"

    def __init__(self, header: Header | None = None) -> None:
        self._header = header or Header()

    @property
    def name(self) -> str:
        """Name of the dialect."""
        return "piglet"

    @property
    def rules(self) -> Rules:
        """Rules: one head, labels are nodes, a compaction is its messages."""
        return _RULES

    def for_file(self, header: Header) -> Self:
        """Return the dialect of one file, whose `meta` lines state the facts of its header."""
        return type(self)(header)

    def decode_header(self, line: bytes) -> Header:
        """Return the header. Raises BadHeader."""
        return piglet_header.decode(line)

    def encode_header(self, header: Header) -> bytes:
        """Return the first line of a new file."""
        return piglet_header.encode(header)

    def copied_header(self, line: bytes, session_id: str, cwd: str | None) -> bytes:
        """Return the first line of a copy, with another id."""
        return piglet_header.copied(line, session_id, cwd)

    def restated(self, line: bytes, header: Header) -> bytes:
        """Return the line of an entry in a copy with this header."""
        return placing.restated(line, header)

    def upgrade(self, header: bytes) -> Upgrade | None:
        """Return the migration of a file, which is an older one if an entry has no id."""
        return PigletUpgrade(header)

    def message_lines(self, lines: Sequence[bytes]) -> MessageLines:
        """Return the columns of the usual messages up to the first line that needs a closer look."""
        return message_lines(lines)

    def unusual_row(self, line: bytes) -> Row:
        """Return the row of any entry by its translation. Raises BadLine."""
        found = super().unusual_row(line)
        if isinstance(found.effect, InfoEffect):
            facts = found.effect.facts
            facts["lineage"] = lineage_of_facts(facts.get("metadata"))
        return found

    def require_line(self, line: bytes) -> None:
        """Raise EntryInvalid for a line that is too long for piglet."""
        require_line(line)

    def check(self, entry: Entry | Opaque) -> None:
        """Raise EntryInvalid, which names the field, if the entry may not be stored."""
        check(entry)

    def encode(self, entry: Entry | Opaque) -> bytes:
        """Return the entry as exactly one line."""
        return writing.encode(entry, self._header)

    def wire(self, line: bytes) -> bytes:
        """Return the entry with native names and times; payloads stay unchanged."""
        return names.wire(line)

    def context(self, lines: Sequence[ContextLine]) -> list[ContextMessage]:
        """Return the messages that piglet would send for these entries."""
        return messages_of(lines)

    def placed(self, line: bytes, place: CopyPlace) -> bytes:
        """Return the line of an entry's copy in another piglet file."""
        return placing.placed(line, place)

    def compose(self, message: ParsedMessage, timestamp: str) -> list[Raw]:
        """Return the messages that say what a message of any dialect says."""
        return compose(message, timestamp)


PIGLET: Final = Piglet()
