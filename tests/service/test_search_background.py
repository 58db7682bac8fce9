"""The search index in the background: made from the start on, in the way of nobody, and asked before its end."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from sessiond.catalog.fulltext import Addition, Indexed, Text
from sessiond.catalog.rows import Known
from sessiond.daemon.retention_timer import keep_index
from sessiond.errors import StorageError
from sessiond.limits import INDEX_BYTES_MAX
from sessiond.service.files.line_texts import LineTexts
from sessiond.testing.daemon import Daemon
from sessiond.testing.wire import Refusal, Wire
from tests.kit.agent_roots import CLAUDE
from tests.kit.agents import claude_line, write_lines
from tests.kit.calls import create, say
from tests.kit.house import House
from tests.kit.index import index_all
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.roots import add_root
from tests.kit.sessions import SESSION

IDS = [CLAUDE.format(number) for number in range(4)]
# In 2026, behind the times in the lines.
SECONDS = 1_795_132_800


class Reading:
    """The reading of sessions for the index: which were read, and a reading that waits at one of them."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.held: str | None = None
        self.met, self.released = threading.Event(), threading.Event()


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reading]:
    set_limits(monkeypatch, GLANCE_SECONDS=0.01, SEARCH_STEP_SESSIONS=1)
    reading, behind = Reading(), LineTexts.behind

    def noted(
        texts: LineTexts, known: Known, indexed: Indexed | None
    ) -> Iterator[tuple[Indexed, list[Text]]]:
        reading.read.append(known.session_id)
        if known.session_id == reading.held:
            reading.met.set()
            assert reading.released.wait(PATIENCE_SECONDS)
        yield from behind(texts, known, indexed)

    monkeypatch.setattr(LineTexts, "behind", noted)
    yield reading
    reading.released.set()


@pytest.fixture
async def daemon(real_house: House, tmp_path: Path, reading: Reading) -> AsyncGenerator[Daemon]:
    """Daemon with a root of four sessions, each written an hour behind the one before."""
    root = tmp_path.resolve() / "claude" / "projects"
    for hour, name in enumerate(IDS):
        path = write_lines(root / f"-p/{name}.jsonl", [claude_line(1, None, f"needle {hour}")])
        written = SECONDS + 3600 * hour
        os.utime(path, (written, written))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        yield daemon


async def search(wire: Wire, **asked: Any) -> tuple[list[str], dict[str, Any] | None]:
    """Return the sessions with a hit, and how far the reading is."""
    found = await wire.call("session/search", query="needle", **asked)
    return sorted(hit["session_id"] for hit in found["hits"]), found.get("looking")


async def at_once(wire: Wire) -> bool:
    """Return whether a search that need not be whole has all sessions, and says so."""
    return await search(wire, whole=False) == (IDS, None)


async def held(daemon: Daemon, reading: Reading, at: str, tasks: Any) -> None:
    """Begin the work in the background, up to a session."""
    reading.held = at
    tasks.start_soon(keep_index, daemon.service)
    await eventually(lambda: reading.met.is_set())


async def test_sessions_are_read_before_the_first_search(daemon: Daemon, reading: Reading) -> None:
    async with anyio.create_task_group() as tasks, daemon.connect() as wire:
        tasks.start_soon(keep_index, daemon.service)
        await eventually(lambda: len(reading.read) == len(IDS))
        assert reading.read == IDS[::-1]
        assert await search(wire) == (IDS, None)
        await eventually(lambda: at_once(wire))
        assert len(reading.read) == len(IDS)
        tasks.cancel_scope.cancel()


async def test_a_search_that_need_not_be_whole_has_what_is_read_and_says_how_far(
    daemon: Daemon, reading: Reading
) -> None:
    async with anyio.create_task_group() as tasks, daemon.connect() as wire:
        await held(daemon, reading, IDS[1], tasks)
        found, looking = await search(wire, whole=False)
        assert found == [IDS[2], IDS[3]]
        assert looking == {"done": 2, "total": 4, "until": "2026-11-20T01:00:00.000Z"}
        index = (await wire.call("server/stats"))["index"]
        assert (index["read"], index["to_read"], index["problem"]) == (2, 4, None)
        reading.released.set()
        await eventually(lambda: at_once(wire))
        assert sorted(reading.read) == IDS

        async def is_over() -> bool:
            return (await wire.call("server/stats"))["index"]["to_read"] is None

        await eventually(is_over)
        tasks.cancel_scope.cancel()


