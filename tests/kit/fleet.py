"""A year of sessions of five agents, with words whose places are known.

What is published, or measured on what is published:

* Sizes are log-normal. A survey of Claude Code (formats-agents.md, S20) has 931 MiB in 608 files, so a mean of 1.5 MiB,
  and files of at most 31 MiB are typical. A log-normal sample of 608 with this mean and this greatest value has a sigma
  of 1.32 and a median of 42 % of the mean. A fleet draws so, at a mean of its own: 100,000 files of the survey's mean
  would be 150 GB. No session is shorter than a turn, so the sizes of a fleet have a sigma of about 1.
* The survey has 608 files for 389 sessions; the others are of subagents. Here two of five files of Claude Code are.

What is assumed: the mix of ten files below, of which five are of Claude Code; a project for each fifty files; a turn is
a prompt, a call with its output, and an answer; more than half of the bytes are outputs; a third of the sentences is in
one of ten scripts. A fleet is drawn from its seed: equal arguments give equal files. `tests/kit/agent_files` makes
sessions with every move of an agent; here are many plain ones.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from tests.kit import gemini
from tests.kit.agent_files.dice import stamp
from tests.kit.agent_files.opencode import connected, make_database, play
from tests.kit.agent_files.roots import slug_of
from tests.kit.agents import (
    claude_line,
    codex_asked,
    codex_event,
    codex_item,
    codex_line,
    codex_said,
    codex_tokens,
)
from tests.kit.claude import assistant, result
from tests.kit.opencode import BEGAN, text, tool, with_message, with_session
from tests.kit.scripts import SCRIPTS, Vocabulary
from tests.kit.sessions import tool_use

__all__ = ["SIGMA", "Fleet", "Session"]

SIGMA: Final = 1.32
"""Sigma of the sizes: what 608 files of a mean of 1.53 MiB and of at most 31 MiB have."""
_GREATEST: Final = 20
"""Greatest size, in means: 31 MiB of 1.53."""
_PART: Final = "part"
_MIX: Final = (
    *("claude-code", "codex", _PART, "claude-code", "gemini-cli"),
    *("opencode", "claude-code", _PART, "pi", "codex"),
)
"""Agents of ten files in a row; a part is a subagent's file, of the session of Claude Code before it."""
_YEAR: Final = 1_735_689_600
"""First second of 2025."""
_DAYS: Final = 365
_STEP_SECONDS: Final = 20
_FILES_OF_PROJECT: Final = 50
_WORDS_OF_SCRIPT: Final = 20
_SPREAD: Final = (1, 1, 2, 3, 5)
"""Numbers of sessions into which a word is put."""
_ROWS_AT_ONCE: Final = 2_000
_PROSE: Final = (
    "Please look at the failing test and mend its cause.",
    "The handler returns before the file is closed, so the last line is lost.",
    "I changed two functions and added a test that fails without the change.",
    "Run the whole suite again, then commit with a message that says why.",
    "The cache keeps a stale entry because nobody compares the version.",
)
_OUTPUT: Final = (
    "src/payment/handler_17.py:142: async def close(self) -> None:",
    "    return await self._connection.execute(query, (session_id, limit))",
    "tests/test_orders.py::test_a_refund_is_stored_once PASSED [ 42%]",
    "-rw-r--r-- 1 ann ann 18234 Mar 11 09:41 package-lock.json",
    '{"level":"warn","at":"2025-03-11T09:41:07Z","msg":"retry","attempt":3,"queue":"mail"}',
    "+    if (found === undefined) { throw new RangeError(`no row ${id}`); }",
)
_COMMAND: Final = "make test"
_BESIDES: Final = " ".join(("home ann project bash ls", _COMMAND, *_PROSE, *_OUTPUT))
"""Words that a fleet says besides the texts of its vocabularies."""

_INDEXES: Final = [
    (f"CREATE INDEX {table}_{key}_idx ON {table} ({key}_id)", ())
    for table, key in (("message", "session"), ("part", "session"), ("part", "message"))
]
"""The indexes of opencode's own database."""

_Row = tuple[str, Sequence[Any]]


class _Turn(Struct, frozen=True):
    """A prompt, the output of a call, and the answer."""

    prompt: str
    output: str
    answer: str


class Session(Struct):
    """A session of a fleet: where its agent keeps it, and how many of its messages have each word."""

    id: str
    kind: str
    path: Path
    began: int
    cwd: str
    parent: str | None = None
    """The session that started this one for a task."""
    changed: int = 0
    """Time of the last change: long past, so that no program has to wait, and never the same twice."""
    turns: int = 0
    words: Counter[str] = msgspec.field(default_factory=Counter)

    def at(self, step: int) -> str:
        """Return the time of a step as agents write it."""
        return stamp(1000 * (self.began + _STEP_SECONDS * step))


