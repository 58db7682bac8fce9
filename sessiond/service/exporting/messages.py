"""Messages in the shape of another program.

Law: what a message says to a model survives (texts, calls, results, images). A message of a role that
the other program lacks becomes the user's text, as a model would have got it. A message with several
results becomes several messages where the other program has one message for each result; their ids
are that of the message, then the id with ".2", ".3" and so on. Messages with such ids are one message
again in the next export. A message that no model sees, of a role that the other program lacks, becomes
a `custom` entry with the message as its data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Raw, Struct
from msgspec.structs import replace

from sessiond.dialects.base import Dialect
from sessiond.dialects.lenient_json import lenient
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.session.compaction.transcript import as_told

Way = tuple[list[Raw], str]
"""Messages in the shape of the other program, and what was lost."""

SILENT: Final = "messages that no model sees, of a role that the format lacks, were left out"

KEPT: Final = (
    "messages that no model sees, of a role that the format lacks, became data of an extension"
)
UNSEEN: Final = "sessiond.unseen"
"""Type of the custom entry that holds such a message, until an export to a format that has its role."""
_AS_USER: Final = "messages of a role that the format lacks became the user's text"
_SPLIT: Final = "messages with several tool results became one message for each result"


class Said(Struct):
    """A message of the source: its lines, its id, what it says.

    `seqs` are several lines where a message of results was written in parts.
    """

    seqs: list[int]
    id: str
    reading: ParsedMessage
    timestamp: str
    stored: Raw | None

    def goes_on(self, parent: int, entry_id: str) -> bool:
        """Return whether an entry is the next part of this message."""
        return parent == self.seqs[-1] and entry_id == part_id(self.id, len(self.seqs))

    def take(self, seq: int, reading: ParsedMessage) -> None:
        """Add the next part."""
        self.seqs.append(seq)
        self.stored = None
        self.reading = replace(self.reading, blocks=self.reading.blocks + reading.blocks)


def part_id(entry_id: str, index: int) -> str:
    """Return the id of a part of a message, 0 the first."""
    return f"{entry_id}.{index + 1}" if index else entry_id


def ways_to_say(
    target: Dialect, reading: ParsedMessage, timestamp: str, stored: Raw | None
) -> Iterator[Way]:
    """Yield the ways to say a message in the target, the closest first; it may refuse each of them.

    `stored` is the message as it is stored. It stays as it is if it has the target's shape.
    """
    made = target.compose(reading, timestamp)
    if stored is not None and (not made or (len(made) == 1 and _has_all(stored, made[0]))):
        yield [stored], ""
    if made:
        yield made, _SPLIT if len(made) > 1 else ""
        return
    told = as_told(reading)
    if told:
        users = ParsedMessage("user", (Block("text", text=told),))
        yield target.compose(users, timestamp), _AS_USER


def _has_all(stored: Raw, made: Raw) -> bool:
    """Return whether a message has every member that the target's own message has."""
    return lenient(made).keys() <= lenient(stored).keys()
