"""The sharur dialect: files that sharur writes and can still read afterwards.

Law: a sharur file stays a sharur file. The header is the root of its tree, so an entry without a
parent names the header. The leaf is the last record: a move is a `custom` entry below the target.
A second `session` line, which sharur's branches have, is an entry without a meaning.

    {"type":"session","id":"3f8e…","timestamp":"2026-04-27T14:00:00.250831204Z","version":3}
    {"type":"message","id":"0000…","parentId":"3f8e…","timestamp":"2026-04-27T14:00:03.25Z",
     "message":{"role":"user","content":"Fix the retry bug","timestamp":"2026-04-27T14:00:03.25Z"}}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from sessiond.dialects.base import BadLine, ContextLine, ContextMessage, CopyPlace, Upgrade
from sessiond.dialects.copying import Names, placed
from sessiond.dialects.lenient_json import fields, reference, require_readable, text
from sessiond.dialects.member_names import MemberNames
from sessiond.dialects.message_lines import SpokenLine, UsualLines
from sessiond.dialects.native.rows import KIND_OF_ROLE
from sessiond.dialects.sharur import header as sharur_header
from sessiond.dialects.sharur import names as sharur_names
from sessiond.dialects.sharur.checks import check, check_size
from sessiond.dialects.sharur.compose import compose
from sessiond.dialects.sharur.context import SUMMARY_ROLE, listed_files, messages_of
from sessiond.dialects.sharur.migrate import flat_line, upgrade_of
from sessiond.dialects.sharur.values import line_time
from sessiond.dialects.times import raw_time
from sessiond.dialects.translated import Translated
from sessiond.model.entries import INFO_SETTINGS, Entry, Header, Opaque, SessionInfoEntry
from sessiond.model.message_lines import MessageLines
from sessiond.model.parsed_message import ParsedMessage, Summary
from sessiond.model.row import CompactionEffect, InfoEffect, Kind, Row, Rules

_RULES: Final = Rules(
    records=frozenset(),
    moves="custom",
    named_heads=False,
    replacement=False,
    atoms=False,
    auto_title=False,
    settings_are_entries=True,
    # sharur itself writes the lists into the summary, and shows the summary as it is stored.
    shows_files=False,
    truncates=False,
    notices=True,
    strict_kept=True,
    custom_speaks=False,
    header_is_root=True,
    uuids=True,
    file_lists="sharur",
    # sharur takes the name from the last session_info.
    whole_info=("name",),
    # sharur shows the first 8 characters of an id, and ends with an error on a shorter one.
    id_chars_min=8,
)
# A file from before the tree is a list.
_FLAT_RULES: Final = msgspec.structs.replace(_RULES, is_list=True)
_NAMES: Final = Names("parentId", "firstKeptEntryId", ("targetId", "fromId"))


class _UsualLine(SpokenLine, frozen=True, gc=False, kw_only=True):
    """The members of a usual message line that the index reads."""

    parent_id: str | None = msgspec.field(default=None, name="parentId")


_usual: Final = UsualLines(_UsualLine, KIND_OF_ROLE)


class Sharur(Translated):
    """The sharur dialect of one file; `Dialect` describes the methods."""

    members = MemberNames("model_id", "thinking_level", "readFiles", "modifiedFiles")
    parent_member = "parentId"

    def __init__(self, header: Header | None = None) -> None:
        self._header_id = "" if header is None else header.id
        self._title = None if header is None else header.title
        self._is_flat = header is not None and header.version == sharur_header.FLAT_VERSION
        self._header_ids = frozenset[str]() if header is None else sharur_header.header_ids(header)

    @property
    def name(self) -> str:
        """Name of the dialect."""
        return "sharur"

    @property
    def rules(self) -> Rules:
        """Rules: one head, no records, append only, and sharur's way with compactions."""
        return _FLAT_RULES if self._is_flat else _RULES

    def for_file(self, header: Header) -> Sharur:
        """Return the dialect of the file with this header, which the file's lines name."""
        return Sharur(header)

    def decode_header(self, line: bytes) -> Header:
        """Return the header of a file of any version. Raises BadHeader."""
        return sharur_header.decode(line)

    def encode_header(self, header: Header) -> bytes:
        """Return the first line of a new file."""
        return sharur_header.encode(header)

    def copied_header(self, line: bytes, session_id: str, cwd: str | None) -> bytes:
        """Return the first line of a copy, with another id."""
        return sharur_header.copied(line, session_id, cwd)

    def upgrade(self, header: bytes) -> Upgrade | None:
        """Return the migration, which finds out whether the file is an export."""
        return upgrade_of(header)

    def check(self, entry: Entry | Opaque) -> None:
        """Raise EntryInvalid if the entry may not be stored."""
        check(entry)

    def wire(self, line: bytes) -> bytes:
        """Return the native line. Raises BadLine."""
        return sharur_names.wire(line, self._header_ids)

    def encode(self, entry: Entry | Opaque) -> bytes:
        """Return the entry as exactly one line; a session_info without a name has the header's."""
        if isinstance(entry, SessionInfoEntry) and isinstance(entry.name, UnsetType):
            entry = msgspec.structs.replace(entry, name=self._title or msgspec.UNSET)
        return sharur_names.encode(entry, self._header_id)

    def message_lines(self, lines: Sequence[bytes]) -> MessageLines:
        """Return the columns of the usual messages up to the first line that needs a closer look."""
        made = _usual.columns(_usual.read(lines))
        # The header is the root of sharur's tree, and is no entry here.
        is_none = ("", *self._header_ids)
        made.parent_ids = [None if one in is_none else one for one in made.parent_ids]
        # sharur writes nanoseconds; an index, like the wire, knows milliseconds.
        made.times = list(map(line_time, made.times))
        return made

    def unusual_row(self, line: bytes) -> Row:
        """Return the row of any entry by its translation. Raises BadLine."""
        native = self.wire(line)
        found = fields(native)
        if text(found.get("type")) == "session":
            return _second_header(native, found)
        made = super().unusual_row(line)
        match made.effect:
            case CompactionEffect(first_kept):
                made.effect = CompactionEffect(first_kept, replacement=False)
            case InfoEffect(facts):
                kept = {name: facts[name] for name in INFO_SETTINGS if name in facts}
                made.effect = InfoEffect({"title": facts.get("title")} | kept)
            case _:
                pass
        return made

    def require_line(self, line: bytes) -> None:
        """Raise TooLarge for a line that sharur does not read."""
        check_size(flat_line(line) if self._is_flat else line)

    def placed(self, line: bytes, place: CopyPlace) -> bytes:
        """Return the line of an entry's copy in this file."""
        found = fields(line)
        changes: dict[str, str | UnsetType | None] = {}
        if place.parent_id is None:
            changes["parent_id"] = self._header_id
            if sharur_names.type_of(found) == "session" and "parentId" not in found:
                changes["parent_id"] = msgspec.UNSET
        if place.first_kept_id is None:
            # The header is no message: sharur then shows everything, instead of the summary alone.
            kept = reference(found.get("firstKeptEntryId"))
            changes["first_kept_id"] = self._header_id if kept else msgspec.UNSET
        return placed(line, msgspec.structs.replace(place, **changes), _NAMES)

    def context(self, lines: Sequence[ContextLine]) -> list[ContextMessage]:
        """Return the messages that sharur would send for these entries."""
        return messages_of(lines)

    def compose(self, message: ParsedMessage, timestamp: str) -> list[Raw]:
        """Return the messages that say what a message of any dialect says."""
        return compose(message, timestamp)

    def summary(self, line: bytes) -> Summary:
        """Return the content of the summary in a line; sharur lists the files in its text."""
        found = super().summary(line)
        if found.read or found.modified:
            return found
        return Summary(found.text, *listed_files(found.text or ""))

    def read(self, message: bytes) -> ParsedMessage | None:
        """Decode a message of a context."""
        found = super().read(message)
        if found is not None and found.role == SUMMARY_ROLE:
            return msgspec.structs.replace(found, role="compaction_summary")
        return found


SHARUR: Final = Sharur()


def _second_header(native: bytes, found: dict[str, Raw]) -> Row:
    """Return the row of a header that is not the first line. Raises BadLine."""
    require_readable(native)
    entry_id = text(found.get("id"))
    if not entry_id:
        raise BadLine("has no id")
    stamp = raw_time(found.get("timestamp"))
    return Row(int(Kind.OPAQUE), entry_id, reference(found.get("parent_id")), timestamp=stamp)
