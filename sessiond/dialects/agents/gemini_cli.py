"""Chats of Gemini CLI: a log of operations on a list of messages, as native entries.

A message that is written again under its id mostly says more than before: the entry of the later line
has what the earlier lines lack, and is a part of one answer with them. A message that says something
else stands beside its earlier version. Where more messages follow that version, the later one takes the
version's place, as the part of the answer that says all. A rewind takes messages off the list: they stay
as a branch. A replaced list (`$set.messages`) is a compaction that has the list's messages, unless the
list only became shorter.

    {"sessionId":"…","projectHash":"…","startTime":"…","lastUpdated":"…","kind":"main"}
    {"id":"…","timestamp":"…","type":"user","content":[{"text":"hi"}]}
    {"$rewindTo":"…"}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from msgspec import Raw, UnsetType, structs

from sessiond.dialects.agents.gemini_items import chosen, digest_of, message_of
from sessiond.dialects.agents.gemini_list import (
    ChatList,
    ListedMessage,
    Replaced,
    as_known,
    is_same,
    listed,
    native,
)
from sessiond.dialects.agents.own_entries import EntryIds, Times, record_of, usage_record
from sessiond.dialects.agents.reading import Origin, Reading
from sessiond.dialects.agents.replies import StatedUsage, as_all, one_message
from sessiond.dialects.agents.source_line import SourceLine, member
from sessiond.dialects.lenient_json import items, join, lenient, one_line, text
from sessiond.limits import GEMINI_LIST_BYTES_MAX
from sessiond.model.entries import Compaction, Entry, Leaf, Message, Opaque, SessionInfoEntry
from sessiond.model.formats import AgentFormatName
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.usage import Usage

AGENT: Final[AgentFormatName] = "gemini-cli"
COPY: Final = "copy."
"""Beginning of the type of a record whose line repeats a message."""
_FACTS: Final = ("projectHash", "kind", "directories")


def is_gemini_cli(first: list[SourceLine]) -> bool:
    """Return whether a file that begins with these lines is a session of Gemini CLI."""
    return any(line.word("sessionId") and line.word("projectHash") for line in first)


def document_lines(content: bytes) -> Iterator[bytes] | None:
    """Return the lines that say what one document says, as older versions wrote; None for no such one.

    Each line is made when it is asked for.
    """
    members = lenient(content)
    messages_in = items(members["messages"]) if "messages" in members else None
    if messages_in is None or "projectHash" not in members:
        return None
    head = {name: raw for name, raw in members.items() if name != "messages"}
    return chain((join(head),), map(one_line, map(bytes, messages_in)))


class GeminiCliReading(Reading):
    """The reading of one chat; `Reading` describes the methods."""

    def __init__(self) -> None:
        self._origin = Origin(AGENT, states_cwd=False)
        self._number = 0
        self._times = Times()
        self._used: set[str] = set()
        self._ids = EntryIds(self._used)
        self._leaf: str | None = None
        self._list = ChatList()
        self._replaced: Replaced | None = None
        # By the messages' ids, also of messages that are off the list.
        self._stated: dict[str, StatedUsage] = {}
        self._title: str | None = None
        # A title of a line whose entry could not state the title.
        self._untold: str | None = None

    @property
    def origin(self) -> Origin:
        """Facts that the lines so far state."""
        return self._origin

    def take(self, line: SourceLine) -> Entry | Opaque:
        """Return the entry of the next record."""
        self._number = line.number
        patch = member(line.members, "$set")
        time = line.time() or line.time("startTime") or SourceLine(0, patch).time("lastUpdated")
        above = self._leaf
        message_id = line.word("id")
        entry_id = self._ids.free(message_id, self._number)
        if entry_id == message_id:
            self._used.add(entry_id)
        entry: Entry | Opaque | None = None
        if "$rewindTo" in line.members:
            entry, word = self._rewind(line.word("$rewindTo") or "", entry_id), "$rewindTo"
        elif "$set" in line.members:
            entry, word = self._set(patch, entry_id), "$set"
        elif line.word("sessionId") is not None:
            self._begin(line)
            entry, word = self._set(line.members, entry_id), "metadata"
        else:
            word = line.word("type") or ""
            entry = self._say(message_id or entry_id, entry_id, line) if word else None
        if entry is None:
            entry = record_of(AGENT, word, line.raw)
        entry.id, entry.timestamp = entry_id, self._times.take(time)
        if isinstance(entry.parent_id, UnsetType):
            entry.parent_id = above
        return entry

    def is_own(self, line: SourceLine) -> bool:
        """Return whether an object is a message or an operation; the first record alone names its session."""
        said = line.word("sessionId")
        if said is not None:
            return "projectHash" in line.members and self._origin.session_id in {None, said}
        is_operation = "$set" in line.members or line.word("$rewindTo") is not None
        return is_operation or bool(line.word("id") and line.word("type") and line.time())

    def is_again(self, line: SourceLine) -> bool:
        """Return whether a record says a message of the list anew."""
        return self._list.known(line.word("id") or "", line.word("type") or "") is not None

    # -- facts -------------------------------------------------------------------------------

    def _begin(self, line: SourceLine) -> None:
        origin = self._origin
        origin.session_id = line.word("sessionId")
        origin.created_at = line.time("startTime") or origin.created_at
        origin.is_subagent = line.word("kind") == "subagent"
        origin.facts = {name: line.members[name].copy() for name in _FACTS if name in line.members}

    def _set(self, patch: dict[str, Raw], entry_id: str) -> Entry | None:
        origin = self._origin
        origin.session_id = text(patch.get("sessionId")) or origin.session_id
        if "directories" in patch:
            origin.facts = {**origin.facts, "directories": patch["directories"].copy()}
        self._untold = text(patch.get("summary")) or self._untold
        found = items(patch["messages"]) if "messages" in patch else None
        entry = None if found is None else self._replace(found, entry_id)
        if entry is not None or self._untold in {None, self._title}:
            return entry
        self._title, self._untold = self._untold, None
        return SessionInfoEntry(auto_title=self._title)

    # -- messages ----------------------------------------------------------------------------

    def _say(self, message_id: str, entry_id: str, line: SourceLine) -> Entry | Opaque | None:
        """Return the entry of a message or of its later version; None if the model does not see it."""
        message, kind = message_of(line), line.word("type") or ""
        known = self._list.known(message_id, kind) or self._list.add(message_id, kind, self._leaf)
        if message is None:
            return None
        blocks = tuple(map(digest_of, message.blocks))
        usage = self._usage_beyond(message_id, message)
        message = structs.replace(message, usage=usage)
        if known.leaf is not None and blocks == known.blocks and usage is None:
            return record_of(AGENT, f"{COPY}{kind}", line.raw)
        if known.is_replaced:
            if blocks == known.blocks:
                return usage_record(usage or Usage(), line.raw)
            return self._say_in_list(known, message, blocks, entry_id)
        lacking = Counter(blocks)
        lacking.subtract(known.blocks)
        parent, is_all = self._leaf, False
        if known.leaf is None:
            known.answer = entry_id
        elif kind == "gemini" and min(lacking.values(), default=0) >= 0:
            message = structs.replace(message, blocks=chosen(message, blocks, lacking))
        elif self._leaf == known.leaf:
            known.answer, parent = entry_id, known.above
        else:
            is_all = kind == "gemini"
        known.leaf, known.blocks = entry_id, blocks
        entry = self._message(message, known.answer, parent, entry_id)
        if is_all:
            entry.message = as_all(entry.message)
        return entry

    def _say_in_list(
        self, known: ListedMessage, message: ParsedMessage, blocks: tuple[int, ...], entry_id: str
    ) -> Entry | None:
        """Return the replaced list with the later version of one message.

        Where other messages follow the list, or the list is too long, the version follows them.
        """
        replaced = self._replaced
        assert replaced is not None, "a message of a replaced list has that list"
        known.blocks = blocks
        if self._leaf != replaced.id or replaced.messages is None:
            return self._message(message, entry_id, self._leaf, entry_id)
        at = next(at for at, one in enumerate(self._list.shown) if one is known)
        kept = list(replaced.messages)
        kept[at] = native(message)
        return self._compaction(kept, replaced.parent, entry_id)

    def _message(
        self, message: ParsedMessage, answer: str, parent: str | None, entry_id: str
    ) -> Message:
        self._leaf = entry_id
        response_id = answer if message.role == "assistant" else None
        stated = self._stated.get(answer)
        total = 0 if stated is None else stated.total
        return Message(parent_id=parent, message=one_message(message, response_id, total))

    def _usage_beyond(self, message_id: str, message: ParsedMessage) -> Usage | None:
        if message.usage is None:
            return None
        return self._stated.setdefault(message_id, StatedUsage()).take(message.usage)

    # -- rewinds and replaced lists ----------------------------------------------------------

    def _rewind(self, message_id: str, entry_id: str) -> Entry:
        """Take a message and what follows off the list; an unknown id empties the list."""
        said = self._list.cut_at(message_id)
        shown, replaced = self._list.shown, self._replaced
        if said is None or not shown:
            return self._move(None)
        if not shown[-1].is_replaced or replaced is None:
            return self._move(said.above)
        kept = sum(one.is_replaced for one in shown)
        if replaced.messages is None or kept == len(replaced.messages):
            return self._move(replaced.id)
        return self._compaction(replaced.messages[:kept], replaced.parent, entry_id)

    def _replace(self, found: list[Raw], entry_id: str) -> Entry | None:
        """Return what makes the list these messages; None if nothing changes for the model."""
        lines = [SourceLine(self._number, lenient(one)) for one in found]
        said = [message_of(line) for line in lines]
        now = [listed(line, one, entry_id) for line, one in zip(lines, said, strict=True)]
        shown = self._list.shown
        new = [one for one in now if one.leaf is not None]
        if not new:
            self._list.replace(now)
            return self._move(None) if shown else None
        same = len(new) <= len(shown) and all(map(is_same, new, shown))
        dropped = shown[len(new) :]
        if same and not (dropped and dropped[0].is_replaced):
            self._list.replace(as_known(now, shown))
            return self._move(dropped[0].above) if dropped else None
        parent = self._replaced.parent if same and self._replaced is not None else self._leaf
        self._list.replace(now)
        messages = [native(one) for one in said if one is not None]
        return self._compaction(messages, parent, entry_id)

    def _move(self, target: str | None) -> Entry:
        self._leaf = target
        return Leaf(target_id=target, reason="rewind")

    def _compaction(self, messages: list[list[Raw]], parent: str | None, entry_id: str) -> Entry:
        size = sum(len(one) for message in messages for one in message)
        kept = messages if size <= GEMINI_LIST_BYTES_MAX else None
        self._replaced = Replaced(entry_id, parent, kept)
        self._leaf = entry_id
        return Compaction(parent_id=parent, messages=[one for each in messages for one in each])
