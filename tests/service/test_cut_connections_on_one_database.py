"""Appends whose connection to the database ends: before the change, behind it, or while it is on its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from anyio import to_thread

from sessiond.service.database.database import Unsent
from tests.kit.calls import append, call, create
from tests.kit.sessions import SESSION
from tests.service.one_database.calls import SAID
from tests.service.one_database.connections import OUT_OF_REACH, Wrapped
from tests.service.one_database.site import Site


class Cut(Wrapped):
    """A connection that is cut at the next append, before or behind the change."""

    cut: Literal["never", "before", "behind"] = "never"
    answers_again = True

    def append(self, *args: Any, **options: Any) -> Any:
        cut, self.cut = self.cut, "never"
        if cut == "before":
            raise OUT_OF_REACH
        stored = self.inner.append(*args, **options)
        if cut == "behind":
            raise OUT_OF_REACH
        return stored

    def fence(self, number: int) -> Any:
        if not self.answers_again:
            raise OUT_OF_REACH
        return self.inner.fence(number)


async def test_an_append_whose_answer_was_lost_is_stored_once(site: Site) -> None:
    connection = Cut(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        connection.cut, connection.answers_again = "behind", False
        refusal = await wire.refusal("append", session_id=SESSION, entry=SAID)
        assert (refusal.data["kind"], refusal.data["retryable"]) == ("storage_error", True)
        again = await wire.call("append", session_id=SESSION, entry=SAID)
        assert again["entries"][0]["seq"] == 1
        assert (await append(wire, "e-2"))["entries"][0]["seq"] == 2
        assert len(await call(wire, "session/entries", "entries")) == 2


async def test_a_lost_answer_is_looked_up_as_soon_as_the_database_answers(site: Site) -> None:
    connection = Cut(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        connection.cut = "behind"
        stored = await wire.call("append", session_id=SESSION, entry=SAID)
        assert (stored["entries"][0]["seq"], stored["durability"]) == (1, "disk")
        connection.cut = "before"
        await wire.refusal("append", session_id=SESSION, entry=SAID | {"id": "e-2"})
        assert await call(wire, "session/entries", "entries[].entry.id") == ["e-1"]


class Refusing(Wrapped):
    """A connection whose appends are refused, and which counts what settles an append."""

    refuses = False
    fences = 0

    def append(self, *args: Any, **options: Any) -> Any:
        if self.refuses:
            raise Unsent("fsync is off", errno="ENOTSUP", path="", retryable=False)
        return self.inner.append(*args, **options)

    def fence(self, number: int) -> Any:
        self.fences += 1
        return self.inner.fence(number)


async def test_a_refusal_that_changes_nothing_needs_no_settling(site: Site) -> None:
    connection = Refusing(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        connection.refuses = True
        refusal = await wire.refusal("append", session_id=SESSION, entry=SAID)
        assert (refusal.data["kind"], refusal.data["retryable"]) == ("storage_error", False)
        connection.refuses = False
        assert (await append(wire, "e-2"))["entries"][0]["seq"] == 1
        assert connection.fences == 0


class Slow(Wrapped):
    """A connection whose next append reaches the database only once a test says so."""

    held: Callable[[], Any] | None = None
    is_held = False

    def append(self, *args: Any, **options: Any) -> Any:
        if self.is_held:
            self.is_held = False
            self.held = lambda: self.inner.append(*args, **options)
            raise OUT_OF_REACH
        return self.inner.append(*args, **options)


async def test_an_append_that_was_refused_is_not_stored_later(site: Site) -> None:
    connection = Slow(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        connection.is_held = True
        await wire.refusal("append", session_id=SESSION, entry=SAID)
        assert connection.held is not None
        assert await to_thread.run_sync(connection.held) is None
        await append(wire, "e-2")
        assert await call(wire, "session/entries", "entries[].entry.id") == ["e-2"]
