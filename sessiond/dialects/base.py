"""What a dialect is: how lines of a file become entries and back.

A session file keeps the dialect it was written in. Everything above this layer
speaks native names and RFC 3339 times; a dialect translates the envelope both
ways and leaves payloads alone. Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.limits import PREVIEW_CHARS
from sessiond.model.entries import Entry, Header, Opaque
from sessiond.model.parsed_message import Reading, Summary
from sessiond.model.row import ModelName, Row, Rules
from sessiond.model.usage import Usage

__all__ = [
    "BadHeader",
    "BadLine",
    "ContextLine",
    "ContextMessage",
    "Dialect",
    "ModelName",
    "Place",
]


class BadLine(Exception):
    """A line that is no entry of this dialect; the text says why, without its content."""


class BadHeader(Exception):
    """A first line that is no header of this dialect; the text says why."""


class ContextLine(Struct, frozen=True):
    """One entry of a context: its id, its `Kind`, and its line without the newline."""

    id: str
    kind: int
    line: bytes
    kept: bool = False
    """It stands before the compaction that the context begins with."""


class ContextMessage(Struct, frozen=True):
    """One message the model sees, as JSON bytes, and the entry it comes from."""

    source: str
    body: bytes


class Place(Struct, frozen=True):
    """Where a copy of an entry stands."""

    id: str
    parent_id: str | UnsetType | None = UNSET
    """UNSET where it is below the same entry as in its own file."""
    ids: Mapping[str, str] = {}
    """What entries are called here that have another id in their own file."""
    first_kept_id: str | UnsetType | None = UNSET
    """Where a compaction's kept part begins here, None for nowhere; UNSET leaves it as it is."""
    messages: int | None = None
    """How many of a compaction's messages it keeps; None for all."""
    without: tuple[str, ...] = ()
    """Members that mean something in the file it comes from only."""


class Dialect(Protocol):
    """One spelling on disk. A line never contains its newline; a trailing CR is not part of it."""

    @property
    def name(self) -> str:
        """The word for it in `dialect` and `format`."""
        ...

    @property
    def rules(self) -> Rules:
        """Where it differs in what an entry does."""
        ...

    def decode_header(self, line: bytes) -> Header:
        """The header in native terms. Raises BadHeader."""
        ...

    def encode_header(self, header: Header) -> bytes:
        """A first line for a new file."""
        ...

    def migrate(self, lines: Sequence[bytes]) -> list[bytes]:
        """The lines of a file of any version, header first, as today's. Raises BadHeader."""
        ...

    def row(self, line: bytes) -> Row:
        """What the index needs of a stored line. Raises BadLine."""
        ...

    def row_of(self, entry: Entry | Opaque) -> Row:
        """The same of an entry about to be stored. Raises EntryInvalid if it may not be stored."""
        ...

    def encode(self, entry: Entry | Opaque) -> bytes:
        """Exactly one line; `row(encode(e)) == row_of(e)`."""
        ...

    def placed(self, line: bytes, place: Place) -> bytes:
        """The line of an entry's copy in another file of this dialect."""
        ...

    def wire(self, line: bytes) -> bytes:
        """The entry as clients see it; in a native file the line itself."""
        ...

    def timestamp(self, line: bytes) -> str:
        """When the entry was made, RFC 3339 UTC; "" where the line has none."""
        ...

    def context(self, lines: Sequence[ContextLine]) -> list[ContextMessage]:
        """The messages these entries give, in order.

        When the first line is a compaction it stands for everything before the rest.
        """
        ...

    def model(self, line: bytes) -> ModelName | None:
        """The model that a model change or an assistant message names."""
        ...

    def thinking_level(self, line: bytes) -> str:
        """The level that a thinking level change sets; "none" reads as "off"."""
        ...

    def preview(self, line: bytes, chars: int = PREVIEW_CHARS) -> str:
        """The first words of the entry for a list or tree, cut to `chars` and "..."."""
        ...

    def usage(self, line: bytes) -> Usage | None:
        """What the message of a line says it cost; reads that member of the payload only."""
        ...

    def reading(self, line: bytes) -> Reading | None:
        """What the message of a line says; None if the line holds none. Reads the payload."""
        ...

    def read(self, message: bytes) -> Reading | None:
        """The same of a message of a context; None if it is no object."""
        ...

    def summary(self, line: bytes) -> Summary:
        """What the summary in a line says and which files it names."""
        ...

    def file_details(self, read: Sequence[str], modified: Sequence[str]) -> Raw:
        """The `details` of a summary that name these files."""
        ...