class Fleet:
    """Folders of five agents below a home, in which sessions come, grow, change and go."""

    def __init__(self, home: Path, seed: int = 0, *, mean_bytes: int = 2_000) -> None:
        """Draw the words, and make the empty folders."""
        self.roots = {
            "claude-code": home / "claude" / "projects",
            "codex": home / "codex" / "sessions",
            "gemini-cli": home / "gemini" / "tmp",
            "opencode": home / "opencode",
            "pi": home / "pi" / "sessions",
        }
        self.sessions: dict[str, Session] = {}
        self._dice = random.Random(f"fleet {seed}")
        self._mean = mean_bytes
        self._made = 0
        self._writes = 0
        self._last_claude: Session | None = None
        self._database = self.roots["opencode"] / "opencode.db"
        self._vocabularies: dict[str, Vocabulary] = {}
        self._with: dict[str, list[str]] = {}
        self._without: list[str] = []
        for script in SCRIPTS:
            drawn = Vocabulary(script, f"{script.name} {seed}", _WORDS_OF_SCRIPT, besides=_BESIDES)
            for word in drawn.words:
                self._vocabularies[word] = drawn
                self._with[word] = list(drawn.texts_with(word))
                self._without += drawn.texts_like(word)
        for root in self.roots.values():
            root.mkdir(parents=True)
        make_database(self._database)
        self._execute(_INDEXES)

    @property
    def words(self) -> list[str]:
        """Return the words whose places are known: twenty of each script."""
        return list(self._vocabularies)

    @property
    def files(self) -> list[Path]:
        """Return the files of the sessions; all sessions of opencode are in one."""
        return sorted({one.path for one in self.sessions.values()})

    def has(self, said: str, word: str) -> bool:
        """Return whether a text has a word."""
        return self._vocabularies[word].has(said, word)

    def holders(self, word: str, *, parts: bool = True) -> dict[str, int]:
        """Return the sessions that have a word, each with the number of its messages that have the word."""
        return {
            one.id: one.words[word]
            for one in self.sessions.values()
            if one.words[word] and (parts or one.parent is None)
        }

    # -- what happens to sessions ------------------------------------------------------

    def fill(self, count: int) -> None:
        """Add sessions of the whole year, and put each word into some of them."""
        placed: list[list[str]] = [[] for _ in range(count)]
        for word in self.words:
            for at in self._dice.sample(range(count), min(count, self._dice.choice(_SPREAD))):
                placed[at] += [word] * self._dice.choice((1, 1, 2))
        # The rows of one database go into it by thousands.
        rows: list[_Row] = []
        for at, words in enumerate(placed):
            session = self._new(_YEAR + at * _DAYS * 86_400 // count)
            rows += self._put(session, words)
            if len(rows) > _ROWS_AT_ONCE:
                self._execute(rows)
                rows = []
        self._execute(rows)

    def add(self, words: Sequence[str] = ()) -> Session:
        """Let the next agent of the mix make a session with these words; return it."""
        session = self._new(_YEAR + _DAYS * 86_400 + self._made)
        self._execute(self._put(session, words))
        return session

    def append(self, session: Session, words: Sequence[str] = ()) -> None:
        """Let an agent go on with a session; what is said has these words."""
        self._execute(self._put(session, words))

    def rewrite(self, session: Session, words: Sequence[str] = ()) -> None:
        """Put another conversation, with these words, into the place of a session's own."""
        rows = _deleted(session) if session.kind == "opencode" else []
        session.turns, session.words = 0, Counter()
        self._execute([*rows, *self._put(session, words)])

    def remove(self, session: Session) -> None:
        """Let an agent delete a session, with the sessions that it started."""
        for part in [one for one in self.sessions.values() if one.parent == session.id]:
            self.remove(part)
        del self.sessions[session.id]
        if session.kind == "opencode":
            self._execute(_deleted(session))
        else:
            session.path.unlink()

    # -- how sessions are made ---------------------------------------------------------

    def _new(self, began: int) -> Session:
        """Return the next session of the mix, of which nothing is stored yet."""
        at = self._made
        self._made += 1
        project = f"project{at // _FILES_OF_PROJECT}"
        cwd, time = f"/home/ann/{project}", stamp(1000 * began).replace(":", "-")
        name = f"{at:08x}-{self._dice.getrandbits(16):04x}-4000-8000-{at:012x}"
        kind, owner = _MIX[at % len(_MIX)], self._last_claude
        if kind == _PART and owner is not None and owner.id in self.sessions:
            name = f"agent-{at:017x}"
            path = owner.path.with_suffix("") / "subagents" / f"{name}.jsonl"
            session = Session(name, "claude-code", path, began, owner.cwd, owner.id)
        elif kind in {_PART, "claude-code"}:
            path = self.roots["claude-code"] / slug_of(cwd) / f"{name}.jsonl"
            session = self._last_claude = Session(name, "claude-code", path, began, cwd)
        elif kind == "opencode":
            session = Session(f"ses_{name.replace('-', '')}", kind, self._database, began, cwd)
        else:
            folder, file = {
                "codex": (time[:10].replace("-", "/"), f"rollout-{time[:19]}-{name}"),
                "gemini-cli": (f"{project}/chats", f"session-{time[:16]}-{name[:8]}"),
                "pi": (f"-{slug_of(cwd)}--", f"{time.replace('.', '-')}_{name}"),
            }[kind]
            session = Session(name, kind, self.roots[kind] / folder / f"{file}.jsonl", began, cwd)
        self.sessions[session.id] = session
        return session

    def _put(self, session: Session, words: Sequence[str]) -> list[_Row]:
        """Store the next turns of a session; return the statements for it, where it is in a database."""
        turns = self._turns(words)
        self._writes += 1
        session.changed = session.began + self._writes
        if session.kind == "opencode":
            rows = [*_opencode(session, turns)]
        else:
            rows = []
            data = b"".join(
                msgspec.json.encode(line) + b"\n" for line in _WRITERS[session.kind](session, turns)
            )
            self._write(session, data)
        session.turns += len(turns)
        session.words.update(words)
        return rows

    def _write(self, session: Session, data: bytes) -> None:
        """Write lines behind those of a session, or in their place if they are its first ones."""
        path, is_first = session.path, not session.turns
        if is_first:
            path.parent.mkdir(parents=True, exist_ok=True)
            _describe(session)
        with path.open("wb" if is_first else "ab") as file:
            file.write(data)
        os.utime(path, (session.changed, session.changed))

    def _turns(self, words: Sequence[str]) -> list[_Turn]:
        """Return turns of a drawn size, in which each word has a message of its own."""
        drawn = math.exp(self._dice.gauss(-(SIGMA**2) / 2, SIGMA))
        size = int(self._mean * min(drawn, _GREATEST))
        said = self._dice.sample(words, len(words))
        turns: list[_Turn] = []
        while size > 0 or said or not turns:
            lines = self._dice.choices(
                _OUTPUT, k=self._dice.randrange(1, 2 + min(60, max(size, 0) // 80))
            )
            turn = _Turn(self._message(said), "\n".join(lines), self._message(said))
            turns.append(turn)
            # The names, ids and times around the texts; Codex writes what is said twice.
            size -= len(turn.prompt) + len(turn.output) + len(turn.answer) + 1_800
        return turns

    def _message(self, said: list[str]) -> str:
        """Return a text of some sentences, with the next word that is to be said."""
        texts = [
            self._dice.choice(self._without if self._dice.random() < 1 / 3 else _PROSE)
            for _ in range(self._dice.randrange(1, 4))
        ]
        if said:
            texts.insert(
                self._dice.randrange(len(texts) + 1), self._dice.choice(self._with[said.pop()])
            )
        return "\n".join(texts)

    def _execute(self, rows: Sequence[_Row]) -> None:
        if rows:
            with closing(connected(self._database)) as connection:
                play(connection, [tuple((sql, tuple(values)) for sql, values in rows)])


def _describe(session: Session) -> None:
    """Write what an agent keeps beside the file of a session."""
    if session.parent is not None:
        meta = {"agentType": "general-purpose", "description": "look", "toolUseId": "toolu_1"}
        session.path.with_suffix(".meta.json").write_text(json.dumps(meta), "utf-8")
    elif session.kind == "gemini-cli":
        (session.path.parent.parent / ".project_root").write_text(session.cwd, "utf-8")


# -- the lines of each agent --------------------------------------------------------------


def _claude(session: Session, turns: Sequence[_Turn]) -> Iterator[Any]:
    own: dict[str, Any] = {"cwd": session.cwd, "sessionId": session.parent or session.id}
    if session.parent is not None:
        own |= {"isSidechain": True, "agentId": session.id.removeprefix("agent-")}

    def uuid(step: int) -> str:
        return f"{session.id[-8:]}-0000-4000-8000-{step:012x}"

    for number, turn in enumerate(turns, session.turns):
        first, call = 4 * number, f"toolu_{number}"
        lines = (
            claude_line(first, None, turn.prompt),
            assistant(0, None, tool_use(call, "Bash", command=_COMMAND), answer=f"msg_{first}c"),
            result(0, 0, call, turn.output),
            claude_line(first, None, turn.answer, "assistant"),
        )
        for step, line in enumerate(lines, first):
            above = uuid(step - 1) if step else None
            yield (
                line
                | own
                | {"uuid": uuid(step), "parentUuid": above, "timestamp": session.at(step)}
            )


def _codex(session: Session, turns: Sequence[_Turn]) -> Iterator[Any]:
    if not session.turns:
        facts: dict[str, Any] = {
            "timestamp": session.at(0),
            "originator": "codex_cli_rs",
            "cli_version": "0.169.0",
        }
        meta = codex_line("session_meta", id=session.id, cwd=session.cwd, source="cli", **facts)
        yield meta | {"timestamp": session.at(0)}
    for number, turn in enumerate(turns, session.turns):
        call = f"call_{number}"
        arguments = json.dumps({"cmd": _COMMAND})
        for line in (
            codex_event("task_started", turn_id=f"t{number}"),
            *codex_asked(turn.prompt),
            codex_item("function_call", name="exec_command", arguments=arguments, call_id=call),
            codex_item("function_call_output", call_id=call, output=turn.output),
            codex_said(turn.answer, "assistant"),
            codex_event("agent_message", message=turn.answer),
            codex_tokens(900 * (number + 1), sent=840, got=60),
        ):
            yield line | {"timestamp": session.at(number)}


def _gemini(session: Session, turns: Sequence[_Turn]) -> Iterator[Any]:
    time = session.at(0)
    if not session.turns:
        digest = hashlib.sha256(session.cwd.encode()).hexdigest()
        head = {"sessionId": session.id, "projectHash": digest, "kind": "main"}
        yield head | {"startTime": time, "lastUpdated": time}
    for number, turn in enumerate(turns, session.turns):
        time = session.at(number)
        calls = [gemini.call(f"call-{number}", turn.output)]
        yield gemini.user(f"u{number}", turn.prompt) | {"timestamp": time}
        yield gemini.model(f"g{number}", turn.answer, toolCalls=calls, model="m") | {
            "timestamp": time
        }


def _pi(session: Session, turns: Sequence[_Turn]) -> Iterator[Any]:
    if not session.turns:
        head = {"type": "session", "version": 3, "id": session.id, "cwd": session.cwd}
        yield head | {"timestamp": session.at(0)}
    for number, turn in enumerate(turns, session.turns):
        first, call = 4 * number, f"tc{number}"
        asked = {"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": _COMMAND}}
        said = {"role": "toolResult", "toolCallId": call, "toolName": "bash", "isError": False}
        messages = (
            {"role": "user", "content": turn.prompt},
            {"role": "assistant", "content": [asked]},
            said | {"content": [{"type": "text", "text": turn.output}]},
            {"role": "assistant", "content": [{"type": "text", "text": turn.answer}]},
        )
        for step, message in enumerate(messages, first):
            above = f"{step - 1:08x}" if step else None
            place = {"type": "message", "id": f"{step:08x}", "parentId": above}
            yield place | {"timestamp": session.at(step), "message": message}


_WRITERS: Final = {"claude-code": _claude, "codex": _codex, "gemini-cli": _gemini, "pi": _pi}


def _opencode(session: Session, turns: Sequence[_Turn]) -> Iterator[_Row]:
    changed = 1000 * session.changed
    if not session.turns:
        times = {"time_created": 1000 * session.began, "time_updated": changed}
        yield with_session(session.id, directory=session.cwd, title="a talk", **times)
    for number, turn in enumerate(turns, session.turns):
        time = changed + 1000 * _STEP_SECONDS * number
        asked, answered = (f"msg_{session.id}_{number}{part}" for part in "ab")
        at = time - BEGAN
        yield from with_message(session.id, asked, at, {"role": "user"}, text(turn.prompt))
        said: dict[str, Any] = {
            "role": "assistant",
            "parentID": asked,
            "modelID": "m",
            "providerID": "p",
        }
        said |= {"finish": "stop", "time": {"created": time, "completed": time + 1}}
        call = tool(f"call_{number}", output=turn.output)
        yield from with_message(session.id, answered, at + 1, said, call, text(turn.answer))
        yield "UPDATE session SET time_updated = ? WHERE id = ?", (time + 1, session.id)


def _deleted(session: Session) -> list[_Row]:
    """Return the statements that delete a session of opencode."""
    columns = {"part": "session_id", "message": "session_id", "session": "id"}
    return [(f"DELETE FROM {one} WHERE {key} = ?", (session.id,)) for one, key in columns.items()]
