"""Rows of the catalog and the search index that make no sense: no call fails for good."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from anyio import to_thread

from sessiond.testing.daemon import Wire, running_daemon
from tests.kit.calls import create, say

SESSIONS = ["session-a", "session-b"]
CALLS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("session/list", {}),
    ("session/list", {"sort": "created_at", "limit": 1}),
    ("catalog/forest", {}),
    ("session/search", {"query": "lagoon"}),
    ("session/resolve", {"ref": "session-a"}),
    ("session/get", {"session_id": "session-a"}),
    ("catalog/roots", {"action": "list"}),
)


def spoilt(path: Path, tables: Sequence[str], value: str) -> Iterator[str]:
    """Give each column a value, one after the other, and yield its name."""
    with closing(sqlite3.connect(path)) as found:
        ask = "SELECT name FROM pragma_table_info(?)"
        columns = [
            (table, name) for table in tables for (name,) in found.execute(ask, (table,)).fetchall()
        ]
    for table, column in columns:
        with (
            closing(sqlite3.connect(path, isolation_level=None)) as other,
            # The number of a row is an integer, whatever is written.
            suppress(sqlite3.IntegrityError),
        ):
            other.execute(f"UPDATE OR IGNORE {table} SET {column} = {value}")
        yield f"{table}.{column}"


async def require_all(wire: Wire) -> None:
    """Read, change and list the sessions."""
    for method, params in CALLS:
        await wire.call(method, **params)
    await say(wire, "more", session_id="session-b")
    listed = (await wire.call("session/list"))["sessions"]
    assert sorted(one["id"] for one in listed) == SESSIONS


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("value", ["x'ff'", "'a word'", "-7"])
@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("catalog.sqlite", ("sessions", "tags", "meta", "roots")),
        ("search.sqlite", ("sessions", "entries", "words_config", "words_docsize")),
    ],
)
async def test_a_column_with_values_that_make_no_sense_fails_no_call(
    home: Path, name: str, tables: Sequence[str], value: str
) -> None:
    path = home / "profiles" / "default" / name
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        for session_id in SESSIONS:
            await create(wire, session_id, persist="immediate", tags=["tag"])
            await say(wire, "lagoon", session_id=session_id)
        assert len((await wire.call("session/search", query="lagoon"))["hits"]) == len(SESSIONS)
    columns = spoilt(path, tables, value)
    seen: list[str] = []
    while (column := await to_thread.run_sync(next, columns, None)) is not None:
        seen.append(column)
        async with running_daemon(home) as daemon, daemon.connect() as wire:
            await require_all(wire)
    assert len(seen) > len(tables)
