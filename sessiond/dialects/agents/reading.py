"""The port of a reading, which turns the lines of another agent's session into native entries.

Law: one line becomes one entry, in the order of the file, and an entry never changes: what comes later
(a rewind, a rollback, a line that is written again) is an entry of its own. Equal lines become equal
entries in every run, so that a session keeps its epoch over restarts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Raw, Struct

from sessiond.model.entries import Entry, Opaque
from sessiond.model.formats import AgentFormatName

__all__ = ["Origin", "Reading"]


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

    @property
    def is_told(self) -> bool:
        """True once the lines have told the session's id, folder and time."""
        return bool(self.session_id and self.cwd and self.created_at)


class Reading(Protocol):
    """The reading of one session; pure, without files."""

    @property
    def origin(self) -> Origin:
        """Facts that the lines so far state."""
        ...

    def take(self, line: bytes) -> Entry | Opaque:
        """Return the entry of the next line, with its id, parent and time.

        A line without a place in the tree (bookkeeping, a line of a subagent, a line written again) is
        an `Opaque` entry, a record: its type is the agent's word for the line, `parent_id` the leaf.
        Raises BadLine for a line that is no object; such a line keeps its number.
        """
        ...
