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
from tests.kit.index import index_all
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


class Work:
    """The work of SQLite: how many statements, and how many steps of its machine, in tens."""

    def __init__(self) -> None:
        self.statements = self.steps = 0

    def note(self, statement: str) -> None:
        # Those below a statement are SQLite's own.
        self.statements += not statement.startswith("--")

    def step(self) -> int:
        self.steps += 1
        return 0


Costs = tuple[int, int, int]
"""Statements of SQLite, steps of its machine in tens, and names that were looked at."""
Ask = Callable[[Wire, Fleet], Awaitable[object]]
ASKED = 5


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Return the work of all databases of the daemon from now on."""
    work, connect = Work(), sqlite3.connect

    def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_trace_callback(work.note)
        connection.set_progress_handler(work.step, 10)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return work


async def later_costs(home: Path, work: Work, files: int, ask: Ask) -> list[Costs]:
    """Return what a question costs that was asked before: while nothing changes, and behind a session that grew.

    All sessions are indexed before. Notices of what was made before may bring a look more to any one question, so
    the least cost of several counts.
    """
    fleet = Fleet(home / f"agents-{files}")
    fleet.fill(files)
    disk = Looks(home / f"home-{files}")
    costs: list[Costs] = []
    watcher = inotify_watcher(PollingWatcher(disk))
    async with disk.house.daemon(watcher) as daemon, daemon.connect() as wire:
        await add_roots(wire, fleet)
        await index_all(daemon)
        await ask(wire, fleet)
        session = next(iter(fleet.sessions.values()))
        for grown in ([], [session]):
            asked: list[Costs] = []
            for _ in range(ASKED):
                for one in grown:
                    fleet.append(one)
                disk.names = work.statements = work.steps = 0
                await ask(wire, fleet)
                asked.append((work.statements, work.steps, disk.names))
            costs.append((*map(min, zip(*asked, strict=True)),))
    return costs


async def require_same_costs(home: Path, work: Work, ask: Ask) -> None:
    """Require that no cost of a question grows by more than half with ten times the files.

    The index of words has more levels then; a question that asks for all sessions has ten steps for each.
    """
    small = await later_costs(home, work, FILES, ask)
    large = await later_costs(home, work, MORE, ask)
    for few, many in zip(small, large, strict=True):
        assert many[0] <= 1.5 * few[0], (small, large)
        assert many[1] - few[1] < (MORE - FILES) // 5, (small, large)
        assert many[2] <= 1.5 * few[2], (small, large)


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
    tmp_path: Path, work: Work
) -> None:
    await require_same_costs(tmp_path.resolve(), work, listing)


@needs_notices
async def test_a_later_search_costs_the_same_at_ten_times_the_files(
    tmp_path: Path, work: Work
) -> None:
    await require_same_costs(tmp_path.resolve(), work, searching)
