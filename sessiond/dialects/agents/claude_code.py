"""The reading of a session of Claude Code: a tree of lines, and lines that state facts.

The lines without `uuid` state facts: a title, a tag, and the leaf at which the agent would go on.
`claude_tree` finds the places of the other lines.

    {"parentUuid":null,"isSidechain":false,"type":"user","uuid":"…","timestamp":"…","cwd":"/my/project",
     "sessionId":"…","version":"2.1.330","message":{"role":"user","content":"hi"}}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, structs

from sessiond.dialects.agents.claude_messages import (
    BOUNDARY,
    Told,
    boundary_in,
    custom_type,
    is_queued,
    said_in,
    with_output_file,
    word_for,
)
from sessiond.dialects.agents.claude_tree import ClaudeTree, Kept, Place, TreeLine
from sessiond.dialects.agents.own_entries import EntryIds, Times, record_of
from sessiond.dialects.agents.reading import Links, Origin, Reading
from sessiond.dialects.agents.replies import OpenCalls, one_message
from sessiond.dialects.agents.source_line import SourceLine, member, truth
from sessiond.dialects.agents.tables.answers import Answers
from sessiond.dialects.lenient_json import is_null, lenient, text
from sessiond.model.entries import (
    Compaction,
    CustomMessage,
    Entry,
    Leaf,
    Message,
    Opaque,
    SessionInfoEntry,
)
from sessiond.model.formats import AgentFormatName
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.times import rfc3339

_AGENT: Final[AgentFormatName] = "claude-code"
_FACTS: Final = ("version", "gitBranch", "entrypoint", "agentId", "forkedFrom")
_KINDS: Final = ("", "user", "assistant", "system", "attachment")
# Bookkeeping, of which a file may have thousands of lines before its first message, each with a member that tells it.
_BOOKKEEPING: Final = {
    "summary": "leafUuid",
    "file-history-snapshot": "messageId",
    "queue-operation": "operation",
    "pr-link": "prUrl",
}
_NO_DIGITS: Final = str.maketrans("", "", "-:.TZ")
_TITLES: Final = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}


def is_claude_code(first: Sequence[SourceLine]) -> bool:
    """Return whether a file that begins with these lines is a session of Claude Code."""
    for line in first:
        kind, has_session = line.word("type"), line.word("sessionId") is not None
        if kind in _KINDS[1:] and has_session and line.word("uuid"):
            return True
    return False


def is_bookkeeping(line: SourceLine) -> bool:
    """Return whether Claude Code writes such a line before the first message."""
    return bool(line.word(_BOOKKEEPING.get(line.word("type") or "", "")))


class ClaudeCodeReading(Reading):
    """The reading of one session of Claude Code; `Reading` describes the methods."""

    def __init__(self) -> None:
        self._origin = Origin(_AGENT)
        self._sessions: set[str] = set()
        self._times = Times()
        self._tree = ClaudeTree()
        self._ids = EntryIds(self._tree)
        self._answers = Answers()
        self._calls = OpenCalls()
        self._is_subagent: bool | None = None
        self._has_made_title = False
        self._bridge: str | None = None

    @property
    def origin(self) -> Origin:
        """Facts that the lines so far state."""
        return self._origin

    def take(self, line: SourceLine) -> Entry | Opaque:
        """Return the entry of the next record."""
        told = line.tell(Told)
        self._note_origin(line, told)
        self._bridge = None
        uuid, time = told.uuid or None, rfc3339(told.timestamp)
        entry_id = self._ids.free(uuid, line.number)
        above = self._tree.id_of(self._tree.head) or None
        if uuid is None:
            found = self._fact(line)
        else:
            mark = _mark(told.type or "", time)
            parent = told.parent_uuid or None
            found = self._in_tree(line, told, TreeLine(uuid, parent, mark, entry_id))
        entry = record_of(_AGENT, found, line.raw) if isinstance(found, str) else found
        entry.id, entry.timestamp = entry_id, self._times.take(time)
        if entry.parent_id is UNSET:
            entry.parent_id = above
        return entry

    def is_own(self, line: SourceLine) -> bool:
        """Return whether an object is a record of this session, or states a title of a leaf."""
        said = line.word("sessionId")
        if said is None:
            return line.word("type") == "summary" and line.word("leafUuid") is not None
        return line.word("type") is not None and (said in self._sessions or not self._sessions)

    @property
    def bridge(self) -> str | None:
        """Entry at which the path of the last entry goes on, where the entry's parent is missing."""
        return self._bridge

    def links(self, line: SourceLine) -> Links:
        """Return the uuid of a line and that of the line above; a boundary follows a line, too."""
        told = line.tell(Told)
        return Links(told.uuid or None, told.parent_uuid or told.logical_parent_uuid or None)

    def knows(self, name: str) -> bool:
        """Return whether a line with this uuid came already."""
        return name in self._tree

    def _note_origin(self, line: SourceLine, told: Told) -> None:
        origin, session_id = self._origin, told.session_id
        origin.session_id = origin.session_id or session_id
        if session_id is not None:
            self._sessions.add(session_id)
        origin.cwd = origin.cwd or told.cwd or ""
        origin.created_at = origin.created_at or rfc3339(told.timestamp)
        for name in _FACTS:
            if name in line.members and name not in origin.facts:
                # A copy: a slice would keep the whole line in memory.
                origin.facts = {**origin.facts, name: Raw(bytes(line.members[name]))}

    # -- lines that state facts ----------------------------------------------------------------

    def _fact(self, line: SourceLine) -> Entry | str:
        """Return the entry of a line without a uuid; the agent's word for a line of bookkeeping."""
        kind = line.word("type") or ""
        if kind == "last-prompt":
            return self._pin(line) or kind
        stated = line.word(_TITLES.get(kind, "tag"))
        if stated is None:
            return kind
        match kind:
            case "custom-title":
                return SessionInfoEntry(name=stated or None)
            case "ai-title":
                self._has_made_title = bool(stated)
                return SessionInfoEntry(auto_title=stated or None)
            case "summary" if stated and not self._has_made_title:
                return SessionInfoEntry(auto_title=stated)
            case "tag":
                return SessionInfoEntry(tags=[stated] if stated else None)
            case _:
                return kind

    def _pin(self, line: SourceLine) -> Leaf | None:
        """Return the move to the leaf that a line names; None if nothing moves."""
        uuid, is_explicit = line.word("leafUuid"), truth(line.members, "explicit")
        tree = self._tree
        to = tree.pinned(uuid)
        if to == tree.head or (not to and (uuid is not None or not is_explicit)):
            return None
        tree.head = to
        return Leaf(target_id=tree.id_of(to) or None, reason="rewind" if is_explicit else UNSET)

    # -- lines of the tree -----------------------------------------------------------------------

    def _in_tree(self, source: SourceLine, told: Told, line: TreeLine) -> Entry | str:
        """Return the entry of a line of the tree; the agent's word for a line that says nothing."""
        word, stranger = word_for(source), self._stranger(source, told)
        if self._tree.is_copy(line):
            return f"copy.{word}"
        message = None if stranger else said_in(source)
        if message is None:
            if word == BOUNDARY and not stranger:
                self._tree.add_boundary(line, boundary_in(source))
            else:
                self._tree.add_link(line, is_stranger=bool(stranger))
            return stranger + word
        if not told.is_compact_summary:
            return self._say(source, line, message)
        place, boundary = self._tree.below(line.parent), self._tree.boundary_of(line.parent)
        if place.missing is None or boundary:
            return self._compact(line, message, place, boundary)
        # Nobody knows what was kept, so nothing is left out.
        self._tree.add_node(line, place)
        return CustomMessage(
            parent_id=self._parent_id(place),
            custom_type="claude-code.summary",
            content=Raw(msgspec.json.encode(message.text)),
            display=True,
        )

    def _stranger(self, line: SourceLine, told: Told) -> str:
        """Return the kind of a line that is no part of this file's conversation; "" for any other."""
        is_aside = told.is_sidechain
        if self._is_subagent is None and "isSidechain" in line.members:
            self._is_subagent = self._origin.is_subagent = is_aside
            fork = text(member(line.members, "forkedFrom").get("sessionId"))
            self._origin.parent_id = told.session_id if is_aside else fork
        if is_aside != bool(self._is_subagent):
            return "sidechain."
        return "" if is_null(line.members.get("teamName")) else "team."

    def _say(self, source: SourceLine, line: TreeLine, message: ParsedMessage) -> Entry:
        response_id = None
        if message.role == "assistant":
            response_id = text(member(source.members, "message").get("id")) or None
            place, message = self._answer(line, message, response_id)
        else:
            place, message = self._user(line, message, is_late=is_queued(source))
        self._tree.add_node(line, place)
        answer = self._answers.find(response_id or "")
        said = one_message(message, response_id, self._answers.total(answer))
        if message.is_result:
            said = with_output_file(source, said)
        kind = custom_type(source, message)
        parent_id = self._parent_id(place)
        if kind is None:
            return Message(parent_id=parent_id, message=said)
        return CustomMessage(
            parent_id=parent_id,
            custom_type=kind,
            content=lenient(said)["content"],
            display=kind != "claude-code.meta",
        )

    def _parent_id(self, place: Place) -> str | None:
        """Return the id of the entry above a place, or the uuid of the line that is missing there."""
        above = self._tree.id_of(place.above) or None
        if place.missing is None or self._ids.is_ours(place.missing):
            return above
        self._bridge = above
        return place.missing

    def _answer(
        self, line: TreeLine, message: ParsedMessage, response_id: str | None
    ) -> tuple[Place, ParsedMessage]:
        """Return the place of a line of an answer, and the message with its own part of the usage."""
        tree, place, answers = self._tree, self._tree.below(line.parent), self._answers
        answer = answers.find(response_id or "")
        group = answers.group(answer)
        if answer and place.missing is not None:
            place = tree.in_group(group)
        elif answer and tree.goes_on(group, place):
            place = Place(place.above or tree.in_group(group).above, None, group)
        else:
            place = Place(place.above, place.missing, tree.new_group())
            if place.missing is not None:
                tree.lose(place.missing, place.group)
            if response_id is not None:
                answer = answer or answers.add(response_id)
                answers.set_group(answer, place.group)
        self._calls.ask(place.group, message)
        stated = answers.stated(answer)
        usage = stated.take(message.usage)
        answers.keep(answer, stated)
        said = message if usage is message.usage else structs.replace(message, usage=usage)
        return place, said

    def _user(
        self, line: TreeLine, message: ParsedMessage, *, is_late: bool
    ) -> tuple[Place, ParsedMessage]:
        """Return the place of a line of the user, and the message with the names of its tools.

        Results stand behind their answer. So does a prompt that was queued while results are missing,
        since these come below the prompt.
        """
        message, group = self._calls.settle(message)
        if group is not None:
            return self._tree.in_group(group), message
        place = self._tree.below(line.parent)
        if message.is_result:
            place = self._tree.of_lost(place)
        if not (message.is_result or (is_late and self._calls.is_waiting(place.group))):
            place = Place(place.above, place.missing)
        return place, message

    def _compact(
        self, line: TreeLine, message: ParsedMessage, otherwise: Place, begun: int
    ) -> Compaction:
        tree = self._tree
        kept, boundary = tree.add_summary(line, begun, otherwise)
        above = tree.id_of(tree.above(tree.head)) or None
        entry = Compaction(
            parent_id=above,
            summary=message.text,
            first_kept_entry_id=tree.id_of(kept.first) or None,
        )
        if boundary is not None:
            entry.tokens_before = _stated(boundary.tokens_before)
            entry.tokens_after = _stated(boundary.tokens_after)
        if kept.nodes is not None or kept.missing:
            entry.details = self._details(kept)
        return entry

    def _details(self, kept: Kept) -> Raw:
        """Return the entries that a compaction keeps if it keeps only some, and the missing ones."""
        details: dict[str, object] = {}
        if kept.nodes is not None:
            details["kept"] = [self._tree.id_of(node) for node in kept.nodes]
        if kept.missing:
            details["missing"] = kept.missing
        return Raw(msgspec.json.encode(details))


def _mark(kind: str, time: str) -> int:
    """Return a number that a line has in common with its copies: its time and its type."""
    known = _KINDS.index(kind) if kind in _KINDS else len(_KINDS)
    return int(time.translate(_NO_DIGITS) or -1) * (len(_KINDS) + 1) + known


def _stated(count: int | None) -> int | msgspec.UnsetType:
    return UNSET if count is None else count
