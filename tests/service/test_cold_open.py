"""The opening of a large session, which delays no other client."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import msgspec
import pytest

from sessiond.journal.profile.layout import Layout
from sessiond.service.log.indexer import Indexer
from tests.kit.calls import create
from tests.kit.house import House
from tests.kit.sessions import SESSION, native_file, stored_message

PINGS = 100


async def test_pings_are_answered_while_a_file_is_being_read(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 4000
    go_on = threading.Event()
    halfway = threading.Event()
    visit_lines = Indexer.visit_lines

    def slow(indexer: Indexer, first: int, lines: list[bytes]) -> None:
        if first <= count // 2 < first + len(lines):
            halfway.set()
            # Only the pings that are answered meanwhile let it go on.
            assert go_on.wait(20), "no ping was answered while the file was read"
        visit_lines(indexer, first, lines)

    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        house.put(
            [
                stored_message(f"n{n}", f"n{n - 1}" if n else None, content="x" * 1000)
                for n in range(count)
            ]
        )
        monkeypatch.setattr(Indexer, "visit_lines", slow)
        opening = await wire.request("session/get", session_id=SESSION)
        append = await wire.request("append", session_id=SESSION, message={"role": "user"})
        assert await anyio.to_thread.run_sync(halfway.wait, 20)
        for _ in range(PINGS):
            await other.call("server/ping")
        assert not daemon.service.actor(SESSION).is_open
        # Another session is created and written to meanwhile.
        await create(other, "session-b")
        await other.call("append", session_id="session-b", message={"role": "user"})
        go_on.set()
        assert (await wire.answer(opening))["session"]["seq"] >= count
        assert (await wire.answer(append))["seq"] == count + 1


@pytest.fixture
def production_switching() -> Iterator[None]:
    """Use the daemon's switch interval between threads."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.001)
    yield
    sys.setswitchinterval(before)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.usefixtures("production_switching")
async def test_a_hundred_pings_are_answered_before_a_session_of_a_gigabyte_is_open(
    real_house: House,
) -> None:
    lines = 100_000
    path: Path = Layout(real_house.home).session_path(SESSION, "2026-01-01T00-00-00-000000")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await anyio.to_thread.run_sync(write, path, lines)
        try:
            async with daemon.connect() as other:
                opening = await wire.request("session/get", session_id=SESSION)
                for _ in range(PINGS):
                    await other.call("server/ping")
                assert not daemon.service.actor(SESSION).is_open
            assert (await wire.answer(opening))["session"]["seq"] == lines
        finally:
            path.unlink()


def write(path: Path, lines: int) -> None:
    """Make a session file of more than a gigabyte."""
    with path.open("wb") as file:
        file.write(native_file([]))
        for n in range(lines):
            message = stored_message(f"n{n}", f"n{n - 1}" if n else None, content="x" * 10_600)
            file.write(msgspec.json.encode(message) + b"\n")
    assert path.stat().st_size > 1_000_000_000
