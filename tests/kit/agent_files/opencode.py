"""Sessions of opencode, made from a seed: statements for a database, as the program runs them.

opencode changes its rows in place. So a script yields moves, and a move is a list of transactions: a
message first, its parts behind it, each part over and over while it grows. A reader can look between
any two of them. A script may have several sessions: subagents and forks (`opencode_moves` holds the
moves of version 1, `opencode_rows` those of version 2).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.kit.agent_files.dice import START_MS, Dice, Sizes, plan, spelled, stamp
from tests.kit.agent_files.said import Json

Statement = tuple[str, tuple[Any, ...]]
Transaction = tuple[Statement, ...]

MODELS: Final = (("anthropic", "claude-sonnet-5"), ("openai", "gpt-6"), ("google", "gemini-3-pro"))
TOOLS: Final = ("bash", "read", "edit", "grep")
# The 48 bits of the time in an id began anew at this time.
WRAP_MS: Final = 1_786_706_395_136

_LETTERS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SESSION: Final = """
    {}(id TEXT PRIMARY KEY, project_id TEXT NOT NULL, parent_id TEXT, fork_session_id TEXT,
    fork_message_id TEXT, slug TEXT NOT NULL, directory TEXT NOT NULL, path TEXT, title TEXT NOT NULL,
    version TEXT NOT NULL, share_url TEXT, revert TEXT, agent TEXT, model TEXT,
    cost REAL NOT NULL DEFAULT 0, tokens_input INTEGER NOT NULL DEFAULT 0,
    tokens_output INTEGER NOT NULL DEFAULT 0, tokens_reasoning INTEGER NOT NULL DEFAULT 0,
    tokens_cache_read INTEGER NOT NULL DEFAULT 0, tokens_cache_write INTEGER NOT NULL DEFAULT 0,
    {}, time_compacting INTEGER, time_archived INTEGER)"""
_TIMES: Final = "time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL"
_OLDER: Final = (
    f"project(id TEXT PRIMARY KEY, worktree TEXT NOT NULL, vcs TEXT, name TEXT, {_TIMES})",
    _SESSION.format("session", _TIMES),
    f"message(id TEXT PRIMARY KEY, session_id TEXT NOT NULL, {_TIMES}, data TEXT NOT NULL)",
    f"""part(id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL, {_TIMES},
    data TEXT NOT NULL)""",
    "todo(session_id TEXT NOT NULL, content TEXT NOT NULL, position INTEGER NOT NULL)",
)
# Late releases of version 1 have a table of version 2 that they do not use.
_UNUSED: Final = "session_message(id TEXT PRIMARY KEY, session_id TEXT, type TEXT, data TEXT)"
_NEWER: Final = (
    _SESSION.format("session_v2", _TIMES),
    f"""session_message(id TEXT PRIMARY KEY, session_id TEXT NOT NULL, type TEXT NOT NULL,
    seq INTEGER NOT NULL, {_TIMES}, data TEXT NOT NULL)""",
)


@dataclass
class Part:
    """A part of a message of version 1, as its row is now."""

    id: str
    data: Json


@dataclass
class Message:
    """A message as its row is now: a message of version 1 with parts, or a row of version 2."""

    talk: Talk
    id: str
    time_ms: int
    data: Json
    parts: list[Part] = field(default_factory=list[Part])
    kind: str = ""

    @property
    def is_user(self) -> bool:
        """Return whether the user said it."""
        return (self.kind or self.data.get("role")) == "user"

    def ordered(self) -> list[Part]:
        """Return the parts as opencode orders them."""
        return sorted(self.parts, key=lambda part: part.id)


@dataclass
class Talk:
    """A session: its row, and its messages in their order."""

    id: str
    table: str
    columns: dict[str, Any]
    messages: list[Message] = field(default_factory=list[Message])
    seq: int = 0

    @property
    def revert(self) -> Json | None:
        """Return the revert, if there is one."""
        found: Json | None = self.columns.get("revert")
        return found

    @property
    def is_newer(self) -> bool:
        """Return whether a row is a message."""
        return self.table != "message"


class OpencodeScript:
    """A session of opencode in the making, with its subagents and forks; take its steps once."""

    def __init__(
        self,
        seed: int | str,
        sizes: Sizes,
        *,
        moves: Mapping[str, Callable[[OpencodeScript], None]],
        is_newer: bool = False,
        start_ms: int = START_MS,
    ) -> None:
        self.dice = Dice(f"opencode {seed}", start_ms)
        self.sizes = sizes
        self.is_newer = is_newer
        self.started_ms = start_ms
        self.features: Counter[str] = Counter()
        self.talks: list[Talk] = []
        self.model = MODELS[0]
        self._moves = moves
        self._out: list[Transaction] = []
        self._ids = 0
        # Releases differ in the table that has the sessions of version 2.
        self._sessions = "session_v2" if is_newer and self.dice.chance(0.5) else "session"

    @property
    def main(self) -> Talk:
        """Return the session that all moves are about."""
        return self.talks[0]

    def steps(self) -> Iterator[tuple[str, list[Transaction]]]:
        """Yield each move and its transactions."""
        self.open_talk()
        for name in ("head", *plan(self.dice, tuple(self._moves), self.sizes.turns, "plain")):
            if name != "head":
                self._moves[name](self)
            done, self._out = self._out, []
            yield name, done

    def count(self, feature: str) -> None:
        """Count a feature that the database now has."""
        self.features[feature] += 1

    def words(self) -> str:
        """Return words of a message."""
        return self.dice.text(self.sizes.text_bytes)

    # Names and time.

    def new_id(self, kind: str) -> str:
        """Return an id as opencode makes them: 48 bits of time and a count, then chance."""
        self._ids += 1
        value = (self.dice.now_ms * 0x1000 + self._ids % 0x1000) & ((1 << 48) - 1)
        if kind == "ses":
            # Sessions are named so that the newest comes first.
            value ^= (1 << 48) - 1
        rest = "".join(self.dice.pick(_LETTERS) for _ in range(14))
        return f"{kind}_{value:012x}{rest}"

    def soon(self, most_ms: int = 40) -> int:
        """Let a little time pass, perhaps none; return the new time."""
        self.dice.now_ms += self.dice.number(0, most_ms)
        return self.dice.now_ms

    def later(self) -> int:
        """Let time pass; return the new time."""
        self.dice.tick()
        return self.dice.now_ms

    # Rows.

    def do(self, *statements: Statement) -> None:
        """Run statements as one transaction."""
        self._out.append(statements)

    def open_talk(self, **columns: Any) -> Talk:
        """Add a session."""
        now = self.later()
        row: dict[str, Any] = {
            "id": self.new_id("ses"),
            "project_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
            "slug": self.dice.pick(("calm-otter", "warm-finch")),
            "directory": "/home/ann/site",
            "title": f"New session - {stamp(now)}",
            "version": "2.0.0" if self.is_newer else "1.18.33",
            "time_created": now,
            "time_updated": now,
            **columns,
        }
        table = "session_message" if self.is_newer else "message"
        talk = Talk(row["id"], table, row)
        self.talks.append(talk)
        self.do(_insert(self._sessions, row))
        if self._sessions == "session_v2" and self.dice.chance(0.5):
            self._leave_stale(talk)
        return talk

    def _leave_stale(self, talk: Talk) -> None:
        """Leave rows of version 1, as an update of the program does."""
        old = talk.columns["time_created"] - 10**6
        row = talk.columns | {"title": "stale", "time_created": old, "time_updated": old}
        message = {
            "id": self.new_id("msg"),
            "session_id": talk.id,
            "time_created": old,
            "time_updated": old,
            "data": _text({"role": "user", "time": {"created": old}}),
        }
        part = message | {
            "id": self.new_id("prt"),
            "message_id": message["id"],
            "data": _text({"type": "text", "text": "stale"}),
        }
        self.do(_insert("session", row), _insert("message", message), _insert("part", part))
        self.count("stale_rows")

    def change_talk(self, talk: Talk, **columns: Any) -> None:
        """Change the row of a session; an object becomes its JSON text."""
        talk.columns |= columns | {"time_updated": self.soon()}
        told = {name: talk.columns[name] for name in (*columns, "time_updated")}
        told = {
            name: _text(value) if isinstance(value, dict) else value for name, value in told.items()
        }
        self.do(_update(self._sessions, talk.id, told))

    def add(self, talk: Talk, data: Json, kind: str = "", *, at: int | None = None) -> Message:
        """Add a message behind all others, with the time of now unless another one is given."""
        now = self.later()
        message = Message(talk, self.new_id("msg"), now if at is None else at, data, kind=kind)
        talk.messages.append(message)
        row: dict[str, Any] = {
            "id": message.id,
            "session_id": talk.id,
            "time_created": message.time_ms,
            "time_updated": now,
            "data": _text(data),
        }
        if talk.is_newer:
            talk.seq += self.dice.pick((1, 1, 1, 3))
            row |= {"type": kind, "seq": talk.seq}
        self.do(_insert(talk.table, row))
        return message

    def change(self, message: Message, **data: Any) -> None:
        """Change members of a message in its place."""
        message.data = message.data | data
        told = {"data": _text(message.data), "time_updated": self.soon()}
        self.do(_update(message.talk.table, message.id, told))

    def add_part(self, message: Message, data: Json) -> Part:
        """Add a part to a message."""
        now = self.soon()
        part = Part(self.new_id("prt"), data)
        message.parts.append(part)
        row = {
            "id": part.id,
            "message_id": message.id,
            "session_id": message.talk.id,
            "time_created": now,
            "time_updated": now,
            "data": _text(data),
        }
        self.do(_insert("part", row))
        return part

    def change_part(self, part: Part, data: Json) -> None:
        """Change a part in its place."""
        part.data = data
        self.do(_update("part", part.id, {"data": _text(data), "time_updated": self.soon()}))

    def remove(self, message: Message) -> None:
        """Remove a message with its parts."""
        message.talk.messages.remove(message)
        self.do(
            *(_delete("part", part.id) for part in message.parts),
            _delete(message.talk.table, message.id),
        )

    def remove_part(self, message: Message, part: Part) -> None:
        """Remove a part of a message."""
        message.parts.remove(part)
        self.do(_delete("part", part.id))

    # What both versions do alike.

    def clean_up(self, talk: Talk) -> None:
        """Remove what was reverted, as opencode does before the next prompt."""
        if talk.revert is None:
            return
        message_id, part_id = talk.revert["messageID"], talk.revert.get("partID")
        place = next(at for at, one in enumerate(talk.messages) if one.id == message_id)
        for message in talk.messages[place + (part_id is not None) :]:
            self.remove(message)
        if part_id is not None:
            message = talk.messages[place]
            parts = message.ordered()
            at = next(at for at, part in enumerate(parts) if part.id == part_id)
            for part in parts[at:]:
                self.remove_part(message, part)
        self.change_talk(talk, revert=None)
        self.count("reverted_messages_removed")

    def tokens(self, message: Message) -> Json:
        """Return the tokens of a request, which the row of the session counts, too."""
        dice = self.dice
        found: Json = {
            "input": dice.number(1, 3000),
            "output": dice.number(1, 900),
            "reasoning": dice.pick((0, 0, dice.number(1, 400))),
            "cache": {"read": dice.pick((0, dice.number(1, 9000))), "write": dice.number(0, 50)},
        }
        if dice.chance(0.3):
            found["total"] = sum(found[name] for name in ("input", "output", "reasoning"))
            found["total"] += sum(found["cache"].values())
        columns = message.talk.columns
        spent = columns.get("tokens_input", 0) + found["input"]
        self.change_talk(message.talk, tokens_input=spent, cost=columns.get("cost", 0) + 0.25)
        return found


# -- databases ------------------------------------------------------------------------------------


def make_database(path: Path, *, is_newer: bool = False) -> Path:
    """Make an empty database of one version; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = (*_OLDER, *(_NEWER if is_newer else [_UNUSED]))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for table in tables:
            connection.execute(f"CREATE TABLE {table}")
    return path


