"""Epochs last as long as their log: no client gets `session/replaced` without need."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest
from anyio import to_thread

from sessiond.journal.reader import LineReader
from sessiond.service.external.watcher import PollingWatcher
from sessiond.service.files.catalog_records import CatalogRecords
from sessiond.service.files.rows import Rows
from sessiond.testing.daemon import Refusal
from tests.kit.calls import call, create, say
from tests.kit.house import House, arrived
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION
from tests.service.damage import GOOD

EPOCH = "session.epoch"


async def test_a_session_that_is_closed_while_it_is_stored_for_lists_is_the_same_when_reopened(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, close = threading.Event(), LineReader.close

    def close_it(reader: LineReader) -> None:
        closing.set()
        close(reader)

    monkeypatch.setattr(LineReader, "close", close_it)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire, persist="immediate")
        await say(wire)
        seen = await call(wire, "session/get", EPOCH)
        await say(wire, role="assistant")
        with house.disk.hold("pread") as gate:
            # It reads what the messages come to, then the line that the epoch is seen with.
            listing = await other.request("session/list")
            await arrived(gate)
            await call(wire, "session/close")
            # It must not come to that while the list is at it.
            await to_thread.run_sync(closing.wait, 0.2)
        await other.answer(listing)
        known = await to_thread.run_sync(daemon.store.catalog.known, SESSION)
        assert known is not None
        assert (known.mark.epoch, known.mark.seen_seq) == (seen, 2)
        assert await call(wire, "session/get", EPOCH) == seen
        again = await call(other, "subscribe", after={"seq": 1, "epoch": seen})
        assert "replaced" not in again


async def test_who_opens_a_session_decides_its_epoch_and_not_a_list_that_reads_it_meanwhile(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, opened, stored = threading.Event(), threading.Event(), threading.Event()
    read_row, note = Rows.read, CatalogRecords.note

    def read_slowly(*args: Any) -> Any:
        row = read_row(*args)
        read.set()
        assert opened.wait(PATIENCE_SECONDS)
        return row

    def note_and_wait(*args: Any) -> None:
        note(*args)
        opened.set()
        assert stored.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(Rows, "read", read_slowly)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        assert (await wire.call("session/list"))["sessions"] == []
        house.put(GOOD)
        monkeypatch.setattr(CatalogRecords, "note", note_and_wait)
        listing = await other.request("session/list")
        assert await to_thread.run_sync(read.wait, PATIENCE_SECONDS)
        # Nobody knew the file, so both make an epoch.
        asked = await wire.request("session/get", session_id=SESSION)
        await other.answer(listing)
        stored.set()
        served = (await wire.answer(asked))["session"]["epoch"]
        known = await to_thread.run_sync(daemon.store.catalog.known, SESSION)
        assert known is not None
        assert known.mark.epoch == served
        (listed,) = (await wire.call("session/list"))["sessions"]
        assert listed["epoch"] == served


async def test_a_line_that_cannot_be_read_for_a_list_costs_no_epoch(house: House) -> None:
    house.put(GOOD)
    async with house.daemon() as daemon, daemon.connect() as wire:
        seen = await call(wire, "session/get", EPOCH)
        await wire.call("session/list")
        await call(wire, "session/label", entry_id="n1", label="here")
        fault = house.disk.fail("pread")
        await wire.call("session/list")
        assert fault.hit
        await call(wire, "session/close")
        assert await call(wire, "session/get", EPOCH) == seen


async def test_a_copy_that_took_the_place_of_an_open_file_is_it_after_a_reopening_too(
    house: House,
) -> None:
    path = house.put(GOOD)
    async with house.daemon(PollingWatcher(house.files, 0.01)) as daemon, daemon.connect() as wire:
        await call(wire, "subscribe")
        seen = await call(wire, "session/get", EPOCH)
        await wire.call("session/list")
        journal = daemon.service.registry.actor(SESSION).opened.journal
        before = journal.inode
        copy = path.with_name("saved.tmp")
        house.disk.put(copy, GOOD)
        house.disk.rename(copy, path)
        while journal.inode == before:
            await wire.call("server/ping")
        await call(wire, "unsubscribe")
        await call(wire, "session/close")
        assert await call(wire, "session/get", EPOCH) == seen


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_repair_that_failed_costs_no_epoch_and_one_that_worked_does(
    house: House, *, is_open: bool
) -> None:
    content = GOOD + b"garbage\n"
    nth, failed, kept = 0, True, 0
    while failed:
        nth += 1
        house.files = type(house.disk)(house.home)
        path = house.put(content)
        async with house.daemon() as daemon, daemon.connect() as wire:
            seen = await call(wire, "session/get", EPOCH)
            if not is_open:
                await call(wire, "session/close")
            fault = house.disk.fail(None, nth=nth)
            with suppress(Refusal):
                await call(wire, "session/repair", dry_run=False)
            failed = fault.hit
            house.disk.heal()
            is_same = house.disk.content(path) == content
            kept += is_same
            assert (await call(wire, "session/get", EPOCH) == seen) == is_same, nth
    assert kept > 10
