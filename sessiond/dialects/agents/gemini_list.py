"""The list of a chat's messages, on which the lines of Gemini CLI operate.

Law: the list holds no words, only ids and digests; a replaced list keeps its words up to a bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw, Struct, structs

from sessiond.dialects.agents.gemini_items import digest_of, split
from sessiond.dialects.agents.source_line import SourceLine
from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.parsed_message import ParsedMessage


class ListedMessage(Struct):
    """A message on the list. `above` is the leaf before the message, `leaf` its newest entry."""

    id: str
    kind: str
    above: str | None
    leaf: str | None = None
    """None for a message that the model does not see."""
    answer: str = ""
    """The id of the answer that the message's entries are parts of."""
    blocks: tuple[int, ...] = ()
    """Digests of what the message says."""
    is_replaced: bool = False
    """True for a message of a replaced list, which has no entry of its own."""


class Replaced(Struct):
    """A replaced list: its compaction, and the native messages of each message that the model sees.

    `messages` is None for a list of more than GEMINI_LIST_BYTES_MAX.
    """

    id: str
    parent: str | None
    messages: list[list[Raw]] | None


class ChatList:
    """The messages on the list now, in order."""

    def __init__(self) -> None:
        self._list: list[ListedMessage] = []
        # The newest message with each id.
        self._newest: dict[str, ListedMessage] = {}

    @property
    def shown(self) -> list[ListedMessage]:
        """The messages that the model sees."""
        return [one for one in self._list if one.leaf is not None]

    def known(self, message_id: str, kind: str) -> ListedMessage | None:
        """Return the message of this id and type; None if the list lacks it."""
        found = self._newest.get(message_id)
        return found if found is not None and found.kind == kind else None

    def add(self, message_id: str, kind: str, above: str | None) -> ListedMessage:
        """Return a new message, which stands at the end of the list."""
        said = self._newest[message_id] = ListedMessage(message_id, kind, above)
        self._list.append(said)
        return said

    def replace(self, messages: Sequence[ListedMessage]) -> None:
        """Make these messages the list."""
        self._list = list(messages)
        self._newest = {one.id: one for one in messages}

    def cut_at(self, message_id: str) -> ListedMessage | None:
        """Take a message and all later ones off the list, and return the message.

        An unknown id, or that of the first message, empties the list and returns None.
        """
        at = next((at for at, one in enumerate(self._list) if one.id == message_id), 0)
        said = self._list[at] if at else None
        self._cut(at)
        return said

    def _cut(self, at: int) -> None:
        for one in self._list[at:]:
            self._newest.pop(one.id, None)
        del self._list[at:]


def listed(line: SourceLine, message: ParsedMessage | None, entry_id: str) -> ListedMessage:
    """Return a message of the list that the entry `entry_id` puts in the place of the list before.

    `message` is None for a message that the model does not see.
    """
    found = ListedMessage(line.word("id") or "", line.word("type") or "", entry_id)
    if message is None:
        return found
    blocks = tuple(map(digest_of, message.blocks))
    return structs.replace(found, leaf=entry_id, answer=entry_id, blocks=blocks, is_replaced=True)


def as_known(now: Sequence[ListedMessage], shown: Sequence[ListedMessage]) -> list[ListedMessage]:
    """Return a list in which the messages that the model sees are those known ones."""
    found: list[ListedMessage] = []
    known, leaf = iter(shown), None
    for one in now:
        if one.leaf is None:
            found.append(structs.replace(one, above=leaf))
        else:
            found.append(next(known))
            leaf = found[-1].leaf
    return found


def is_same(one: ListedMessage, other: ListedMessage) -> bool:
    """Return whether two messages have one id and type, and say the same words."""
    return (one.id, one.kind, one.blocks) == (other.id, other.kind, other.blocks)


def native(message: ParsedMessage) -> list[Raw]:
    """Return the native messages that say what a message of a replaced list says."""
    return [raw for one in split(message) for raw in NATIVE.compose(one, "")]
