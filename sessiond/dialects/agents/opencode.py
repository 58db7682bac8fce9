"""Sessions of opencode: rows of a database, as the lines of `opencode_lines`, as native entries.

A compaction of version 1 is a question of the user and an answer that is the summary. The compaction
below them has the summary, and keeps the messages from the named one on apart from these two: later
compactions may keep all of them. A compaction of version 2 is one row. A revert hides messages until
the next prompt: a move of the head.

    {"type":"session","id":"ses_…","directory":"/my/project","title":"…","time_created":1793880000000}
    {"type":"message","id":"msg_…","time_created":…,"data":{"role":"user",…},"parts":[…]}
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from sessiond.dialects.agents.opencode_items import (
    ASKED,
    is_synthetic,
    kept_from,
    message_of,
    row_message,
    usage_of,
)
from sessiond.dialects.agents.own_entries import EntryIds, Times, record_of, usage_record
from sessiond.dialects.agents.reading import Origin, Reading
from sessiond.dialects.agents.replies import StatedUsage, one_message
from sessiond.dialects.agents.source_line import SourceLine, decoded, member
from sessiond.dialects.lenient_json import fields, is_null, items, lenient, text
from sessiond.model.entries import (
    Compaction,
    CustomMessage,
    Entry,
    Leaf,
    Message,
    ModelChange,
    Opaque,
    SessionInfoEntry,
)
from sessiond.model.formats import AgentFormatName
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.times import rfc3339
from sessiond.model.usage import Usage

AGENT: Final[AgentFormatName] = "opencode"
_FACTS: Final = ("version", "slug", "project_id", "agent", "fork_session_id", "fork_message_id")
_NO_TITLES: Final = ("New session - ", "Child session - ")
_MESSAGES: Final = frozenset({"message", "step", "row"})
# Lines whose entries need no name of the agent's.
_NO_IDS: Final = frozenset({"session", "usage", "revert"})

Parts = list[dict[str, Raw]]


class _Said(Struct):
    """A message so far: the leaf before it, its first entry, and its last one; None for a record."""

    above: str | None
    first: str
    last: str | None


def is_made_title(title: str) -> bool:
    """Return whether opencode has made a title, instead of the one that every session begins with."""
    return title != "" and not title.startswith(_NO_TITLES)


class OpencodeReading(Reading):
    """The reading of one session; `Reading` describes the methods."""

    def __init__(self) -> None:
        self._origin = Origin(AGENT)
        self._times = Times()
        self._used: set[str] = set()
        self._ids = EntryIds(self._used)
        self._leaf: str | None = None
        self._said: dict[str, _Said] = {}
        # The entry above each entry, records apart.
        self._above: dict[str, str | None] = {}
        # The messages that ask for a compaction, and the first message that each wants to keep.
        self._asked: dict[str, str | None] = {}
        self._stated: dict[str, StatedUsage] = {}
        self._title: str | None = None

    @property
    def origin(self) -> Origin:
        """Facts that the lines so far state."""
        return self._origin

    def take(self, line: SourceLine) -> Entry | Opaque:
        """Return the entry of the next record."""
        kind, message_id = line.word("type") or "", line.word("id") or ""
        wanted = None if kind in _NO_IDS else message_id
        entry_id, above = self._ids.free(wanted, line.number), self._leaf
        if entry_id == wanted:
            self._used.add(entry_id)
        entry = self._entry(kind, (message_id, entry_id), line)
        if isinstance(entry, str):
            entry = record_of(AGENT, entry, line.raw)
        entry.id = entry_id
        entry.timestamp = self._times.take(_time(line.members))
        if isinstance(entry.parent_id, UnsetType):
            entry.parent_id = above
        if not isinstance(entry, Leaf | Opaque | SessionInfoEntry):
            self._leaf = entry_id
            self._above[entry_id] = entry.parent_id
        if kind in _MESSAGES:
            last = None if isinstance(entry, Opaque) else entry_id
            self._note(kind, message_id, _Said(entry.parent_id, entry_id, last))
        return entry

    def is_own(self, line: SourceLine) -> bool:  # noqa: ARG002
        """Return False: the rows of a store are whole."""
        return False

    def _entry(self, kind: str, ids: tuple[str, str], line: SourceLine) -> Entry | Opaque | str:
        """Return the entry of a line, or the word for a line that only is a record.

        `ids` are those of the message and of the entry.
        """
        data = member(line.members, "data")
        parts = [lenient(one) for one in items(line.members.get("parts", b"")) or ()]
        match kind:
            case "session":
                return self._begin(line)
            case "message" | "step":
                return self._say(kind, ids, (data, parts), line.raw)
            case "compaction":
                return self._compact(ids[0], data, parts)
            case "row":
                return self._row(line.word("kind") or "", ids, data, line.raw)
            case "usage":
                return usage_record(usage_of(data) or Usage(), line.raw)
            case "revert":
                return self._revert(line.word("message_id") or "")
            case _:
                return kind

    def _note(self, kind: str, message_id: str, said: _Said) -> None:
        """Note the place of a message; a record has a place too, at which a revert may begin."""
        known = self._said.get(message_id)
        if known is None:
            self._said[message_id] = said
        elif said.last is not None:
            known.last = said.last
            if kind != "step":
                known.above, known.first = said.above, said.first

    # -- facts -------------------------------------------------------------------------------

    def _begin(self, line: SourceLine) -> Entry | str:
        origin, members = self._origin, line.members
        origin.session_id = line.word("id") or origin.session_id
        origin.cwd = line.word("directory") or ""
        origin.created_at = _time(members)
        origin.is_subagent = bool(line.word("parent_id"))
        origin.parent_id = line.word("parent_id") or line.word("fork_session_id") or None
        known = (name for name in _FACTS if not is_null(members.get(name)))
        # A copy: a slice would keep the whole line in memory.
        origin.facts = {name: Raw(bytes(members[name])) for name in known}
        title = line.word("title")
        if title is None or not is_made_title(title) or title == self._title:
            return "session"
        self._title = title
        return SessionInfoEntry(auto_title=title)

    # -- messages of version 1 ---------------------------------------------------------------

    def _say(
        self, kind: str, ids: tuple[str, str], found: tuple[dict[str, Raw], Parts], whole: bytes
    ) -> Entry | Opaque | str:
        """Return the entry of a message, of a step of the message, or of a later version."""
        (message_id, _), (data, parts) = ids, found
        word = f"message.{text(data.get('role')) or 'none'}"
        known = self._said.get(message_id) if kind == "message" else None
        if known is not None and self._leaf not in {known.above, known.last}:
            # Other messages follow the earlier version.
            return f"{word}.again"
        said = message_of(data, parts)
        if said is None:
            return self._unsaid(word, message_id, data, whole)
        above = UNSET if known is None else known.above
        if said.role == "user":
            asks, kept = kept_from(parts)
            if asks:
                self._asked[message_id] = kept
            elif is_synthetic(parts):
                return structs.replace(_injected("synthetic", said), parent_id=above)
        return self._message(ids, said, above)

    def _message(
        self, ids: tuple[str, str], said: ParsedMessage, above: str | UnsetType | None = UNSET
    ) -> Entry:
        message_id, entry_id = ids
        said = structs.replace(said, usage=self._beyond(message_id, said.usage))
        # Each is an answer by itself, with a name, so that records of tokens belong to an answer.
        message = one_message(said, entry_id if said.role == "assistant" else None)
        return Message(parent_id=above, message=message)

    def _unsaid(
        self, word: str, message_id: str, data: dict[str, Raw], whole: bytes
    ) -> Opaque | str:
        """Return the record of a message that the model does not see, with its tokens if it has any."""
        usage = self._beyond(message_id, usage_of(data))
        if usage is not None:
            return usage_record(usage, whole)
        return word if is_null(data.get("error")) else f"{word}.error"

    def _beyond(self, message_id: str, usage: Usage | None) -> Usage | None:
        if usage is None:
            return None
        return self._stated.setdefault(message_id, StatedUsage()).take(usage)

    def _compact(self, message_id: str, data: dict[str, Raw], parts: Parts) -> Entry | str:
        """Return the compaction that a summary is; the summary itself is the line before."""
        asked = text(data.get("parentID")) or ""
        said = message_of(data, parts)
        is_done = not is_null(data.get("finish")) and is_null(data.get("error"))
        if said is None or not is_done or asked not in self._asked:
            return "compaction"
        question = self._said[asked]
        found = self._path_from(self._said.get(self._asked[asked] or ""))
        if not found:
            found = self._path_from(question)
        beside = {question.first, *self._entries_of(self._said.get(message_id))}
        kept = [one for one in found if one not in beside]
        return Compaction(
            summary=said.text,
            first_kept_entry_id=kept[0] if kept else UNSET,
            details=Raw(msgspec.json.encode({"asked": ASKED, "kept": kept})),
        )

    def _path_from(self, said: _Said | None) -> list[str]:
        """Return the entries from a message on, down to the leaf; none for a message of another branch.

        For a message that only is a record, they are those below its place.
        """
        if said is None:
            return []
        found = self._up(self._leaf, said.above)
        top = self._above[found[-1]] if found else self._leaf
        is_there = top == said.above and (said.last is None or said.first in found[-1:])
        return found[::-1] if is_there else []

    def _entries_of(self, said: _Said | None) -> list[str]:
        """Return the entries of a message, last to first; none for one that is not there."""
        return [] if said is None else self._up(said.last, said.above)

    def _up(self, entry_id: str | None, above: str | None) -> list[str]:
        """Return an entry and those above it, as far as one entry or else to the first."""
        found: list[str] = []
        while entry_id is not None and entry_id != above:
            found.append(entry_id)
            entry_id = self._above[entry_id]
        return found

    # -- rows of version 2 -------------------------------------------------------------------

    def _row(
        self, kind: str, ids: tuple[str, str], data: dict[str, Raw], whole: bytes
    ) -> Entry | Opaque | str:
        word = f"row.{kind or 'none'}"
        match kind:
            case "user" | "assistant":
                said = row_message(kind, data)
                if said is None:
                    return self._unsaid(word, ids[0], data, whole)
                return self._message(ids, said)
            case "synthetic" | "system" | "skill" if text(data.get("text")):
                return _injected(kind, _words(text(data.get("text")) or ""))
            case "shell" if text(data.get("command")):
                output = text(data.get("output")) or text(member(data, "output").get("output"))
                said = _words(f"$ {text(data.get('command'))}\n{output or ''}")
                return structs.replace(_injected(kind, said), display=True)
            case "compaction":
                return _summary(data)
            case "model-switched" if model := text(member(data, "model").get("id")):
                provider = text(member(data, "model").get("providerID"))
                return ModelChange(model_id=model, provider=provider or UNSET)
            case _:
                return word

    # -- reverts -----------------------------------------------------------------------------

    def _revert(self, message_id: str) -> Entry | str:
        """Return the move to the place before a message; an unknown message moves nothing."""
        said = self._said.get(message_id)
        if said is None:
            return "revert"
        self._leaf = said.above
        return Leaf(target_id=said.above, reason="rewind")


def _summary(data: dict[str, Raw]) -> Entry | str:
    """Return the compaction of a row; one that only its provider can read is passed over."""
    status = text(data.get("status")) or "none"
    if status != "completed" or not is_null(data.get("providerContext")):
        return f"row.compaction.{'provider' if status == 'completed' else status}"
    said = filter(None, (text(data.get("summary")), text(data.get("recent"))))
    return Compaction(summary="\n\n".join(said))


def _injected(kind: str, said: ParsedMessage) -> CustomMessage:
    content = fields(one_message(said))["content"]
    return CustomMessage(custom_type=f"{AGENT}.{kind}", content=content, display=False)


def _words(said: str) -> ParsedMessage:
    return ParsedMessage("user", (Block("text", text=said),))


def _time(members: dict[str, Raw]) -> str:
    return rfc3339(decoded(members.get("time_created"), int, None))
