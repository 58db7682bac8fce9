"""One generated file read by sessiond and by the second reader, and what both must find alike.

The two may differ, both in the right, where the facts on the formats are silent:

* A boundary and an encrypted summary say nothing: only the second reader shows them, as a marker.
* Words of the system, which no native message has, are records in sessiond.
* A compaction of Codex without a history has its summary as the user's last message in sessiond.
* A call of Gemini that never had a result has one in sessiond, since every provider wants one.
* Half a sign beyond 16 bits is no UTF-8: sessiond has U+FFFD instead.
* White space between thoughts is the reader's own, and so is an answer without a word.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sessiond.dialects.agents import AGENTS
from sessiond.model.formats import AgentFormatName
from sessiond.model.row import Kind
from sessiond.model.usage import Usage
from tests.kit.agent_files.claude_moves import claude_script
from tests.kit.agent_files.codex_moves import codex_copy, codex_script
from tests.kit.agent_files.dice import Sizes
from tests.kit.agent_files.gemini_moves import MOVES as GEMINI_MOVES
from tests.kit.agent_files.gemini_moves import gemini_script
from tests.kit.agent_files.said import Reading, Said
from tests.kit.agent_files.second_claude import read_claude
from tests.kit.agent_files.second_codex import read_codex
from tests.kit.agent_files.second_gemini import read_gemini
from tests.kit.readings import ReadSession

SURROGATES: Final = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
SILENT: Final = frozenset({"marker", "developer", "system"})
# Moves that end with a new reply, so that the last model of the file is the one at the leaf.
REPLIES: Final = frozenset({"plain", "tools", "parallel", "model", "image", "images", "steps"})


class Script(Protocol):
    """A script of any agent."""

    def steps(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield each move and its lines."""
        ...


@dataclass(frozen=True)
class Spoken:
    """A message of a context without its ids, as both readers must find it."""

    role: str
    text: str = ""
    calls: tuple[str, ...] = ()
    thinking: str = ""
    images: int = 0
    failed: bool = False

    @property
    def is_silent(self) -> bool:
        """True for an answer that says nothing a reader can show."""
        said = self.text or self.calls or self.thinking or self.images
        return self.role == "assistant" and not said


@dataclass(frozen=True)
class Kit:
    """A kind of generated files: its agent, its scripts, and the second reader."""

    agent: AgentFormatName
    make: Callable[[int | str, Sizes], Script]
    read: Callable[[list[bytes]], Reading]


def _gemini_without(*names: str) -> Callable[[int | str, Sizes], Script]:
    moves = {name: move for name, move in GEMINI_MOVES.items() if name not in names}
    return lambda seed, sizes: gemini_script(seed, sizes, moves=moves)


