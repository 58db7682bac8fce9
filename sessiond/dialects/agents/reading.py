"""The port of a reading, which turns the lines of another agent's session into native entries.

Law: one record becomes one entry, and an entry never changes: what comes later (a rewind, a rollback, a
record that is written again) is an entry of its own. Equal records become equal entries in every run, so
that a session keeps its epoch over restarts. `Transcript` finds the records of a file's lines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

from msgspec import Raw, Struct

from sessiond.dialects.agents.source_line import SourceLine
from sessiond.model.entries import Entry, Opaque
from sessiond.model.formats import AgentFormatName


class Origin(Struct):
    """Facts of the source: the agent's name, its id of the session, and what its first lines state."""

    agent: AgentFormatName
    session_id: str | None = None
    cwd: str = ""
    created_at: str = ""
    facts: Mapping[str, Raw] = {}
    parent_id: str | None = None
    """Session of which this one is a fork or a subagent, if a line says so."""
    is_subagent: bool = False
    """True if another session of the agent started this one for a task."""
    states_cwd: bool = True
    """False for an agent whose lines state no folder."""

    @property
    def is_told(self) -> bool:
        """True once the lines have told the session's id, time and folder, as far as they do."""
        return bool(self.session_id and self.created_at and (self.cwd or not self.states_cwd))


class Links(Struct, frozen=True):
    """The names in a file's tree: that of a record, and that of the record above; None for no name."""

    name: str | None = None
    parent: str | None = None


_NO_LINKS: Final = Links()


class Reading(ABC):
    """The reading of one session; pure, without files."""

    @property
    @abstractmethod
    def origin(self) -> Origin:
        """Facts that the records so far state."""

    @abstractmethod
    def take(self, line: SourceLine) -> Entry | Opaque:
        """Return the entry of the next record, with its id, parent and time.

        A record without a place in the tree (bookkeeping, a line of a subagent, a line written again) is
        an `Opaque` entry: its type is the agent's word for the line, `parent_id` the leaf. Raises BadLine
        for a record that no entry can say.
        """

    @abstractmethod
    def is_own(self, line: SourceLine) -> bool:
        """Return whether an object has the form of a record, and names no other session than this one."""

    def is_again(self, line: SourceLine) -> bool:  # noqa: ARG002
        """Return whether a record says an earlier message anew; a tree has no such records."""
        return False

    @property
    def bridge(self) -> str | None:
        """Entry at which the path of the last entry goes on, where the entry's parent is missing."""
        return None

    def links(self, line: SourceLine) -> Links:  # noqa: ARG002
        """Return the names that a record has in the file's tree; none in a list."""
        return _NO_LINKS

    def knows(self, name: str) -> bool:  # noqa: ARG002
        """Return whether a record of this name came already."""
        return False
