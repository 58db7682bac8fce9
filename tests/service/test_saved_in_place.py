"""Saves in place: an editor rewrites the file of a closed session and keeps its last line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from msgspec import structs

from sessiond.limits import INLINE_READ_BYTES
from sessiond.testing.wire import Wire
from tests.kit.calls import call, create, let_go, say, session_info, watch
from tests.kit.house import House, count_reads
from tests.kit.sessions import SESSION, stored_message
from tests.service.damage import GOOD, HEADER, ONE, TWO, line

OLD, NEW = "walrus", "osprey"
HITS = "hits[].session_id"
BEFORE = GOOD.replace(b"1.50", OLD.encode(), 1)
CHANGES = {
    "as long as it was": BEFORE.replace(OLD.encode(), NEW.encode()),
    "longer": BEFORE.replace(OLD.encode(), NEW.encode() * 9),
    "shorter": BEFORE.replace(OLD.encode(), NEW.encode() + b"!")[: len(HEADER)]
    + ONE.replace(b"1.50", NEW.encode())
    + TWO,
    "with more behind it": BEFORE.replace(OLD.encode(), NEW.encode()) + line(b"n3", b'"n2"'),
}


def save_in_place(house: House, path: Path, content: bytes) -> None:
    """Save a file as an editor does that keeps the inode."""
    fd = house.disk.open_update(path)
    house.disk.truncate(fd, 0)
    house.disk.pwrite(fd, content, 0)
    house.disk.close(fd)
    # The new time must be later than one tick of the clock.
    house.disk.seconds += 60.0


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("first", ["list", "open"])
async def test_a_save_in_place_while_the_session_is_closed_makes_a_new_epoch_and_new_answers(
    house: House, change: str, first: str, *, stopped: bool
) -> None:
    path = house.put(BEFORE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        before = await session_info(wire)
        assert await call(wire, "session/list", "sessions[].first_message") == [OLD]
        assert await call(wire, "session/search", HITS, query=OLD) == [SESSION]
        assert await call(wire, "session/search", HITS, query=NEW) == []
        if not stopped:
            await let_go(daemon, wire)
            save_in_place(house, path, CHANGES[change])
            house.seconds += 60.0
            await check(wire, before, first)
    if stopped:
        save_in_place(house, path, CHANGES[change])
        async with house.daemon() as daemon, daemon.connect() as wire:
            await check(wire, before, first)


async def check(wire: Wire, before: dict[str, Any], first: str) -> None:
    """Check that all answers show the new content, whether a list or an opening comes first."""
    if first == "open":
        assert (await session_info(wire))["epoch"] != before["epoch"]
    (found,) = await call(wire, "session/list", "sessions")
    assert found["first_message"].startswith(NEW)
    assert found["epoch"] != before["epoch"]
    assert await call(wire, "session/search", HITS, query=OLD) == []
    assert await call(wire, "session/search", HITS, query=NEW) == [SESSION]
    cursor = {"seq": before["seq"], "epoch": before["epoch"]}
    answer = await watch(wire, after=cursor)
    assert (answer["replaced"], answer["epoch"]) == ("epoch", found["epoch"])


async def test_an_opening_knows_a_changed_file_by_its_content_whatever_its_time_says(
    real_house: House,
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        made = await create(wire, persist="immediate")
        for word in (OLD, "last"):
            await say(wire, word)
        epoch = (await session_info(wire))["epoch"]
    path = Path(made["session"]["path"])

    def save() -> None:
        found = path.stat()
        with path.open("r+b") as file:
            content = file.read()
            file.seek(0)
            file.write(content.replace(OLD.encode(), NEW.encode()))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (
            found.st_size,
            found.st_mtime_ns,
        )

    await to_thread.run_sync(save)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        found = await session_info(wire)
        assert (found["first_message"], found["seq"]) == (NEW, 2)
        assert found["epoch"] != epoch


async def test_a_file_that_only_grew_or_was_only_touched_keeps_its_epoch(house: House) -> None:
    path = house.put(BEFORE)
    epoch = ""
    async with house.daemon() as daemon, daemon.connect() as wire:
        for number in range(3):
            await wire.call("append", session_id=SESSION, message={"role": "user"})
            epoch = (await session_info(wire))["epoch"]
            assert await call(wire, "session/list", "sessions[].epoch") == [epoch]
            await let_go(daemon, wire)
            if number:
                house.disk.write_as_another(path, line(b"f%d" % number, b'"n2"'))
            else:
                save_in_place(house, path, house.disk.content(path))
            house.seconds += 60.0
            if number == 1:
                assert await call(wire, "session/list", "sessions[].epoch") == [epoch]
            assert (await session_info(wire))["epoch"] == epoch
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await session_info(wire))["epoch"] == epoch


async def test_a_save_in_place_that_an_open_session_does_not_notice_is_noticed_when_it_was_closed(
    house: House,
) -> None:
    path = house.put(BEFORE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        epoch = (await session_info(wire))["epoch"]
        save_in_place(house, path, CHANGES["as long as it was"])
        await wire.call("append", session_id=SESSION, message={"role": "user"})
        await let_go(daemon, wire)
        house.seconds += 60.0
        (found,) = await call(wire, "session/list", "sessions")
        assert (found["first_message"], found["message_count"]) == (NEW, 3)
        assert found["epoch"] != epoch
        assert await call(wire, "session/search", HITS, query=OLD) == []
        assert await call(wire, "session/search", HITS, query=NEW) == [SESSION]


async def test_an_epoch_that_an_older_version_noted_with_the_last_line_only_goes_on(
    house: House,
) -> None:
    path = house.put(BEFORE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        epoch = (await session_info(wire))["epoch"]
        await let_go(daemon, wire)
        catalog = daemon.store.catalog
        known = await to_thread.run_sync(catalog.known, SESSION)
        assert known is not None
        line_only = structs.replace(
            known.mark, seen_digest=known.mark.seen_digest.partition(" ")[0]
        )
        assert len(line_only.seen_digest) == 64
        await to_thread.run_sync(catalog.place, SESSION, str(path), line_only)
        assert (await session_info(wire))["epoch"] == epoch
        noted = await to_thread.run_sync(catalog.known, SESSION)
        assert noted is not None
        assert noted.mark == known.mark


async def test_an_opening_reads_a_file_once_and_a_list_of_what_is_unchanged_reads_nothing(
    house: House,
) -> None:
    path = house.put(BEFORE + b"".join(line(b"m%d" % n, b'"n2"') for n in range(999)))
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/list")
        house.seconds += 60.0
        before = house.disk.counts["pread"]
        await wire.call("session/list")
        assert house.disk.counts["pread"] == before
    async with house.daemon() as daemon, daemon.connect() as wire:
        read = count_reads(house)
        await wire.call("session/open", session_id=SESSION)
        size = len(house.disk.content(path))
        # Beside the pass: the last line, once for itself and once for the mark.
        assert size <= sum(read) < size + 4096


async def test_usage_and_first_message_are_read_in_the_pass_that_indexes(house: House) -> None:
    answers = [
        stored_message(f"a{n}", f"a{n - 1}" if n else "n1", "assistant", "x" * 2000)
        for n in range(100)
    ]
    for answer in answers:
        answer["message"]["usage"] = {"input": 1, "output": 2, "totalTokens": 3}
    path = house.put([stored_message("n1", None, content="first"), *answers])
    size = len(house.disk.content(path))
    assert size > 2 * INLINE_READ_BYTES
    async with house.daemon(scanned=False) as daemon, daemon.connect() as wire:
        read = count_reads(house)
        shown = (await wire.call("session/open", session_id=SESSION))["session"]
        assert size <= sum(read) < size + 8192
        read.clear()
        again = (await wire.call("session/get", session_id=SESSION))["session"]
        assert read == []
        for info in (shown, again):
            assert info["first_message"] == "first"
            assert info["usage"]["input_tokens"] == 100
            assert info["usage"]["total_tokens"] == 300
        # An open session is not scanned.
        (listed,) = (await wire.call("session/list"))["sessions"]
        assert listed["usage"] == shown["usage"]
        assert sum(read) < 8192
