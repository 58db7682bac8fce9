"""Lists and searches of a year of sessions of five agents: all that is there, nothing else, at one cost."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sessiond.journal.disk.files import FileStat
from sessiond.service.external.watcher import PollingWatcher
from sessiond.system import SYSTEM
from sessiond.testing.wire import Wire
from tests.kit.fleet import Fleet
from tests.kit.house import House
from tests.kit.inotify import inotify_watcher
from tests.kit.roots import add_root, ids
from tests.service.test_roots import Counting

FILES = 60
MORE = 600


async def add_roots(wire: Wire, fleet: Fleet) -> None:
    """Make the folders of a fleet roots."""
    for kind, root in fleet.roots.items():
        await add_root(wire, root, kind)


async def found_exactly(wire: Wire, fleet: Fleet, word: str, *, parts: bool) -> bool:
    """Search a word; require each message that has it, and no other; return whether there is any."""
    answer = await wire.call("session/search", query=word, subagents=parts)
    assert "unreadable" not in answer
    # A header has the title, which is the first prompt.
    found = Counter(hit["session_id"] for hit in answer["hits"] if hit["entry_id"] is not None)
    assert found == fleet.holders(word, parts=parts), word
    for hit in answer["hits"]:
        assert hit["session_id"] in found, word
        assert fleet.has(hit["snippet"], word), (word, hit["snippet"])
    return bool(found)


async def test_two_hundred_queries_in_ten_scripts_find_each_place_in_a_fleet_and_no_other(
    real_house: House, tmp_path: Path
) -> None:
    fleet = Fleet(tmp_path.resolve() / "agents")
    fleet.fill(FILES)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_roots(wire, fleet)
        assert await ids(wire, subagents=True) == sorted(fleet.sessions)
        found = [await found_exactly(wire, fleet, word, parts=True) for word in fleet.words]
        assert found == [True] * 200
        in_parts = [
            one for one in fleet.words if fleet.holders(one) != fleet.holders(one, parts=False)
        ]
        assert len(in_parts) > 50
        for word in in_parts:
            await found_exactly(wire, fleet, word, parts=False)


class Looks(Counting):
    """A disk that counts the names at which it looks; a folder counts with all its names."""

    names = 0

    def stat(self, path: Path) -> FileStat:
        self.names += 1
        return super().stat(path)

    def stats(self, folder: Path) -> dict[str, FileStat]:
        found = super().stats(folder)
        self.names += 1 + len(found)
        return found

    def lstat(self, path: Path) -> FileStat:
        self.names += 1
        return super().lstat(path)

    def exists(self, path: Path | str) -> bool:
        self.names += 1
        return super().exists(path)

    def listdir(self, folder: Path) -> list[str]:
        self.names += 1
        return super().listdir(folder)


Costs = tuple[int, int]
"""Statements of SQLite, and names that were looked at."""
Ask = Callable[[Wire, Fleet], Awaitable[object]]
ASKED = 5


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets every statement of the daemon from now on, without SQLite's own below it."""
    found: list[str] = []

    def note(statement: str) -> None:
        if not statement.startswith("--"):
            found.append(statement)

    connect = sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(note)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return found


async def later_costs(home: Path, statements: list[str], files: int, ask: Ask) -> list[Costs]:
    """Return what a question costs that was asked before: while nothing changes, and behind a session that grew.

    Notices of what was made before may bring a look more to any one question, so the least cost of several counts.
    """
    fleet = Fleet(home / f"agents-{files}")
    fleet.fill(files)
    disk = Looks(home / f"home-{files}")
    costs: list[Costs] = []
    watcher = inotify_watcher(PollingWatcher(disk))
    async with disk.house.daemon(watcher) as daemon, daemon.connect() as wire:
        await add_roots(wire, fleet)
        await ask(wire, fleet)
        session = next(iter(fleet.sessions.values()))
        for grown in ([], [session]):
            asked: list[Costs] = []
            for _ in range(ASKED):
                for one in grown:
                    fleet.append(one)
                disk.names = 0
                statements.clear()
                await ask(wire, fleet)
                asked.append((len(statements), disk.names))
            costs.append((min(one for one, _ in asked), min(names for _, names in asked)))
    return costs


async def require_same_costs(home: Path, statements: list[str], ask: Ask) -> None:
    """Require that no cost of a question grows by more than half with ten times the files."""
    small = await later_costs(home, statements, FILES, ask)
    large = await later_costs(home, statements, MORE, ask)
    pairs = [(few, many) for one in zip(small, large, strict=True) for few, many in zip(*one, strict=True)]  # fmt: skip
    assert all(many <= 1.5 * few for few, many in pairs), (small, large)


def listing(wire: Wire, _fleet: Fleet) -> Awaitable[object]:
    """List the newest sessions."""
    return wire.call("session/list", limit=20)


def searching(wire: Wire, fleet: Fleet) -> Awaitable[object]:
    """Search a word that one message has."""
    word = next(one for one in fleet.words if sum(fleet.holders(one).values()) == 1)
    return found_exactly(wire, fleet, word, parts=True)


needs_notices = pytest.mark.skipif(not SYSTEM.has_inotify, reason="this system has no inotify")


@needs_notices
async def test_a_later_list_costs_the_same_at_ten_times_the_files(
    tmp_path: Path, statements: list[str]
) -> None:
    await require_same_costs(tmp_path.resolve(), statements, listing)


@needs_notices
async def test_a_later_search_costs_the_same_at_ten_times_the_files(
    tmp_path: Path, statements: list[str]
) -> None:
    await require_same_costs(tmp_path.resolve(), statements, searching)
