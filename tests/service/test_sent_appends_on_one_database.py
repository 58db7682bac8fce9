"""Appends that are on their way to the database before a thread takes them, and what then fails."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from sessiond.journal.spool import Spool
from sessiond.service.database.company.outgoing import Outgoing
from sessiond.service.database.database import SessionDatabase
from sessiond.testing.database import MemorySent
from tests.kit.calls import append, call, create, refused
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import Wrapped
from tests.service.one_database.site import NEVER, Site, clients_of

IDS = "entries[].entry.id"
BROKEN = OSError(errno.EIO, "the disk fails")
SAID = {"type": "message", "id": "said", "message": {"role": "user", "content": "hi"}}


class Noted(Wrapped):
    """A connection that notes what happens to appends, in order."""

    def __init__(self, inner: SessionDatabase, steps: list[str]) -> None:
        super().__init__(inner)
        self.steps = steps
        self._loop = threading.get_ident()

    def send(self, *args: Any, **options: Any) -> MemorySent:
        """Note an append that is sent from the loop."""
        self.steps.append("sent" if threading.get_ident() == self._loop else "sent late")
        return super().send(*args, **options)

    def append(self, *args: Any, **options: Any) -> Any:
        """Note what the database does."""
        self.steps.append("stored")
        return self.inner.append(*args, **options)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list in which copies of lines are noted."""
    noted: list[str] = []
    put = Spool.put

    def noting(spool: Spool, lines: Sequence[bytes]) -> int:
        noted.append("copied")
        return put(spool, lines)

    monkeypatch.setattr(Spool, "put", noting)
    return noted


async def test_an_append_is_sent_before_its_copy_is_written(site: Site, steps: list[str]) -> None:
    async with (
        site.daemon("one", Noted(site.connect(), steps)) as daemon,
        daemon.connect() as wire,
    ):
        await create(wire, persist="immediate")
        await append(wire, "e-1")
        # The copy has no room before its first line.
        assert steps == ["copied", "stored"]
        steps.clear()
        await append(wire, "e-2")
        await append(wire, "e-3")
        assert steps == ["sent", "copied", "stored"] * 2


async def test_lines_for_which_the_copy_has_no_room_are_copied_first(
    site: Site, steps: list[str]
) -> None:
    async with (
        site.daemon("one", Noted(site.connect(), steps)) as daemon,
        daemon.connect() as wire,
    ):
        await create(wire, persist="immediate")
        await append(wire, "e-1")
        steps.clear()
        await append(wire, "e-2", "x" * 70_000)
        await append(wire, "e-3")
        assert steps == ["copied", "stored", "sent", "copied", "stored"]
        assert await call(wire, "session/entries", IDS) == ["e-1", "e-2", "e-3"]


async def test_an_append_does_not_overtake_the_signals_before_it(
    site: Site, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_some = Outgoing._write_some

    def noting(outgoing: Outgoing) -> None:
        steps.append("told")
        write_some(outgoing)

    monkeypatch.setattr(Outgoing, "_write_some", noting)
    connection = Noted(site.connect(), steps)
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append(wire, "e-1")
        steps.clear()
        log: Any = daemon.service.actor(SESSION).opened.journal
        with log.company._outgoing._writing:
            await call(wire, "session/signal", kind="s-1")
            request = await wire.request("append", session_id=SESSION, entry=SAID)
            await wire.call("server/ping")
            assert steps == []
        await wire.answer(request)
        # Once the signal is stored, the loop may send the append itself.
        assert steps[0] == "told"
        assert [step for step in steps if step in {"copied", "stored"}] == ["copied", "stored"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])
async def test_a_disk_that_fails_before_an_append_is_sent_leaves_nothing_stored(
    site: Site, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        with monkeypatch.context() as disk:
            disk.setattr(Spool, "put", Mock(side_effect=OSError(number, "the disk fails")))
            assert await refused(one, "append", entry=SAID) == "storage_error"
            assert await call(two, "session/entries", IDS) == []
        assert await append(one, "e-1")
        assert await call(two, "session/entries", IDS) == ["e-1"]


@pytest.mark.parametrize("names_entry", [True, False], ids=["with an id", "with a key"])
async def test_an_append_whose_copy_failed_is_stored_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, names_entry: bool
) -> None:
    message = {"role": "user", "content": "hi"}
    said = {"entry": SAID} if names_entry else {"message": message, "idempotency_key": "key-1"}
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await append(one, "e-1")
        with monkeypatch.context() as disk:
            disk.setattr(Spool, "put", Mock(side_effect=BROKEN))
            assert await refused(one, "append", **said) == "storage_error"
        assert await call(one, "append", "duplicate", **said)
        assert (await append(two, "e-2"))["entries"][0]["seq"] == 3
        assert await call(one, "session/entries", IDS) == await call(two, "session/entries", IDS)
        assert len(await call(one, "session/entries", IDS)) == 3


async def test_the_outcome_of_what_was_sent_is_taken_whatever_fails(
    site: Site, monkeypatch: pytest.MonkeyPatch, steps: list[str]
) -> None:
    connection = Noted(site.connect(), steps)
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append(wire, "e-1")
        steps.clear()
        with monkeypatch.context() as memory:
            memory.setattr(Spool, "put", Mock(side_effect=MemoryError()))
            assert await refused(wire, "append", entry=SAID) == "storage_error"
        assert steps == ["sent", "stored"]
        assert await call(wire, "append", "duplicate", entry=SAID)


async def test_a_turn_whose_copy_failed_lets_other_daemons_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with clients_of(site, "one", "two", poll_seconds=NEVER) as (one, two):
        await create(one, persist="immediate")
        # From its lost race on, each daemon appends in turn.
        for number in range(3):
            for wire in (one, two):
                await append(wire, f"e-{number}-{wire is one}")
        with monkeypatch.context() as disk:
            disk.setattr(Spool, "put", Mock(side_effect=BROKEN))
            assert await refused(one, "append", entry=SAID) == "storage_error"
        await append(two, "last")
        assert (await call(two, "session/entries", IDS)).count("said") == 1
        assert await call(one, "append", "duplicate", entry=SAID)
        assert await call(one, "session/entries", IDS) == await call(two, "session/entries", IDS)
