"""Stores of opencode, as tests make them: databases, and lines that stand for their rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sessiond.journal.disk.files import Files
from sessiond.service.sources.agents.opencode.store import AgentStore, found_store
from tests.kit.agents import SAMPLES

OPENCODE = SAMPLES / "opencode"
TREE = OPENCODE / "json-tree"
FOOTER = "ses_5c0000000ffeAAAAAAAAAAAAAA"
RENAME = "ses_5c0000001ffeBBBBBBBBBBBBBB"
BEGAN = 1_793_880_000_000


def database(path: Path, name: str = "v1", sql: Sequence[tuple[str, Sequence[Any]]] = ()) -> Path:
    """Make the database of a sample, changed by statements with their values."""
    path.write_bytes(_sample(name))
    if sql:
        with closing(sqlite3.connect(path)) as connection, connection:
            for statement, values in sql:
                connection.execute(statement, values)
    return path


@cache
def _sample(name: str) -> bytes:
    """Return the database of a sample, which is made once for all tests of a process."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sample.db"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.executescript((OPENCODE / f"{name}-sqlite.sql").read_text("utf-8"))
        return path.read_bytes()


def store_at(path: Path) -> AgentStore:
    """Return the store at a path."""
    found = found_store(path, Files())
    assert found is not None
    return found


def with_session(session_id: str, **columns: Any) -> tuple[str, Sequence[Any]]:
    """Return the statement that adds a session of version 1."""
    row = {
        "id": session_id,
        "project_id": "p",
        "slug": "s",
        "directory": "/p",
        "title": session_id,
        "version": "1.18.33",
        "time_created": BEGAN,
        "time_updated": BEGAN,
    } | columns
    return f"INSERT INTO session({', '.join(row)}) VALUES({', '.join('?' * len(row))})", [
        *row.values()
    ]


def with_message(
    session_id: str, message_id: str, at: int, data: Any, *parts: Any
) -> list[tuple[str, Sequence[Any]]]:
    """Return the statements that add a message of version 1 with its parts."""
    time = BEGAN + at
    added: list[tuple[str, Sequence[Any]]] = [
        (
            "INSERT INTO message VALUES(?, ?, ?, ?, ?)",
            (message_id, session_id, time, time, _text(data)),
        )
    ]
    for number, part in enumerate(parts):
        values = (f"prt_{message_id}_{number}", message_id, session_id, time, time, _text(part))
        added.append(("INSERT INTO part VALUES(?, ?, ?, ?, ?, ?)", values))
    return added


def sessions_as(select: str) -> list[tuple[str, Sequence[Any]]]:
    """Return the statements that put a view in the place of the table of sessions."""
    columns = "id, title, directory, time_created, time_updated"
    return [
        ("ALTER TABLE session RENAME TO older", ()),
        (f"CREATE VIEW session({columns}) AS {select}", ()),
    ]


COUNTING = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
ENDLESS = sessions_as(f"{COUNTING} SELECT 'ses_' || i, 't', '/p', 1, 1 FROM n")
"""Statements after which a database has sessions without an end."""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def session(**more: Any) -> Any:
    """Return the line of a session."""
    line = {"type": "session", "id": "ses_1", "directory": "/p", "title": "t"}
    return line | {"time_created": BEGAN} | more


def message(message_id: str, data: Any, *parts: Any, kind: str = "message") -> Any:
    """Return the line of a message of version 1."""
    named = [{"id": f"prt_{message_id}_{number}"} | part for number, part in enumerate(parts)]
    return {
        "type": kind,
        "id": message_id,
        "time_created": BEGAN,
        "data": data,
        "parts": named,
    }


def text(said: str, **more: Any) -> Any:
    """Return a part that is a text."""
    return {"type": "text", "text": said} | more


def user(message_id: str, *parts: Any) -> Any:
    """Return the line of a user's message."""
    return message(message_id, {"role": "user"}, *parts)


def assistant(message_id: str, *parts: Any, kind: str = "message", **more: Any) -> Any:
    """Return the line of an answer."""
    data = {"role": "assistant", "modelID": "m", "providerID": "p", "finish": "stop"} | more
    return message(message_id, data, *parts, kind=kind)


def tokens(sent: int, got: int, reasoning: int = 0) -> Any:
    """Return the tokens of an answer."""
    cache = {"read": 0, "write": 0}
    return {"input": sent, "output": got, "reasoning": reasoning, "cache": cache}


def tool(call_id: str, status: str = "completed", output: str = "ok", **state: Any) -> Any:
    """Return a part that is a call with its result."""
    said = {"output": output} if status == "completed" else {}
    found = {"status": status, "input": {"a": 1}} | said | state
    return {"type": "tool", "callID": call_id, "tool": "ls", "state": found}


def row(kind: str, seq: int, **data: Any) -> Any:
    """Return the line of a row of version 2."""
    return {
        "type": "row",
        "kind": kind,
        "id": f"msg_{seq}",
        "seq": seq,
        "time_created": BEGAN,
        "data": data,
    }
