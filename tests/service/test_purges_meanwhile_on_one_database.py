"""Sessions of a database that another daemon deletes and purges in the middle of a request."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from anyio import fail_after

from sessiond.journal.splitter import whole_lines
from sessiond.testing.wire import Wire
from tests.kit.calls import call, create_with, refused
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import Wrapped
from tests.service.one_database.site import Site

FORK = "session-b"


class Purged(Wrapped):
    """A connection whose next calls meet a session that another daemon has just deleted for good."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.behind_creation = self.before_reading = False
        self.is_made_anew = False
        """True if another daemon also stores a session of the same id, without entries."""

    def create(self, session_id: str, *args: Any, **options: Any) -> Any:
        made = self.inner.create(session_id, *args, **options)
        if self.behind_creation:
            self.behind_creation = False
            self._purge(session_id)
        return made

    def pieces(self, *args: Any, **options: Any) -> Any:
        if self.before_reading:
            self.before_reading = False
            header = whole_lines(next(iter(self.inner.pieces(args[0], 0, 0))))
            self._purge(SESSION)
            if self.is_made_anew:
                self.inner.create(SESSION, "another-epoch", [header], "placed")
        return self.inner.pieces(*args, **options)

    def _purge(self, session_id: str) -> None:
        head = self.inner.find(session_id)
        assert head is not None
        assert self.inner.delete(head) is not None
        assert self.inner.purge(session_id) == 1


@asynccontextmanager
async def closed_session(site: Site) -> AsyncGenerator[tuple[Purged, Wire]]:
    """Yield a connection and a client of its daemon, where a session was open."""
    connection = Purged(site)
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        with fail_after(PATIENCE_SECONDS):
            await create_with(wire, "e-1", persist="immediate")
            yield connection, wire


async def test_a_fork_that_is_purged_before_its_answer_can_be_made_again(site: Site) -> None:
    async with closed_session(site) as (connection, wire):
        connection.behind_creation = True
        refusal = await wire.refusal("session/fork", session_id=SESSION, new_session_id=FORK)
        assert (refusal.data["kind"], refusal.data["retryable"]) == ("storage_error", True)
        assert (
            refusal.message
            == f"another program has deleted {FORK} while it was made: make it again"
        )
        # The one that was purged has left nothing, and no try has stored an empty session.
        assert await call(wire, "session/trash", "sessions") == []
        await call(wire, "session/fork", new_session_id=FORK)
        ids = await call(wire, "session/entries", "entries[].entry.id", session_id=FORK)
        assert ids == ["e-1"]


async def test_a_new_session_that_is_purged_before_its_answer_is_not_found(site: Site) -> None:
    async with closed_session(site) as (connection, wire):
        connection.behind_creation = True
        asked = {"session_id": FORK, "cwd": "/p"}
        assert await refused(wire, "session/create", **asked) == "session_not_found"
        assert await call(wire, "session/create", "created", **asked)
        assert await call(wire, "session/get", "session.seq", session_id=FORK) == 0


CHECKS: dict[str, dict[str, Any]] = {
    "session/verify": {},
    "session/repair": {},
    "session/repair for real": {"dry_run": False},
}


@pytest.mark.parametrize("check", CHECKS)
async def test_a_check_that_meets_a_purge_finds_no_session(site: Site, check: str) -> None:
    async with closed_session(site) as (connection, wire):
        await call(wire, "session/close")
        connection.before_reading = True
        method = check.partition(" ")[0]
        assert await refused(wire, method, **CHECKS[check]) == "session_not_found"


@pytest.mark.parametrize("check", CHECKS)
async def test_a_check_that_meets_a_purge_checks_the_session_that_came_instead(
    site: Site, check: str
) -> None:
    async with closed_session(site) as (connection, wire):
        await call(wire, "session/close")
        connection.before_reading = connection.is_made_anew = True
        method = check.partition(" ")[0]
        found = await call(wire, method, **CHECKS[check])
        assert (found.get("ok", True), found.get("repaired", False)) == (True, False)
        assert await call(wire, "session/entries", "entries") == []
