"""Rings of other daemons, and what is looked at behind a ring."""

from __future__ import annotations

import threading
from time import monotonic

from anyio import fail_after

from tests.kit.calls import append, call, create, watch
from tests.kit.patience import PATIENCE_SECONDS, happened
from tests.service.one_database.connections import Wrapped
from tests.service.one_database.site import NEVER, Site, clients_of


class RungForAll(Wrapped):
    """A connection that hears one ring, for all sessions, when the test lets it."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.is_listening, self.may_ring = threading.Event(), threading.Event()

    def wait(self, seconds: float) -> None:
        """Return for the ring, or after so many seconds."""
        self.is_listening.set()
        until = monotonic() + min(seconds, PATIENCE_SECONDS)
        while monotonic() < until:
            if self.may_ring.wait(0.01):
                self.may_ring.clear()
                return


async def test_a_ring_for_all_sessions_is_looked_at_without_a_poll(site: Site) -> None:
    connection = RungForAll(site)
    async with (
        clients_of(site, "one", poll_seconds=NEVER) as (one,),
        site.daemon("three", connection, NEVER / 2) as daemon,
        daemon.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            await create(one, persist="immediate")
            await watch(three)
            # Behind the look with which the watch begins.
            await happened(connection.is_listening)
            await call(three, "session/get")
            await append(one, "e-1")
            connection.may_ring.set()
            message = await three.next_notification()
            assert message["params"]["entry"]["id"] == "e-1"
