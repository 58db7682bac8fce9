"""Sessions of Claude Code: a tree of lines, as the entries of a native file.

The lines without `uuid` state facts: a title, a tag, and the leaf at which the agent would go on.
`claude_tree` puts the other lines into their places.

    {"parentUuid":null,"isSidechain":false,"type":"user","uuid":"…","timestamp":"…","cwd":"/my/project",
     "sessionId":"…","version":"2.1.330","message":{"role":"user","content":"hi"}}
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, structs

from sessiond.dialects.lenient_json import is_null, text
from sessiond.dialects.payload import read_message
from sessiond.model.entries import SessionInfoEntry
from sessiond.service.files.agents.claude_tree import TreeLine, TreeOfLines
from sessiond.service.files.agents.source import (
    AgentLog,
    Report,
    SourceLine,
    member,
    truth,
)
from sessiond.service.files.agents.writing import Conversation, Origin

__all__ = ["claude_code", "is_claude_code"]

AGENT: Final = "claude-code"
_SAID: Final = frozenset({"user", "assistant"})
_FACTS: Final = ("version", "gitBranch", "entrypoint", "agentId", "forkedFrom")


def is_claude_code(first: list[SourceLine]) -> bool:
    """Return whether a file that begins with these lines is a session of Claude Code."""
    for line in first:
        kind, has_session = line.word("type"), line.word("sessionId") is not None
        if kind in _SAID | {"system", "attachment"} and has_session and line.word("uuid"):
            return True
        if kind == "summary" and line.word("leafUuid"):
            return True
    return False


def claude_code(log: AgentLog, report: Report) -> Conversation:
    """Return the conversation of a file; `report` gets what has no place in it."""
    reading = _Reading(report, log.beside.title)
    for line in report.objects(log):
        reading.take(line)
    return reading.conversation()


class _Reading:
    """The lines of one file, and the facts that its other lines state."""

    def __init__(self, report: Report, title: str | None) -> None:
        self._report = report
        self._lines: dict[str, TreeLine] = {}
        self._origin = Origin(AGENT)
        self._titles = {} if title is None else {"summary": title}
        self._tag = ""
        self._pin: tuple[int, str | None] | None = None
        self._is_subagent: bool | None = None

    def take(self, line: SourceLine) -> None:
        """Take the next line of the file."""
        kind, uuid = line.word("type") or "", line.word("uuid")
        self._note_origin(line)
        if uuid is None:
            self._take_fact(kind, line)
        else:
            found = TreeLine(line.number, uuid, line.word("parentUuid"), line.members, kind)
            known = self._lines.get(uuid)
            if known is not None and known.is_copy(found):
                # A second compaction writes kept lines again; the later one counts.
                known.members = line.members
                return
            if known is not None:
                self._report.add(line.number, "duplicate_id", "an earlier line has the same id")
                found.uuid = f"{uuid}.{line.number}"
            self._lines[found.uuid] = found
            if self._is_subagent is None and kind in _SAID:
                self._is_subagent = truth(line.members, "isSidechain")

    def _note_origin(self, line: SourceLine) -> None:
        origin = self._origin
        origin.session_id = origin.session_id or line.word("sessionId")
        origin.cwd = origin.cwd or line.word("cwd") or ""
        origin.created_at = origin.created_at or line.time()
        for name in _FACTS:
            if name in line.members and name not in origin.facts:
                origin.facts = {**origin.facts, name: line.members[name]}

    def _take_fact(self, kind: str, line: SourceLine) -> None:
        match kind:
            case "custom-title" | "ai-title" | "summary":
                name = {"custom-title": "customTitle", "ai-title": "aiTitle"}.get(kind, "summary")
                self._titles[kind] = line.word(name) or ""
            case "tag":
                self._tag = line.word("tag") or ""
            case "last-prompt":
                leaf = line.word("leafUuid")
                if leaf is not None or truth(line.members, "explicit"):
                    self._pin = line.number, leaf
            case _:
                self._report.leave_out(line.number, f"lines of type {kind or 'none'}")

    # -- the tree ------------------------------------------------------------------------

    def conversation(self) -> Conversation:
        """Return what the lines say."""
        tree = TreeOfLines(self._lines, self._report)
        for line in self._lines.values():
            if self._is_said(line):
                found = read_message(self._said(line) or b"")
                role = "assistant" if line.kind == "assistant" else "user"
                line.message = None if found is None else structs.replace(found, role=role)
            if line.message is None and not line.is_boundary:
                self._leave_out(line)
        steps = tree.steps()
        title, auto = self._titles.get("custom-title"), self._titles.get("ai-title")
        auto = auto or self._titles.get("summary")
        info = SessionInfoEntry(
            name=title or UNSET, auto_title=auto or UNSET, tags=[self._tag] if self._tag else UNSET
        )
        has_info = title or auto or self._tag
        leaf = self._leaf(tree)
        return Conversation(self._origin, steps, info if has_info else None, leaf)

    def _is_said(self, line: TreeLine) -> bool:
        """Return whether a line is part of this file's conversation."""
        if truth(line.members, "isSidechain") != bool(self._is_subagent):
            return False
        return "teamName" not in line.members or is_null(line.members["teamName"])

    def _said(self, line: TreeLine) -> Raw | None:
        """Return the message of a line; that of a prompt that was queued while the model answered."""
        if line.kind in _SAID:
            return line.members.get("message")
        queued = member(line.members, "attachment")
        if line.kind != "attachment" or text(queued.get("type")) != "queued_command":
            return None
        said = {"role": "user", "content": queued.get("prompt", Raw(b'""'))}
        return Raw(msgspec.json.encode(said))

    def _leave_out(self, line: TreeLine) -> None:
        what = line.kind or "none"
        detail = text(line.members.get("subtype")) or text(
            member(line.members, "attachment").get("type")
        )
        if truth(line.members, "isSidechain") != bool(self._is_subagent):
            what, detail = "subagents", None
        name = f"lines of type {what}" + (f" ({detail})" if detail else "")
        self._report.leave_out(line.number, name)

    def _leaf(self, tree: TreeOfLines) -> str | None:
        """Return the step at which the agent would go on."""
        if self._pin is None or tree.newest_line > self._pin[0]:
            return tree.newest
        uuid = self._pin[1]
        return None if uuid is None else tree.step_of(uuid) or tree.newest