async def test_a_search_that_is_cut_off_leaves_the_rest_to_the_background(
    daemon: Daemon, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, GLANCE_SECONDS=0)
    async with anyio.create_task_group() as tasks, daemon.connect() as wire:
        tasks.start_soon(keep_index, daemon.service)
        await eventually(lambda: len(reading.read) == len(IDS))
        await create(wire, SESSION)
        await say(wire, "a needle", session_id=SESSION)
        assert (await search(wire, whole=False))[1] is not None
        await eventually(lambda: SESSION in reading.read)
        tasks.cancel_scope.cancel()


async def test_a_search_of_one_session_takes_the_turn_from_the_background(
    daemon: Daemon, reading: Reading
) -> None:
    async with anyio.create_task_group() as tasks, daemon.connect() as wire:
        await held(daemon, reading, IDS[3], tasks)
        found = list[list[str]]()

        async def ask() -> None:
            found.append((await search(wire, session_id=IDS[0]))[0])

        async with anyio.create_task_group() as asking:
            asking.start_soon(ask)
            await eventually(lambda: daemon.service.search.turn.statistics().tasks_waiting == 1)
            reading.released.set()
        assert found == [[IDS[0]]]
        assert reading.read[:2] == [IDS[3], IDS[0]]
        await eventually(lambda: len(reading.read) == len(IDS))
        assert sorted(reading.read) == IDS
        tasks.cancel_scope.cancel()


async def test_appends_are_answered_while_sessions_are_read(
    daemon: Daemon, reading: Reading
) -> None:
    async with anyio.create_task_group() as tasks, daemon.connect() as wire:
        await create(wire, SESSION)
        await held(daemon, reading, IDS[0], tasks)
        for number in range(3):
            await say(wire, f"beside {number}", session_id=SESSION)
        assert not reading.released.is_set()
        reading.released.set()
        tasks.cancel_scope.cancel()


async def test_a_session_is_read_on_behind_the_batches_that_are_indexed(
    daemon: Daemon, reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, SEARCH_BATCH_CHARS=10)
    async with daemon.connect() as wire:
        await create(wire, SESSION)
        for number in range(6):
            await say(wire, f"needle number {number}", session_id=SESSION)
        await wire.call("session/list")
        put, marks = daemon.store.texts.put, list[int]()

        def full(added: list[Addition]) -> None:
            if any(one.session_id == SESSION for one in added):
                if len(marks) == 2:
                    raise StorageError("the disk is full", errno="ENOSPC", path="")
                marks.append(added[-1].mark.seq)
            put(added)

        with monkeypatch.context() as patch:
            patch.setattr(daemon.store.texts, "put", full)
            with pytest.raises(StorageError, match="full"):
                await index_all(daemon)
            index = (await wire.call("server/stats"))["index"]
            assert (index["problem"], index["to_read"]) == ("the disk is full", None)
            with pytest.raises(Refusal, match="storage_error"):
                await search(wire, session_id=SESSION)
            await say(wire, "needle behind", session_id=SESSION)
        indexed = await to_thread.run_sync(daemon.store.texts.indexed_of, SESSION)
        assert indexed is not None
        assert indexed.seq == marks[-1] < 6
        assert len((await search(wire, session_id=SESSION))[0]) == 7
        await index_all(daemon)
        assert (await wire.call("server/stats"))["index"]["problem"] is None


