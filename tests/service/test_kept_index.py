"""Kept indexes: a large session opens without a read of its file, and never as another session."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from anyio import to_thread

from sessiond.journal.disk.settled import is_settled
from sessiond.service.files import kept_index
from sessiond.service.files.startup_cleanup import remove_stray_indexes
from sessiond.testing.daemon import Wire
from tests.kit.calls import append, call, let_go, session_info
from tests.kit.house import House, count_reads
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION, native_file, stored_entry, stored_message

pytestmark = pytest.mark.limits(KEPT_INDEX_ENTRIES=100)

LINES = 300
WORD = "walrus"
TALK = [
    stored_message(
        f"n{n}", f"n{n - 1}" if n > 1 else None, "assistant" if n % 2 else "user", WORD * 300
    )
    for n in range(1, LINES)
]
for said in TALK[::2]:
    said["message"]["usage"] = {"input": 2, "output": 1, "totalTokens": 3}
# A branch, a label, facts, and a compaction.
CONTENT = [
    *TALK,
    stored_entry("label", "l1", f"n{LINES - 1}", target_id="n5", label="here"),
    stored_entry("session_info", "i1", None, name=WORD, tags=["a", "b"], metadata={"k": [1]}),
    stored_message("side", "n7", head="reviewer"),
    stored_entry("compaction", "c1", f"n{LINES - 1}", summary="s", first_kept_entry_id="n290"),
]


async def shown(wire: Wire) -> dict[str, Any]:
    """Return everything that clients see of the session."""
    return {
        "info": await session_info(wire),
        "entries": await call(wire, "session/entries", "entries"),
        "heads": await call(wire, "session/heads"),
        "labels": await call(wire, "session/labels"),
        "context": await call(wire, "build_context"),
    }


async def closed_once(house: House) -> dict[str, Any]:
    """Open and close the session in a daemon of its own; return what clients saw."""
    async with house.daemon() as daemon, daemon.connect() as wire:
        seen = await shown(wire)
        await let_go(daemon, wire)
    assert house.disk.exists(house.layout.index_path(SESSION))
    return seen


async def test_a_large_session_opens_without_a_read_of_its_file(house: House) -> None:
    path = house.put(CONTENT)
    seen = await closed_once(house)
    size = len(house.disk.content(path))
    async with house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        read = count_reads(house, path)
        info = (await wire.call("session/open", session_id=SESSION))["session"]
        assert info == seen["info"]
        assert sum(read) < size / 4
        assert await shown(wire) == seen
        assert (await append(wire, "next"))["seq"] == seen["info"]["seq"] + 1
        seen = await shown(wire)
        await let_go(daemon, wire)
        read.clear()
        assert await session_info(wire) == seen["info"]
        assert sum(read) < size / 4
        assert await shown(wire) == seen


async def test_a_retry_is_recognised_behind_a_kept_index(house: House) -> None:
    house.put(CONTENT)
    async with house.daemon() as daemon, daemon.connect() as wire:
        sent = {"session_id": SESSION, "message": {"role": "user", "content": "x"}}
        first = await wire.call("append", **sent, idempotency_key="once")
        await let_go(daemon, wire)
        again = await wire.call("append", **sent, idempotency_key="once")
        assert (again["duplicate"], again["seq"]) == (True, first["seq"])


def change_a_byte(house: House) -> None:
    (path,) = house.session_files()
    fd = house.disk.open_update(path)
    at = house.disk.content(path).index(WORD.encode())
    house.disk.pwrite(fd, b"osprey", at)
    house.disk.close(fd)


def change_a_byte_and_set_the_time_back(house: House) -> None:
    (path,) = house.session_files()
    before = house.disk.stat(path).st_mtime_ns
    change_a_byte(house)
    house.disk.set_time(path, before / 1e9)


def append_a_line(house: House) -> None:
    (path,) = house.session_files()
    fd = house.disk.open_append(path)
    house.disk.write(fd, house.disk.content(path).split(b"\n")[5].replace(b'"n5"', b'"f1"') + b"\n")
    house.disk.close(fd)


def put_a_copy_in_its_place(house: House) -> None:
    (path,) = house.session_files()
    house.disk.put(path, house.disk.content(path).replace(WORD.encode(), b"osprey"))


CHANGES = {
    "one byte": change_a_byte,
    "one byte, and the time set back": change_a_byte_and_set_the_time_back,
    "one line more": append_a_line,
    "another file": put_a_copy_in_its_place,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
async def test_a_file_that_changed_is_read(house: House, change: Callable[[House], None]) -> None:
    path = house.put(CONTENT)
    await closed_once(house)
    house.disk.seconds += 60.0
    change(house)
    size = len(house.disk.content(path))
    async with house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        read = count_reads(house, path)
        await wire.call("session/open", session_id=SESSION)
        assert sum(read) >= size
        seen = await shown(wire)
        await let_go(daemon, wire)
    for name in list(house.disk.paths):
        if name.parent == house.layout.indexes:
            house.disk.unlink(name)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await shown(wire) == seen


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda index: index[:-1],
    "another format": lambda index: b"S" + index[1:],
    "one bit": lambda index: index[:200] + bytes([index[200] ^ 1]) + index[201:],
    "zeros at the end": lambda index: index[:-50] + bytes(50),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
async def test_a_damaged_index_is_thrown_away(
    house: House, damage: Callable[[bytes], bytes]
) -> None:
    house.put(CONTENT)
    seen = await closed_once(house)
    index = house.layout.index_path(SESSION)
    house.disk.put(index, damage(house.disk.content(index)))
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await shown(wire) == seen
        assert not house.disk.exists(index)
        await let_go(daemon, wire)
        assert house.disk.exists(index)


async def test_an_index_of_another_version_is_thrown_away(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = house.put(CONTENT)
    seen = await closed_once(house)
    monkeypatch.setattr(kept_index, "_MADE_BY", "another")
    async with house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        read = count_reads(house, path)
        assert (await wire.call("session/open", session_id=SESSION))["session"] == seen["info"]
        assert sum(read) >= len(house.disk.content(path))


async def test_after_an_abnormal_end_of_its_owner_a_file_is_read(house: House) -> None:
    path = house.put(CONTENT)
    seen = await closed_once(house)
    index = house.disk.content(house.layout.index_path(SESSION))
    house.put(house.disk.content(path), killed=True)
    house.disk.put(house.layout.index_path(SESSION), index)
    async with house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        read = count_reads(house, path)
        info = (await wire.call("session/open", session_id=SESSION))["session"]
        assert sum(read) >= len(house.disk.content(path))
        assert info["message_total"] == seen["info"]["message_total"]


@pytest.mark.parametrize("op", ["create", "write", "fsync", "rename"])
async def test_an_index_that_cannot_be_kept_costs_nothing_else(house: House, op: str) -> None:
    house.put(CONTENT)
    async with house.daemon() as daemon, daemon.connect() as wire:
        seen = await shown(wire)
        house.disk.faults.fail(op, errno=errno.ENOSPC)
        await let_go(daemon, wire)
        assert await shown(wire) == seen
    assert [path for path in house.disk.paths if path.parent == house.layout.indexes] == [
        house.layout.index_path(SESSION)
    ]


@pytest.mark.parametrize("part", ["columns_of", "restore"])
async def test_without_memory_for_an_index_the_session_is_closed_and_opened(
    house: House, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def fail(*_arguments: Any) -> None:
        raise MemoryError

    house.put(CONTENT)
    seen = await closed_once(house)
    async with house.daemon() as daemon, daemon.connect() as wire:
        monkeypatch.setattr(kept_index, part, fail)
        assert await shown(wire) == seen
        await append(wire, "next")
        opened = daemon.service.registry.by_id[SESSION].opened
        await to_thread.run_sync(daemon.store.settle, opened)
        await let_go(daemon, wire)
        assert (await session_info(wire))["seq"] == seen["info"]["seq"] + 1


@pytest.mark.parametrize("end", ["delete", "purge"])
async def test_a_session_that_is_gone_leaves_no_index(house: House, end: str) -> None:
    house.put(CONTENT)
    await closed_once(house)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "session/delete")
        assert not house.disk.exists(house.layout.index_path(SESSION))
        if end == "purge":
            await call(wire, "session/purge")
    left = [path for path in house.disk.paths if WORD.encode() in house.disk.content(path)]
    assert [path.parent for path in left] == ([house.layout.trash] if end == "delete" else [])


async def test_the_last_entries_of_a_large_file_of_few_lines_are_read_from_its_end(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, KEPT_INDEX_ENTRIES=LINES * 2, KEPT_INDEX_FILE_BYTES=100_000)
    path = house.put(CONTENT)
    seen = await closed_once(house)
    async with house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        read = count_reads(house, path)
        last = await wire.call("session/entries", session_id=SESSION, before_seq=2**53 - 1, limit=3)
        assert last["entries"] == seen["entries"][:-4:-1]
        assert last["seq"] == seen["info"]["seq"]
        assert sum(read) < len(house.disk.content(path)) / 4


async def test_a_small_session_has_no_index(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, KEPT_INDEX_ENTRIES=LINES * 2)
    house.put(CONTENT)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await session_info(wire)
        await let_go(daemon, wire)
    assert not [path for path in house.disk.paths if path.parent == house.layout.indexes]


async def test_a_forgotten_session_leaves_no_index(house: House) -> None:
    path = house.home / "elsewhere.jsonl"
    house.disk.put(path, native_file(CONTENT))
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/open", path=str(path))
        await let_go(daemon, wire)
        assert house.disk.exists(house.layout.index_path(SESSION))
        await call(wire, "session/forget")
    assert not house.disk.exists(house.layout.index_path(SESSION))


@pytest.mark.parametrize("gone", [True, False])
async def test_a_start_removes_the_index_of_a_file_that_is_gone(
    house: House, *, gone: bool
) -> None:
    path = house.put(CONTENT)
    await closed_once(house)
    if gone:
        house.disk.unlink(path)
    async with house.daemon() as daemon:
        await to_thread.run_sync(remove_stray_indexes, daemon.store)
        assert house.disk.exists(house.layout.index_path(SESSION)) != gone


async def test_a_start_lists_the_folders_once_however_many_indexes_there_are(house: House) -> None:
    house.put(CONTENT)
    await closed_once(house)
    index = house.disk.content(house.layout.index_path(SESSION))
    counts: list[int] = []
    for more in (0, 20):
        for number in range(more):
            house.put([], f"session-{number:03d}")
            house.disk.put(house.layout.index_path(f"session-{number:03d}"), index)
        async with house.daemon() as daemon:
            before = house.disk.counts["listdir"]
            await to_thread.run_sync(remove_stray_indexes, daemon.store)
            counts.append(house.disk.counts["listdir"] - before)
    assert counts[0] == counts[1] > 0


async def test_an_index_is_kept_once_a_change_would_show_in_the_times(house: House) -> None:
    path = house.put(CONTENT)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await append(wire, "last")
        before = house.disk.seconds
        assert not is_settled(house.disk.stat(path).st_mtime_ns, before)
        await let_go(daemon, wire)
        assert house.disk.exists(house.layout.index_path(SESSION))
        assert house.disk.seconds > before


async def test_an_unchanged_session_keeps_its_index_as_it_is(house: House) -> None:
    house.put(CONTENT)
    await closed_once(house)
    index = house.layout.index_path(SESSION)
    inode = house.disk.stat(index).st_ino
    await closed_once(house)
    assert house.disk.stat(index).st_ino == inode