def _copy(seed: int | str, sizes: Sizes) -> Script:
    parent = codex_script(f"{seed} parent", Sizes(turns=sizes.turns // 2))
    lines = list(parent)
    return codex_copy(seed, parent, lines, Sizes(turns=sizes.turns // 2))


KITS: Final = {
    "claude": Kit("claude-code", claude_script, read_claude),
    "codex": Kit("codex", codex_script, read_codex),
    "codex-paginated": Kit(
        "codex", lambda seed, sizes: codex_script(seed, sizes, paginated=True), read_codex
    ),
    "codex-copy": Kit("codex", _copy, read_codex),
    # No program writes an older answer anew; behind a rewind past such a line the reading has the old words.
    "gemini": Kit("gemini-cli", _gemini_without("again"), read_gemini),
    "gemini-again": Kit("gemini-cli", _gemini_without("rewind"), read_gemini),
}


class Pair:
    """Sessiond and the second reader over equal lines."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.found = ReadSession(AGENTS[kit.agent].reading())
        self.lines: list[bytes] = []

    def take(self, lines: Iterable[bytes]) -> Pair:
        """Give both readers the next lines."""
        for line in lines:
            self.lines.append(line)
            self.found.take(line)
        return self

    def hold(self, move: str = "") -> None:
        """Fail unless both found the same, behind a move."""
        second = self.kit.read(self.lines)
        _hold_context(self.found, second)
        _hold_leaf(self.found, second)
        _hold_facts(self.found, second, move)
        # A prompt that came while the model worked is none of the second reader's prompts.
        queued = {_uuid(line) for line in self.lines if b'"queued_command"' in line}
        assert _prompts(self.found) - queued == set(second.prompts)

    def hold_within(self) -> None:
        """Fail unless both found the same context and problems, also in the middle of a move."""
        second = self.kit.read(self.lines)
        _hold_context(self.found, second)
        assert tokens(self.found.usage) == tokens(usage_of(second, self.kit.agent))


def hold_all(kit: Kit, seed: int | str, sizes: Sizes) -> Counter[str]:
    """Fail unless both readers agree behind each move of a script; return the moves that were made."""
    pair, moves = Pair(kit), Counter[str]()
    for move, lines in kit.make(seed, sizes).steps():
        pair.take(lines).hold(move)
        moves[move] += 1
    return moves


def lines_of(kit: Kit, seed: int | str, sizes: Sizes) -> list[bytes]:
    """Return all lines of a script."""
    return [line for _, lines in kit.make(seed, sizes).steps() for line in lines]


def contexts(
    found: Sequence[tuple[str, dict[str, Any]]], second: Reading, agent: AgentFormatName
) -> tuple[list[tuple[str, Spoken]], list[tuple[Said, Spoken]]]:
    """Return the messages that sessiond and the second reader found, with their sources, to compare both."""
    theirs = [(one, spoken_of(one, agent)) for one in second.context if one.role not in SILENT]
    theirs = [(one, said) for one, said in theirs if not said.is_silent]
    mine = [(source, spoken_by(message)) for source, message in found]
    mine = [(source, said) for source, said in mine if not said.is_silent]
    if agent == "gemini-cli":
        answered = {said.calls for _, said in theirs if said.role == "tool"}
        mine = [one for one in mine if one[1].role != "tool" or one[1].calls in answered]
    return mine, theirs


def _hold_context(found: ReadSession, second: Reading) -> None:
    """Fail unless both found the same messages, made of the same lines, and the same problems."""
    mine, theirs = contexts(found.messages(), second, found.origin.agent)
    assert [said for _, said in mine] == [said for _, said in theirs]
    for (source, _), (one, _) in zip(mine, theirs, strict=True):
        assert _is_from(found, source, one.ids), (source, one)
    kinds = [kind for _, kind in found.problems()]
    assert kinds.count("bad_line") == second.bad
    assert set(kinds) <= {"bad_line", "orphan"}
    assert ("orphan" in kinds) <= bool(second.missing)


def _hold_facts(found: ReadSession, second: Reading, move: str) -> None:
    """Fail unless both found the same title, tag, tokens, model and folder."""
    agent, facts = found.origin.agent, found.session.facts
    if second.stated_title is not None:
        title = second.stated_title.translate(SURROGATES)
        assert (facts.get("title") or facts.get("auto_title")) == title
    assert (facts.get("tags") or []) == ([second.tag] if second.tag else [])
    assert tokens(found.usage) == tokens(usage_of(second, agent))
    if move in REPLIES:
        assert (found.model or (None,))[0] == second.model
    if second.cwd is not None:
        assert found.origin.cwd == second.cwd


def _hold_leaf(found: ReadSession, second: Reading) -> None:
    """Fail unless both are at one end: Claude's line, else a line of the context's last messages."""
    leaf = found.leaf_id
    if found.origin.agent == "claude-code" or not second.context:
        assert leaf == (second.leaf if second.context else None)
        return
    last: list[str] = []
    for one in reversed(second.context):
        last += one.ids
        # An older message of Gemini that is written anew stays at its place, and is the leaf.
        if one.role not in {*SILENT, "tool"} and found.origin.agent == "codex":
            break
    assert leaf is not None
    assert _is_from(found, leaf, last), (leaf, last)


def _is_from(found: ReadSession, entry_id: str, ids: Iterable[str]) -> bool:
    """Return whether an entry is of one of the lines with these ids.

    A compaction of Codex and a replaced list of Gemini have the words of other lines.
    """
    session, agent = found.session, found.origin.agent
    if agent == "claude-code":
        return entry_id in ids
    if session.kinds[session.ids[entry_id]] == Kind.COMPACTION:
        return True
    # A later version of a message has the number of its line behind the id.
    own = entry_id.partition(".")[0] if agent == "gemini-cli" else entry_id
    return own in {one.partition("/")[0] for one in ids}


def _prompts(found: ReadSession) -> set[str]:
    """Return the ids of the prompts on all branches."""
    session = found.session
    pairs = zip(session.names, session.kinds, strict=True)
    return {name for name, kind in pairs if kind == Kind.USER}


def _uuid(line: bytes) -> str:
    return str(json.loads(line)["uuid"])


def spoken_by(message: dict[str, Any]) -> Spoken:
    """Return what a message of sessiond's context says."""
    if "summary" in message:
        return Spoken("summary", str(message["summary"]))
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    role = str(message["role"])
    calls = [str(one["id"]) for one in blocks if one["type"] == "toolCall"]
    if role == "toolResult":
        calls = [str(message["toolCallId"])]
    return Spoken(
        {"toolResult": "tool", "custom": "user"}.get(role, role),
        "".join(str(one["text"]) for one in blocks if one["type"] == "text"),
        tuple(calls),
        _closed("".join(str(one["thinking"]) for one in blocks if one["type"] == "thinking")),
        sum(one["type"] == "image" for one in blocks),
        bool(message.get("isError")),
    )


def spoken_of(said: Said, agent: AgentFormatName) -> Spoken:
    """Return what a message of a second reader says, in sessiond's terms."""
    role = "user" if agent == "codex" and said.role == "summary" else said.role
    text = "".join(said.texts).translate(SURROGATES)
    thinking = _closed("".join(said.thinking))
    return Spoken(role, text, said.calls, thinking, said.images, said.failed)


def _closed(text: str) -> str:
    return "".join(text.split())


def usage_of(second: Reading, agent: AgentFormatName) -> Usage:
    """Return the tokens that a second reader counted, in sessiond's terms: none of the input is cached."""
    found = second.usage
    match agent:
        case "claude-code":
            read, written = found["cache_read"], found["cache_write"]
            return Usage(found["input"], found["output"], read, written)
        case "codex":
            return Usage(found["input"] - found["cached"], found["output"], found["cached"])
        case _:
            got = found["output"] + found["thoughts"]
            return Usage(found["input"] - found["cached"], got, found["cached"])


def tokens(usage: Usage | None) -> tuple[int, int, int, int]:
    one = usage or Usage()
    return one.input_tokens, one.output_tokens, one.cache_read_tokens, one.cache_write_tokens
