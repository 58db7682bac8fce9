"""Calls into the database that fail, or lose their answers, while daemons change the same sessions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anyio import fail_after, to_thread

from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create
from tests.kit.patience import HANG_SECONDS
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import OUT_OF_REACH, Wrapped
from tests.service.one_database.site import NEVER, Site
from tests.service.subscribing import subscribe
from tests.service.test_lists_on_one_database import until

pytestmark = pytest.mark.one_loop


class Losing(Wrapped):
    """A connection of which some calls fail before their work, and some behind that."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.before: set[str] = set()
        self.behind: set[str] = set()
        self.lost: Counter[str] = Counter()
        """The calls that have failed, by name."""

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)
        return self._failing(name, method) if name in self.before | self.behind else method

    def _failing(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if name not in self.before:
                method(*args, **options)
            self.lost[name] += 1
            raise OUT_OF_REACH

        return call

    def answer(self) -> None:
        """Let all calls come through again."""
        self.before.clear()
        self.behind.clear()


@asynccontextmanager
async def two_clients(site: Site, connection: Losing) -> AsyncGenerator[tuple[Wire, Wire]]:
    """Yield clients of two daemons, which see of each other what they look for; the first loses calls."""
    async with (
        site.daemon("one", connection, NEVER) as first,
        site.daemon("three", poll_seconds=NEVER) as third,
        first.connect() as one,
        third.connect() as three,
    ):
        with fail_after(HANG_SECONDS):
            yield one, three


async def test_a_session_that_is_opened_behind_a_lost_note_is_spared(site: Site) -> None:
    connection = Losing(site)
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        with fail_after(HANG_SECONDS):
            await create(wire, persist="immediate")
            await append(wire, "e-1")
            await call(wire, "session/close")
            site.age()
            await call(wire, "session/get")
            # The note that the session is closed is there, and its answer is lost.
            connection.behind.add("beat")
            await call(wire, "session/close")
            await until(lambda: connection.lost["beat"] > 0)
            connection.answer()
            await call(wire, "session/get")
            cleaning = await to_thread.run_sync(site.connect)
            now_ns = time.time_ns() + site.passed_ns
            deleted = await to_thread.run_sync(cleaning.delete_unused, 1, now_ns, "three")
            assert deleted == []
            await to_thread.run_sync(cleaning.close)


@pytest.mark.parametrize("method", ["session/restore", "session/purge"])
async def test_an_outage_is_not_answered_as_a_session_that_is_there(
    site: Site, method: str
) -> None:
    connection = Losing(site)
    async with two_clients(site, connection) as (one, three):
        await create(one, persist="immediate")
        await subscribe(one)
        await call(three, "session/delete")
        # The daemon finds that its session is gone, and cannot find out what became of the id.
        connection.before.add("find")
        refusal = await one.refusal(method, session_id=SESSION)
        assert refusal.data["kind"] == "storage_error"
        connection.answer()
        await call(one, method)
