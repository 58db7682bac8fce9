"""Sessions of other agents, read where their files lie: a line at a time, as native entries.

places.py       where agents keep their files, and which names are sessions
reading.py      the port of a reading, and what all readings share
view.py         the dialect of such a session: native lines, and contexts with each answer in one piece
claude_code.py  the reading of a session of Claude Code
claude_tree.py  the places of its lines
claude_messages.py  what one of its lines says
source_line.py  one line of a file as an object
transcript.py   the records of a file's lines, in the order of its tree
kept_state.py   the state of a reading, for a later process
tables/         ids and answers of all lines, as numbers
own_entries.py  ids, times and records of a reading's entries
replies.py      answers in parts: one message for each line, and usage that counts once
codex.py        rollouts of Codex: a list of items
codex_items.py  words, calls and results of one item of a rollout
codex_compactions.py  the compactions of a rollout
codex_turns.py  its turns, which a rollback drops
gemini_cli.py   chats of Gemini CLI: a log of operations on a list
gemini_items.py words, calls and results of one message of a chat
gemini_list.py  the list of a chat's messages
opencode.py     sessions of opencode: rows of a store
opencode_lines.py   the lines that stand for these rows
opencode_items.py   words, calls and results of one row

A store of opencode has no lines of its own: its sessions are known by their places, not by lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Final

from msgspec import Struct

from sessiond.dialects.agents.claude_code import (
    ClaudeCodeReading,
    is_bookkeeping,
    is_claude_code,
)
from sessiond.dialects.agents.codex import CodexReading, is_codex
from sessiond.dialects.agents.gemini_cli import GeminiCliReading, is_gemini_cli
from sessiond.dialects.agents.opencode import OpencodeReading
from sessiond.dialects.agents.reading import Reading
from sessiond.dialects.agents.source_line import SourceLine, source_line
from sessiond.dialects.base import BadLine
from sessiond.dialects.recovery import pieces
from sessiond.model.formats import AgentFormatName

_LINES_TRIED: Final = 50
"""Number of lines that tell an agent: some before the first message tell nothing, or are damaged."""
_FEW_LINES: Final = 4


class Agent(Struct, frozen=True):
    """An agent whose sessions are read: how a file is known by its first lines, and the reading."""

    name: AgentFormatName
    is_mine: Callable[[list[SourceLine]], bool]
    reading: Callable[[], Reading]
    named_by_file: bool = False
    """True if the name of the file is the session's id, and not a line."""
    may_begin: Callable[[SourceLine], bool] = lambda _: False
    """Return whether a line may stand before those that tell the agent, with thousands of its kind."""


AGENTS: Final[Mapping[AgentFormatName, Agent]] = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            is_claude_code,
            ClaudeCodeReading,
            named_by_file=True,
            may_begin=is_bookkeeping,
        ),
        Agent("codex", is_codex, CodexReading),
        Agent("gemini-cli", is_gemini_cli, GeminiCliReading),
        Agent("opencode", lambda _: False, OpencodeReading),
    )
}


def _objects(number: int, line: bytes) -> list[SourceLine]:
    """Return the object that a line is, or the whole objects on a damaged line."""
    with suppress(BadLine):
        return [source_line(number, line)]
    found: list[SourceLine] = []
    for piece in pieces(line):
        with suppress(BadLine):
            found.append(source_line(number, piece.data))
    return found


class FirstLines:
    """The first lines of a file, as far as they came: whether they tell an agent. Each is decoded once."""

    def __init__(self) -> None:
        self._count = 0
        self._first: list[SourceLine] = []
        self._is_tried = False
        # The agents that lines behind these may tell.
        self._may_be = list(AGENTS.values())

    @property
    def is_over(self) -> bool:
        """True if no later line tells an agent."""
        return not self._may_be

    def take(self, lines: Iterable[bytes]) -> Agent | None:
        """Take the next lines; return the agent that the lines so far tell, None if they tell none."""
        numbered = enumerate(lines, self._count + 1)
        # The first lines of most files tell, and a list asks for every file.
        for end in (1, 1 + _FEW_LINES, _LINES_TRIED):
            begun = self._count
            for number, line in islice(numbered, max(0, end - begun)):
                self._first += _objects(number, line)
                self._count = number
            if self._count > begun:
                found = next((one for one in self._may_be if one.is_mine(self._first)), None)
                if found is not None:
                    return found
        if self._count == _LINES_TRIED and not self._is_tried:
            self._is_tried = True
            self._may_be = [one for one in self._may_be if any(map(one.may_begin, self._first))]
            self._first.clear()
        for number, line in numbered if self._may_be else ():
            self._count = number
            objects = _objects(number, line)
            found = next((one for one in self._may_be if one.is_mine(objects)), None)
            if found is not None:
                return found
        return None


def agent_of_lines(lines: Iterable[bytes]) -> Agent | None:
    """Return the agent whose file begins with these lines; None for any other file."""
    return FirstLines().take(lines)
