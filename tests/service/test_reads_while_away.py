"""Reads while the database is away: they say that they may be old, and only then."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest
from anyio import fail_after

from sessiond.testing.wire import Wire
from sessiond_client.generated import results
from tests.kit.calls import append, call, create, refused
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, happened
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import Severed
from tests.service.one_database.site import NEVER, Site, environment_of

MESSAGE = {"role": "user", "content": "hi"}
OF_THE_SESSION: tuple[tuple[str, dict[str, Any]], ...] = (
    ("session/open", {"session_id": SESSION}),
    ("session/get", {}),
    ("session/entry", {"entry_id": "e-1"}),
    ("session/entries", {}),
    ("session/path", {}),
    ("session/tree", {}),
    ("session/tree", {"form": "text"}),
    ("session/heads", {}),
    ("session/labels", {}),
    ("session/usage", {}),
    ("session/turns", {}),
    ("session/stats", {}),
    ("session/brief", {}),
    ("session/build_context", {}),
    ("session/plan_compaction", {}),
    ("session/subscribe", {}),
)
OF_ALL: tuple[tuple[str, dict[str, Any]], ...] = (
    ("session/list", {}),
    ("session/search", {"query": "e-1"}),
    ("session/resolve", {"ref": SESSION}),
    ("state/get", {"namespace": "notes", "key": "at"}),
    ("state/all", {"namespace": "notes"}),
)


async def signs(wire: Wire) -> dict[str, Any]:
    """Return `_meta` of the answers to all reads."""
    found = {}
    for method, members in OF_THE_SESSION:
        answer = await call(wire, method, **members)
        found[f"{method} {members}"] = answer.get("_meta")
    for method, members in OF_ALL:
        found[method] = (await wire.call(method, **members)).get("_meta")
    return found


@pytest.mark.parametrize("inline_bytes", [1 << 20, 1], ids=["at once", "in the background"])
async def test_each_read_says_that_it_may_be_old_while_the_database_is_away(
    site: Site, monkeypatch: pytest.MonkeyPatch, inline_bytes: int
) -> None:
    set_limits(monkeypatch, INLINE_READ_BYTES=inline_bytes)
    connection = Severed(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        with fail_after(PATIENCE_SECONDS):
            await create(wire, persist="immediate")
            for name in ("e-1", "e-2"):
                await append(wire, name)
            await wire.call("state/set", namespace="notes", key="at", value=1)
            assert set((await signs(wire)).values()) == {None}
            connection.is_there = False
            away = await signs(wire)
            since = [None if meta is None else meta["stale_since"] for meta in away.values()]
            assert since == [environment_of("one").now()] * len(away), away
            # What only the database can tell is no answer.
            for method, members in (
                ("session/entry", {"session_id": SESSION, "entry_id": "unknown"}),
                ("session/get", {"session_id": "unknown-session"}),
                ("session/resolve", {"ref": "unknown-session"}),
                ("state/set", {"namespace": "notes", "key": "at", "value": 2}),
                (
                    "state/set",
                    {"namespace": "notes", "key": "at", "value": 2, "expected_revision": 7},
                ),
            ):
                refusal = await refused(wire, method, "{kind,retryable}", **members)
                assert refusal == ("storage_error", True)
            connection.is_there = True
            assert set((await signs(wire)).values()) == {None}
            await append(wire, "e-3")


async def test_an_answer_may_lack_what_was_stored_since_the_look_began(site: Site) -> None:
    class Slow(Severed):
        """A connection of which each call fails after a second, once it is away."""

        seconds = 0

        def __getattr__(self, name: str) -> Any:
            self.seconds += not self.is_there
            return super().__getattr__(name)

    connection = Slow(site.connect())

    def now() -> str:
        return f"2026-01-15T10:30:{connection.seconds:02}.000Z"

    async with site.daemon("one", connection, NEVER, now=now) as daemon, daemon.connect() as wire:
        with fail_after(PATIENCE_SECONDS):
            await create(wire, persist="immediate")
            await append(wire, "e-1")
            # Behind this look the daemon looks no more by itself.
            await site.watches(one=wire)
            connection.is_there = False
            for _ in range(2):
                away = await call(wire, "session/get")
                assert away["_meta"]["stale_since"] == "2026-01-15T10:30:00.000Z"
            assert connection.seconds


async def test_a_session_in_a_file_beside_the_database_is_never_old(site: Site) -> None:
    connection = Severed(site.connect())
    async with site.daemon("one", connection) as daemon, daemon.connect() as wire:
        with fail_after(PATIENCE_SECONDS):
            await create(wire, persist="never")
            await append(wire, "e-1")
            connection.is_there = False
            assert "_meta" not in await call(wire, "session/entries")
            await append(wire, "e-2")


def test_the_result_types_of_the_client_take_the_sign() -> None:
    structs = [one for one in vars(results).values() if isinstance(one, type)]
    assert not any(
        one.__struct_config__.forbid_unknown_fields
        for one in structs
        if issubclass(one, msgspec.Struct)
    )


async def test_people_are_told_once_that_the_database_is_away_and_once_that_it_is_back(
    site: Site,
) -> None:
    connection = Severed(site.connect())
    told: list[str] = []
    came = [threading.Event(), threading.Event()]

    def tell(text: str) -> None:
        told.append(text)
        came[len(told) - 1].set()

    async with (
        site.daemon("one", connection, report_trouble=tell) as daemon,
        daemon.connect() as wire,
    ):
        with fail_after(PATIENCE_SECONDS):
            await create(wire, persist="immediate")
            await append(wire, "e-1")
            connection.is_there = False
            await happened(came[0])
            for _ in range(3):
                await wire.refusal("append", session_id=SESSION, message=MESSAGE)
            connection.is_there = True
            await happened(came[1])
    assert "tries again" in told[0]
    assert told[1].endswith("answers again")
    assert len(told) == 2
