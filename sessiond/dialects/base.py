"""The port of a dialect, which turns lines of a file into entries and back.

A session file keeps the dialect that it was written in. All layers above use native names and
RFC 3339 times. A dialect translates the envelope both ways and leaves payloads alone. All
functions of a dialect are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.limits import PREVIEW_CHARS
from sessiond.model.entries import Entry, Header, Opaque
from sessiond.model.message_lines import MessageLines
from sessiond.model.parsed_message import ParsedMessage, Summary
from sessiond.model.row import MessageFacts, MessageRun, ModelName, Row, Rules
from sessiond.model.searched import Searched


class BadLine(Exception):
    """Refusal of a line that is no entry of this dialect; the text says why, without content."""


class BadHeader(Exception):
    """Refusal of a first line that is no header of this dialect; the text says why."""


class ContextLine(Struct, frozen=True):
    """An entry of a context: its id, its `Kind`, and its line without the newline."""

    id: str
    kind: int
    line: bytes
    kept: bool = False
    """True if the entry is before the compaction with which the context begins."""
    begins: bool = True
    """False for a compaction that does not decide, although the context may begin with that line."""
    ending: str = ""
    """Text that follows the summary of a compaction, unless the summary has it already."""


class ContextMessage(Struct, frozen=True):
    """A message that the model sees, as JSON bytes, and the entry that the message comes from."""

    source: str
    body: bytes


class CopyPlace(Struct, frozen=True):
    """The place of an entry's copy in another file."""

    id: str
    parent_id: str | UnsetType | None = UNSET
    """Id of the new parent; UNSET keeps the parent that the entry has in its own file."""
    ids: Mapping[str, str] = {}
    """New ids of entries, by the ids that they have in their own file."""
    first_kept_id: str | UnsetType | None = UNSET
    """First kept entry of a compaction, None for no entry; UNSET leaves the member unchanged."""
    messages: int | None = None
    """Number of a compaction's messages that the copy keeps; None for all."""
    without: tuple[str, ...] = ()
    """Members that have a meaning only in the entry's own file, so that the copy lacks them."""


class Upgrade(Protocol):
    """The migration of one file of an older version, a line at a time.

    Law: a line becomes the same line at every opening, with the same ids.
    """

    @property
    def is_older(self) -> bool | None:
        """True if the file is of an older version; None while no line has shown the version.

        Law: before a line has shown the version, a line means in each version what it means now.
        """
        ...

    @property
    def spelled(self) -> Callable[[bytes], bytes] | None:
        """Function that spells a line of the current version as the file has its lines.

        None for a file that is not appended to. Law: `take` turns the result into the same entry.
        """
        ...

    @property
    def header(self) -> bytes:
        """Header of the current version."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts of the session that the older header states and the current one cannot."""
        ...

    def settings(self) -> Sequence[bytes]:
        """Return these facts as entries of the current version, before the first line is taken."""
        ...

    def pass_over(self, lines: Sequence[bytes], start: int) -> int:
        """Take the lines from `start` on, up to the first one that may change; return how many.

        Each version has these lines with these bytes. A line may have its newline.
        """
        ...

    def take(self, line: bytes) -> bytes:
        """Return the next line, in order, as the current version has it."""
        ...

    def peek(self, line: bytes) -> bytes:
        """Return a line in the form that `take` would give it, without taking it. Raises BadLine."""
        ...

    def again(self, seq: int, line: bytes) -> bytes:
        """Return the line `seq`, which was taken before, as `take` returned it."""
        ...


