"""The envelope of a reading's entries: ids, times, and records of lines that say nothing.

Law: an id depends on the lines so far alone, and no two entries of a reading share an id.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sessiond.dialects.compose import tagged_usage
from sessiond.dialects.entry_members import entry_of
from sessiond.dialects.lenient_json import fields, text, with_field
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.entries import ENTRY_TYPES, HEADER_TYPES, Entry, Opaque
from sessiond.model.formats import AgentFormatName
from sessiond.model.ids import is_new_entry_id
from sessiond.model.usage import Usage

USAGE_RECORD: Final = "usage"
"""Type of a record that states tokens: its field `usage` counts for the session."""

BRIDGE: Final = "resolved_parent_id"
"""Member of an entry whose parent is missing: the entry at which the path goes on."""
DAMAGE: Final = "damaged_line"
"""Member of the first entry of a damaged line, which says what is wrong with the line."""

_OWN: Final = "line-"
_TAKEN: Final = frozenset({*ENTRY_TYPES, *HEADER_TYPES, USAGE_RECORD})


class EntryIds:
    """The ids that a reading gives: the agent's own where an entry may have it, else `line-<n>`.

    `used` has the agent's ids that are given as they came; its owner adds each after `free`.
    """

    def __init__(self, used: Container[str]) -> None:
        self._used = used
        self._longer: set[str] = set()

    def free(self, wanted: str | None, number: int) -> str:
        """Return the id of line `number`, for which the agent has the id `wanted`."""
        own = f"{_OWN}{number}"
        # No id of the agent may look like one of ours, so that ours are always free.
        if not wanted or wanted.startswith(_OWN) or not is_new_entry_id(wanted):
            return own
        if not self._is_used(wanted):
            return wanted
        longer = f"{wanted}.{number}"
        if self._is_used(longer) or not is_new_entry_id(longer):
            return own
        self._longer.add(longer)
        return longer

    def is_ours(self, name: str) -> bool:
        """Return whether a name can only be an id that was made here, none of the agent's ids."""
        return name.startswith(_OWN) or name in self._longer

    def _is_used(self, entry_id: str) -> bool:
        return entry_id in self._used or entry_id in self._longer


class Times:
    """The times of a reading's entries: that of the line, else that of the line before."""

    def __init__(self) -> None:
        self._last: str | UnsetType = UNSET

    def take(self, time: str) -> str | UnsetType:
        """Return the time of the next entry; UNSET while no line has a time."""
        if time:
            self._last = time
        return self._last


def record_of(agent: AgentFormatName, word: str, line: bytes) -> Opaque:
    """Return the record of a line, without its envelope; `word` is the agent's word for the line.

    A word that means something else in a native file gets the agent's name before it.
    """
    name = word or "none"
    kind = f"{agent}.{name}" if name in _TAKEN else name
    return Opaque(type=kind, fields={"data": Raw(bytes(line).strip())})


def usage_record(usage: Usage, line: bytes) -> Opaque:
    """Return the record of a line that states tokens beside the messages, without its envelope."""
    stated = Raw(msgspec.json.encode(tagged_usage(usage)))
    return Opaque(type=USAGE_RECORD, fields={"usage": stated, "data": Raw(bytes(line).strip())})


def native_line(entry: Entry | Opaque, bridge: str | None, damage: str | None) -> bytes:
    """Return the native line of an entry that a reading made, with what its file lacks there."""
    line = NATIVE.encode(entry)
    if bridge is None and damage is None:
        return line
    for name, said in ((BRIDGE, bridge), (DAMAGE, damage)):
        if said is not None:
            line = with_field(line, name, msgspec.json.encode(said))
    return line


def native_entry(line: bytes) -> tuple[Entry | Opaque, str | None, str | None]:
    """Return the entry of a native line of a reading, and what the line tells of a gap and of damage."""
    members = fields(line)
    bridge, damage = text(members.pop(BRIDGE, None)), text(members.pop(DAMAGE, None))
    kind = text(members.get("type")) or ""
    if kind in ENTRY_TYPES:
        return entry_of(members, ENTRY_TYPES[kind]), bridge, damage
    return Opaque(type=kind, fields=members), bridge, damage
