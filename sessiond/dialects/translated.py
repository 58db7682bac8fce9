"""Dialects whose lines are read as the native lines that they stand for.

Law: `wire` and `encode` are the translation, and everything else follows from the two. An index, a
preview or a search asks the native dialect about the native line. A dialect of this kind says only
what differs: its header, its rules, its checks, the messages of a context, the places of a copy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from msgspec import Raw

from sessiond.dialects.base import BadLine, Upgrade
from sessiond.dialects.member_names import NamedMembers
from sessiond.dialects.native import rows as native_rows
from sessiond.limits import PREVIEW_CHARS
from sessiond.model.entries import Entry, Opaque
from sessiond.model.message_lines import MessageLines
from sessiond.model.parsed_message import ParsedMessage, Summary
from sessiond.model.row import Kind, MessageFacts, MessageRun, ModelName, Row, Rules
from sessiond.model.searched import Searched


class Translated(NamedMembers, ABC):
    """A dialect by translation; `Dialect` describes the methods.

    `members` has the native names for all but the files of `details`, which keep their names.
    """

    @property
    @abstractmethod
    def rules(self) -> Rules:
        """Differences from other dialects in how an entry acts on its session."""

    @abstractmethod
    def wire(self, line: bytes) -> bytes:
        """Return the native line. Raises BadLine."""

    @abstractmethod
    def encode(self, entry: Entry | Opaque) -> bytes:
        """Return the entry as exactly one line."""

    @abstractmethod
    def check(self, entry: Entry | Opaque) -> None:
        """Raise EntryInvalid, which names the field, if the entry may not be stored."""

    def require_line(self, line: bytes) -> None:
        """Raise EntryInvalid or TooLarge for a line that the program does not read."""

    def upgrade(self, header: bytes) -> Upgrade | None:  # noqa: ARG002
        """Return None: there is one version."""
        return None

    def row(self, line: bytes) -> Row:
        """Return the row of a stored line. Raises BadLine."""
        usual = self.message_lines([line])
        return usual.row(0) if usual.ids else self.unusual_row(line)

    def unusual_row(self, line: bytes) -> Row:
        """Return the row of any entry by its translation. Raises BadLine."""
        found = native_rows.row(self.wire(line))
        if found.kind == Kind.LEAF and Kind.LEAF not in self.rules.records:
            found.kind, found.effect = Kind.OPAQUE, None
        return found

    def message_lines(self, lines: Sequence[bytes]) -> MessageLines:  # noqa: ARG002
        """Return no columns: every line needs its translation."""
        return MessageLines([], [], b"", [])

    def row_of(self, entry: Entry | Opaque) -> Row:
        """Return the row of an entry to store. Raises EntryInvalid, TooLarge."""
        self.check(entry)
        line = self.encode(entry)
        self.require_line(line)
        return self.row(line)

    def plain(self, messages: Sequence[Raw]) -> list[MessageFacts]:  # noqa: ARG002
        """Return nothing: each message needs a closer look."""
        return []

    def plain_lines(self, run: MessageRun, messages: Sequence[Raw]) -> list[bytes]:  # noqa: ARG002
        """Return nothing: no message is plain here."""
        assert not run.ids, "no message is plain here"
        return []

    def timestamp(self, line: bytes) -> str:
        """Return the time of the entry."""
        return super().timestamp(self._native(line))

    def model(self, line: bytes) -> ModelName | None:
        """Return the model that a model change or assistant message names; None for no model."""
        return super().model(self._native(line))

    def thinking_level(self, line: bytes) -> str:
        """Return the level that a thinking level change sets."""
        return super().thinking_level(self._native(line))

    def preview(self, line: bytes, chars: int = PREVIEW_CHARS) -> str:
        """Return the first words of the entry."""
        return super().preview(self._native(line), chars)

    def texts(self, line: bytes) -> list[Searched]:
        """Return the texts by which a search finds the entry."""
        return super().texts(self._native(line))

    def reading(self, line: bytes) -> ParsedMessage | None:
        """Return the decoded message of a line."""
        return super().reading(self._native(line))

    def summary(self, line: bytes) -> Summary:
        """Return the content of the summary in a line."""
        return super().summary(self._native(line))

    def _native(self, line: bytes) -> bytes:
        """Return the native line; the line itself if it is no entry."""
        try:
            return self.wire(line)
        except BadLine:
            return line
