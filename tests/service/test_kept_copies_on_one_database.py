"""Kept copies of sessions of a database: what an opening fetches, and which copies are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from anyio import fail_after, to_thread

from sessiond.journal.kept_copies import KeptCopy
from sessiond.service.database.database import SessionDatabase
from tests.kit.calls import append, call, create, watch
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS
from tests.service.one_database.connections import OUT_OF_REACH, Wrapped
from tests.service.one_database.site import Site

ENTRIES = 12
COPY = "one/profiles/default/copies/1.lines"
"""Place of the copy of the daemon that is called one, in the home of a site."""


class Counted(Wrapped):
    """A connection that counts the lines which are fetched."""

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.fetched = 0

    def pieces(self, number: int, first: int, last: int, *, ahead: bool = False) -> Any:
        """Yield pieces, and count their lines."""
        for piece in self.inner.pieces(number, first, last, ahead=ahead):
            self.fetched += piece.count(b"\n")
            yield piece


@pytest.fixture(autouse=True, params=["lines", "lines-and-index"])
def _short(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    has_index = request.param == "lines-and-index"
    set_limits(monkeypatch, KEPT_COPY_LINES=10, KEPT_INDEX_ENTRIES=10 if has_index else 1_000_000)


async def made(site: Site) -> list[Any]:
    """Make a long session, and let a daemon read and close the session."""
    async with site.daemon("two") as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for number in range(ENTRIES):
            await append(wire, f"e-{number}")
        await opened(site)
        stored: list[Any] = await call(wire, "session/entries", "entries")
        return stored


async def opened(site: Site, name: str = "one") -> tuple[list[Any], int]:
    """Return the entries that a new daemon reads, and how many lines the daemon fetched."""
    connection = Counted(site.connect())
    with fail_after(PATIENCE_SECONDS):
        async with site.daemon(name, connection) as daemon, daemon.connect() as wire:
            return await call(wire, "session/entries", "entries"), connection.fetched


async def test_an_opening_fetches_what_the_copy_lacks(site: Site) -> None:
    expected = await made(site)
    assert (site.home / COPY).is_file()
    assert await opened(site) == (expected, 0)
    async with site.daemon("two") as daemon, daemon.connect() as wire:
        await append(wire, "e-later")
        expected = await call(wire, "session/entries", "entries")
    assert await opened(site) == (expected, 1)
    assert await opened(site) == (expected, 0)


@pytest.mark.parametrize("_short", ["lines-and-index"], indirect=True)
async def test_an_opening_with_an_index_reads_no_line_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = await made(site)
    assert (site.home / COPY).with_suffix(".index").is_file()

    def refuse(_copy: KeptCopy) -> Any:
        raise AssertionError("the index has the lines")

    monkeypatch.setattr(KeptCopy, "found", refuse)
    assert await opened(site) == (expected, 0)


async def test_an_append_behind_a_copy_is_stored_and_kept(site: Site) -> None:
    await made(site)
    connection = Counted(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        await append(wire, "e-own")
        expected = await call(wire, "session/entries", "entries")
    assert connection.fetched == 0
    assert await opened(site) == (expected, 0)
    assert (await opened(site, "three"))[0] == expected


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "another-byte": lambda data: data.replace(b"e-5", b"e-6", 1),
    "a-line-less": lambda data: data.replace(b"\n", b"\n\n", 1),
    "a-line-more": lambda data: data + data.splitlines(keepends=True)[-1],
    "no-session": lambda data: b"x" * len(data) + b"\n" + data,
    "zeros": lambda data: bytes(len(data)),
    "zero-lines": lambda data: bytes(20) + b"\n" + data,
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
async def test_a_spoilt_copy_is_fetched_anew(site: Site, spoil: Callable[[bytes], bytes]) -> None:
    expected = await made(site)
    # This daemon reads no copy.
    async with site.daemon("four") as daemon, daemon.connect() as wire:
        epoch = await call(wire, "session/get", "session.epoch")
    place = site.home / COPY
    place.write_bytes(spoil(place.read_bytes()))
    found, fetched = await opened(site)
    assert found == expected
    assert fetched >= ENTRIES
    assert (await opened(site))[0] == expected
    # The lines of the database are what they were, so cursors stay: only one more line says otherwise.
    async with site.daemon("four") as daemon, daemon.connect() as wire:
        is_kept = await call(wire, "session/get", "session.epoch") == epoch
        assert is_kept is (spoil is not SPOILT["a-line-more"])


@pytest.mark.parametrize("size", [0, 10, 200, 1000])
async def test_a_copy_that_was_cut_is_completed(site: Site, size: int) -> None:
    expected = await made(site)
    place = site.home / COPY
    place.write_bytes(place.read_bytes()[:size])
    found, fetched = await opened(site)
    assert found == expected
    assert fetched == ENTRIES + 1 - place.read_bytes()[:size].count(b"\n")
    assert await opened(site) == (expected, 0)


async def test_a_database_that_was_brought_back_drops_the_copy(site: Site) -> None:
    await made(site)
    site.remember()
    async with site.daemon("one") as daemon, daemon.connect() as wire:
        await append(wire, "e-lost")
    site.bring_back()
    async with site.daemon("two") as daemon, daemon.connect() as wire:
        await append(wire, "e-other")
        expected = await call(wire, "session/entries", "entries")
    found, fetched = await opened(site)
    assert found == expected
    assert fetched >= ENTRIES
    assert await opened(site) == (expected, 0)


async def epoch_at(site: Site, name: str) -> str:
    """Return the epoch under which a new daemon serves the session."""
    async with site.daemon(name) as daemon, daemon.connect() as wire:
        return str(await call(wire, "session/get", "session.epoch"))


async def test_a_copy_of_later_lines_tells_that_the_database_was_brought_back(site: Site) -> None:
    expected = await made(site)
    site.remember()
    before = await epoch_at(site, "two")
    async with site.daemon("one") as daemon, daemon.connect() as wire:
        await append(wire, "e-lost")
    site.bring_back()
    # Clients of the first daemon may have read the line that is lost.
    assert await epoch_at(site, "one") != before
    assert (await opened(site))[0] == expected
    assert await epoch_at(site, "two") == await epoch_at(site, "one")


async def test_lines_that_a_kill_has_left_in_a_copy_tell_nothing(site: Site) -> None:
    expected = await made(site)
    before = await epoch_at(site, "one")
    place = site.home / COPY
    last = place.read_bytes().splitlines(keepends=True)[-1]
    # A daemon writes lines before the database has them, and room behind them.
    place.write_bytes(place.read_bytes() + last.replace(b"e-11", b"e-99") + bytes(100))
    assert (await opened(site))[0] == expected
    assert await epoch_at(site, "one") == before


async def test_a_deleted_session_leaves_no_copy(site: Site) -> None:
    await made(site)
    async with site.daemon("one") as daemon, daemon.connect() as wire:
        await call(wire, "session/entries", "entries")
        assert (site.home / COPY).is_file()
        await call(wire, "session/delete")
    assert list((site.home / COPY).parent.iterdir()) == []


async def test_a_session_that_was_deleted_elsewhere_leaves_no_copy(site: Site) -> None:
    await made(site)
    async with site.daemon("two") as daemon, daemon.connect() as wire:
        await call(wire, "session/delete")
    assert (site.home / COPY).is_file()
    # The clean-up of a start finds the session deleted.
    async with site.daemon("one") as daemon, daemon.connect() as wire:
        await wire.call("session/list")
        with fail_after(PATIENCE_SECONDS):
            while (site.home / COPY).exists():
                await wire.call("server/ping")


async def test_a_purge_elsewhere_erases_the_copy_of_an_open_session(site: Site) -> None:
    await made(site)
    async with (
        site.daemon("one") as here,
        site.daemon("two") as there,
        here.connect() as one,
        there.connect() as two,
    ):
        await call(one, "session/entries", "entries")
        await call(two, "session/delete")
        await call(two, "session/purge")
        with fail_after(PATIENCE_SECONDS):
            while (site.home / COPY).exists():
                await one.call("session/list")


class Failing(Counted):
    """A connection that is lost once: at the first question for rows behind the finding of a session."""

    fails = False
    _found = False

    def fail_once(self) -> None:
        """Be lost at the next opening that other daemons' signals are read for."""
        self._found, self.fails = False, True

    def find(self, session_id: str) -> Any:
        self._found = True
        return self.inner.find(session_id)

    def heads(self, numbers: Any) -> Any:
        if self.fails and self._found:
            self.fails = False
            raise OUT_OF_REACH
        self._found = False
        return self.inner.heads(numbers)


async def test_a_reopening_that_fails_keeps_no_copy_from_the_next_one(site: Site) -> None:
    await made(site)
    connection = Failing(site.connect())
    with fail_after(PATIENCE_SECONDS):
        async with (
            site.daemon("one", connection, 60) as here,
            site.daemon("two") as there,
            here.connect() as one,
            there.connect() as two,
        ):
            await watch(one)
            # Only a ring tells of the repair.
            await site.is_heard_by(1)
            await to_thread.run_sync(site.put_line, 2, b"no JSON")
            connection.fail_once()
            await call(two, "session/repair", dry_run=False)
            while (notice := await one.next_notification())["method"] != "session/closed":
                assert notice["method"] == "session/synced", notice
            assert not connection.fails
            # The lines that the failed opening fetched are in its copy.
            connection.fetched = 0
            found = await call(one, "session/entries", "entries")
            assert found == await call(two, "session/entries", "entries")
            assert connection.fetched == 0
