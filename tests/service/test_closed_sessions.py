"""Closed sessions leave nothing in the memory of their daemon, in files and in a database."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest
from anyio import fail_after, to_thread

from sessiond.service.database.log import DatabaseLog
from sessiond.service.log.open_session import OpenSession
from sessiond.testing.daemon import Daemon, running_daemon
from tests.kit.calls import append, call, create
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION
from tests.service.one_database.site import Site

TIMES = 12
LATE = 8
"""Objects that may wait for the next search, or for a thread that was given them last."""


@pytest.fixture(autouse=True)
def _no_search() -> Generator[None]:
    """Leave it to the daemon to search for cycles."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> int:
    """Return how many open sessions and logs are in memory."""
    return sum(type(one) in {OpenSession, DatabaseLog} for one in gc.get_objects())


@pytest.mark.parametrize("store", ["files", "database"])
async def test_openings_of_one_session_do_not_add_up(
    site: Site, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, CLOSED_ENTRIES_MAX=1_000)
    running: AbstractAsyncContextManager[Daemon] = (
        running_daemon(site.home) if store == "files" else site.daemon("one")
    )
    with fail_after(PATIENCE_SECONDS):
        async with running as daemon, daemon.connect() as wire:
            await create(wire, persist="immediate")
            await append(wire, "e-1")
            await wire.call("session/close", session_id=SESSION)
            before = alive()
            for _ in range(TIMES):
                assert (await call(wire, "session/get"))["session"]["seq"] == 1
                await wire.call("session/close", session_id=SESSION)
            await wire.call("session/list")
            assert alive() <= before + LATE


async def test_new_epochs_of_an_open_session_do_not_add_up(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, CLOSED_ENTRIES_MAX=1_000)
    with fail_after(PATIENCE_SECONDS):
        async with site.daemon("one") as daemon, daemon.connect() as wire:
            await create(wire, persist="immediate")
            await append(wire, "e-1")
            before = alive()
            for number in range(TIMES):
                epoch = f"epoch-{number}"
                await to_thread.run_sync(partial(site.change_row, epoch=epoch))
                assert (await call(wire, "session/get"))["session"]["epoch"] == epoch
            assert alive() <= before + LATE


async def test_a_list_keeps_none_of_the_sessions_that_were_read(site: Site) -> None:
    names = [f"{SESSION}-{number}" for number in range(TIMES)]
    with fail_after(PATIENCE_SECONDS):
        async with site.daemon("one") as daemon, daemon.connect() as wire:
            for each in names:
                await create(wire, each, persist="immediate")
                await append(wire, "e-1", session_id=each)
        before = alive()
        async with site.daemon("two") as daemon, daemon.connect() as wire:
            listed = (await wire.call("session/list"))["sessions"]
            assert {one["id"] for one in listed} == {*names}
            # No search for cycles is needed for these.
            assert alive() <= before
