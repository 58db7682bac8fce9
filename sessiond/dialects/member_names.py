"""Methods of dialects that differ in the names of members alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import msgspec
from msgspec import Raw, Struct

from sessiond.dialects.base import Upgrade
from sessiond.dialects.lenient_json import lenient, text, with_field
from sessiond.dialects.payload import read_message, reading_of
from sessiond.dialects.preview import entry_preview
from sessiond.dialects.settings import level_name, model_name
from sessiond.dialects.summaries import summary_of
from sessiond.dialects.times import raw_rfc3339
from sessiond.dialects.words import entry_texts
from sessiond.limits import PREVIEW_CHARS
from sessiond.model.entries import Header
from sessiond.model.parsed_message import ParsedMessage, Summary
from sessiond.model.row import ModelName
from sessiond.model.searched import Searched


class MemberNames(Struct, frozen=True):
    """Names of members, as a dialect spells them."""

    model_id: str
    thinking_level: str
    read_files: str
    modified_files: str


class NamedMembers:
    """The part of a dialect that `members` decides; `Dialect` describes the methods."""

    members: ClassVar[MemberNames]

    def for_file(self, header: Header) -> Self:  # noqa: ARG002
        """Return this dialect: its lines do not depend on the header."""
        return self

    def copied_header(self, line: bytes, session_id: str, cwd: str | None) -> bytes:
        """Return the first line of a copy, with another id."""
        line = with_field(line, "id", msgspec.json.encode(session_id))
        return line if cwd is None else with_field(line, "cwd", msgspec.json.encode(cwd))

    def restated(self, line: bytes, header: Header) -> bytes:  # noqa: ARG002
        """Return the line itself: it repeats nothing of a header."""
        return line

    def upgrade(self, header: bytes) -> Upgrade | None:  # noqa: ARG002
        """Return None: there is one version."""
        return None

    def timestamp(self, line: bytes) -> str:
        """Return the time of the entry."""
        return raw_rfc3339(lenient(line).get("timestamp"))

    def model(self, line: bytes) -> ModelName | None:
        """Return the model that a model change or assistant message names; None for no model."""
        found = lenient(line)
        if text(found.get("type")) == "message":
            return model_name(lenient(found.get("message", b"")), "model")
        return model_name(found, self.members.model_id)

    def thinking_level(self, line: bytes) -> str:
        """Return the level that a thinking level change sets."""
        return level_name(text(lenient(line).get(self.members.thinking_level)))

    def preview(self, line: bytes, chars: int = PREVIEW_CHARS) -> str:
        """Return the first words of the entry."""
        return entry_preview(lenient(line), chars)

    def texts(self, line: bytes) -> list[Searched]:
        """Return the texts by which a search finds the entry."""
        return entry_texts(line)

    def reading(self, line: bytes) -> ParsedMessage | None:
        """Return the decoded message of a line."""
        return reading_of(line)

    def read(self, message: bytes) -> ParsedMessage | None:
        """Decode a message of a context."""
        return read_message(message)

    def summary(self, line: bytes) -> Summary:
        """Return the content of the summary in a line."""
        return summary_of(line)

    def file_details(self, read: Sequence[str], modified: Sequence[str]) -> Raw:
        """Return the `details` that name these files."""
        named = {self.members.read_files: read, self.members.modified_files: modified}
        return Raw(msgspec.json.encode(named))