async def test_what_has_no_room_is_named(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, REMOVED_ROWS_MAX=2)
    async with daemon.connect() as wire:
        await create(wire, SESSION, persist="immediate")
        hay = " ".join(f"word{number}" for number in range(3_000))
        for day in range(1, 29):
            output = {"role": "tool", "tool_call_id": "c", "content": f"needle{day} {hay}"}
            time = f"2026-02-{day:02}T10:00:00.000Z"
            entry = {"type": "message", "timestamp": time, "message": output}
            await wire.call("append", session_id=SESSION, entries=[entry])
        asked = {"query": "needle", "session_id": SESSION}
        found = await wire.call("session/search", **asked)
        assert (len(found["hits"]), "unsearched" in found) == (28, False)
        index = (await wire.call("server/stats"))["index"]
        assert (index["bytes_max"], index["unsearched"]) == (INDEX_BYTES_MAX, [])
        daemon.service.search.take_bound(index["bytes"] // 2)
        await index_all(daemon)
        index = (await wire.call("server/stats"))["index"]
        assert index["bytes"] <= index["bytes_max"]
        found = await wire.call("session/search", **asked)
        first = 29 - len(found["hits"])
        before = f"2026-02-{first - 1:02}T10:00:00.001Z"
        assert 1 < first < 29
        assert found["unsearched"] == [{"texts": "outputs", "before": before}]
        assert index["unsearched"] == found["unsearched"]
        daemon.service.search.take_bound(INDEX_BYTES_MAX)
        found = await wire.call("session/search", **asked)
        assert (len(found["hits"]), "unsearched" in found) == (28, False)


async def test_a_disk_that_is_almost_full_gets_no_index_and_takes_appends(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon.connect() as wire:
        await create(wire, SESSION)
        with monkeypatch.context() as patch:
            set_limits(patch, INDEX_FREE_BYTES=1 << 60)
            with pytest.raises(StorageError, match="almost full"):
                await index_all(daemon)
            problem = (await wire.call("server/stats"))["index"]["problem"]
            assert "almost full" in problem
            await say(wire, "needle", session_id=SESSION)
        await index_all(daemon)
        assert (await search(wire, session_id=SESSION))[0] == [SESSION]


async def test_lines_of_many_bytes_are_read_in_steps_too(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon.connect() as wire:
        await create(wire, SESSION, persist="immediate")
        for number in range(4):
            await say(wire, f"needle {number}", session_id=SESSION)
        await wire.call("session/list")
    set_limits(monkeypatch, SEARCH_BATCH_BYTES=1)

    def batches(session_id: str, indexed: Indexed | None = None) -> list[Indexed]:
        known = daemon.store.catalog.known(session_id)
        assert known is not None
        return [mark for mark, _ in daemon.store.texts_behind(known, indexed)]

    marks = await to_thread.run_sync(batches, SESSION)
    assert [mark.seq for mark in marks] == [0, 1, 2, 3, 4]
    assert await to_thread.run_sync(batches, SESSION, marks[2]) == marks[3:]
    of_agent = await to_thread.run_sync(batches, IDS[0])
    assert [(mark.seq, mark.end > 0) for mark in of_agent] == [(1, False), (1, True)]
    assert len(await to_thread.run_sync(batches, IDS[0], of_agent[0])) == 1


async def test_a_search_leaves_the_background_what_it_does_not_cover(
    daemon: Daemon, reading: Reading
) -> None:
    async with daemon.connect() as wire:
        assert await search(wire, session_id=IDS[1]) == ([IDS[1]], None)
        assert reading.read == [IDS[1]]
        assert await search(wire, session_id=IDS[1]) == ([IDS[1]], None)
        left = (await search(wire, whole=False))[1]
        while left is not None and left["total"] is None:
            # The moment that a search waits was over before the sessions were counted.
            left = (await search(wire, whole=False))[1]
        assert left == {"done": 1, "total": 4, "until": "2026-11-20T03:00:00.000Z"}
        await index_all(daemon)
        assert sorted(reading.read) == IDS
        assert await search(wire, whole=False) == (IDS, None)


async def test_a_search_that_is_cancelled_gives_back_what_it_has_not_read(
    daemon: Daemon, reading: Reading
) -> None:
    reading.held = IDS[2]
    async with daemon.connect() as wire, daemon.connect() as other:
        number = await wire.request("session/search", query="needle")
        await eventually(lambda: reading.met.is_set())
        await wire.send({"method": "$/cancelRequest", "params": {"id": number}})
        reading.released.set()
        await eventually(lambda: not daemon.service.search.turn.locked())
        assert reading.read == [IDS[3], IDS[2]]
        assert (await search(other, whole=False))[1] is not None
        assert await search(other) == (IDS, None)
        assert sorted(reading.read) == IDS