def connected(path: Path) -> sqlite3.Connection:
    """Return a connection as opencode has one; nothing waits for the disk."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def play(connection: sqlite3.Connection, transactions: Iterable[Transaction]) -> None:
    """Run transactions one after the other."""
    for statements in transactions:
        connection.execute("BEGIN")
        for sql, values in statements:
            connection.execute(sql, values)
        connection.execute("COMMIT")


def bytes_in(transactions: Iterable[Transaction]) -> int:
    """Return about how many bytes a database grows by: what rows first have, and what replaces that."""
    longest: dict[Any, int] = {}
    for statements in transactions:
        for _, values in statements:
            # An update names its row last, an insertion first.
            key = values[0] if len(values) > 3 else values[-1]
            size = sum(len(one) for one in values if isinstance(one, str))
            longest[key] = max(longest.get(key, 0), size)
    return sum(longest.values())


def _insert(table: str, row: Mapping[str, Any]) -> Statement:
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    return f"INSERT INTO {table}({names}) VALUES({marks})", tuple(row.values())


def _update(table: str, row_id: str, row: Mapping[str, Any]) -> Statement:
    changes = ", ".join(f"{name} = ?" for name in row)
    return f"UPDATE {table} SET {changes} WHERE id = ?", (*row.values(), row_id)


def _delete(table: str, row_id: str) -> Statement:
    return f"DELETE FROM {table} WHERE id = ?", (row_id,)


def _text(data: Json) -> str:
    return spelled(data).decode()