class Dialect(Protocol):
    """A spelling on disk. A line never contains its newline, nor a CR before the newline."""

    @property
    def name(self) -> str:
        """Name of the dialect in the fields `dialect` and `format`."""
        ...

    @property
    def rules(self) -> Rules:
        """Differences from other dialects in how an entry acts on its session."""
        ...

    @property
    def parent_member(self) -> str:
        """Name of the member in which a line names its parent."""
        ...

    def for_file(self, header: Header) -> Dialect:
        """Return the dialect of the file that begins with this header.

        A dialect whose lines depend on the header is another object for each file.
        """
        ...

    def decode_header(self, line: bytes) -> Header:
        """Return the header in native terms. Raises BadHeader."""
        ...

    def encode_header(self, header: Header) -> bytes:
        """Return the first line of a new file."""
        ...

    def copied_header(self, line: bytes, session_id: str, cwd: str | None) -> bytes:
        """Return the first line of a copy: another id, and another folder unless `cwd` is None.

        Every other member stays as it came. The other lines of the copy are as `restated` has them.
        """
        ...

    def restated(self, line: bytes, header: Header) -> bytes:
        """Return the line of an entry in a copy whose header is `header`.

        Only a line that repeats facts of its header differs.
        """
        ...

    def upgrade(self, header: bytes) -> Upgrade | None:
        """Return the migration of a file by its first line; None for a file of the current version.

        Where the first line does not tell the version, the migration finds the version out.
        """
        ...

    def row(self, line: bytes) -> Row:
        """Return the row of a stored line. Raises BadLine."""
        ...

    def message_lines(self, lines: Sequence[bytes]) -> MessageLines:
        """Return the columns of the usual messages up to the first line that needs a closer look.

        The columns say what `row` says of each line. A line may have its newline.
        """
        ...

    def row_of(self, entry: Entry | Opaque) -> Row:
        """Return the row of an entry to store.

        Raises EntryInvalid if the entry may not be stored.
        """
        ...

    def encode(self, entry: Entry | Opaque) -> bytes:
        """Return the entry as exactly one line; `row(encode(e)) == row_of(e)`."""
        ...

    def plain(self, messages: Sequence[Raw]) -> list[MessageFacts]:
        """Return the facts of the messages up to the first one that needs a closer look."""
        ...

    def plain_lines(self, run: MessageRun, messages: Sequence[Raw]) -> list[bytes]:
        """Return the lines of the first messages, one for each id of the run.

        They are what `encode` gives for the same messages as entries.
        """
        ...

    def placed(self, line: bytes, place: CopyPlace) -> bytes:
        """Return the line of an entry's copy in another file of this dialect."""
        ...

    def wire(self, line: bytes) -> bytes:
        """Return the entry as clients see it; in a native file that is the line itself."""
        ...

    def timestamp(self, line: bytes) -> str:
        """Return the time of the entry, RFC 3339 UTC; "" if the line has no time."""
        ...

    def context(self, lines: Sequence[ContextLine]) -> list[ContextMessage]:
        """Return the messages of these entries, in order.

        If the first line is a compaction, it stands for all entries before the next line.
        """
        ...

    def model(self, line: bytes) -> ModelName | None:
        """Return the model that a model change or assistant message names; None for no model."""
        ...

    def thinking_level(self, line: bytes) -> str:
        """Return the level that a thinking level change sets; "none" becomes "off"."""
        ...

    def preview(self, line: bytes, chars: int = PREVIEW_CHARS) -> str:
        """Return the first words of the entry for a list or tree, cut to `chars` and "..."."""
        ...

    def texts(self, line: bytes) -> list[Searched]:
        """Return the texts by which a search finds the entry; none of them is empty."""
        ...

    def compose(self, message: ParsedMessage, timestamp: str) -> list[Raw]:
        """Return the messages of this dialect that say what a message of any dialect says.

        No message if this dialect has none of that role; several where one message holds the results
        of several calls, but this dialect has one message for each result.
        """
        ...

    def reading(self, line: bytes) -> ParsedMessage | None:
        """Return the decoded message of a line; None if the line has none. Reads the payload."""
        ...

    def read(self, message: bytes) -> ParsedMessage | None:
        """Decode a message of a context; None if the message is no object."""
        ...

    def summary(self, line: bytes) -> Summary:
        """Return the text of the summary in a line and the files that it names."""
        ...

    def file_details(self, read: Sequence[str], modified: Sequence[str]) -> Raw:
        """Return the `details` of a summary that name these files."""
        ...


def current_lines(dialect: Dialect, lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file of any version, header first, as the current version has them.

    Raises BadHeader.
    """
    left = iter(lines)
    header = next(left, None)
    if header is None:
        raise BadHeader("is empty")
    upgrade = dialect.upgrade(header)
    yield header if upgrade is None else upgrade.header
    if upgrade is None:
        yield from left
        return
    yield from upgrade.settings()
    yield from map(upgrade.take, left)
