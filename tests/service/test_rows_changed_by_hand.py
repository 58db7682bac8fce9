"""Rows and lines that a person has changed in the database: told in words, and never a bug."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from anyio import fail_after, to_thread

from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import append, call, create
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION
from tests.service.one_database.calls import SAID
from tests.service.one_database.connections import Wrapped
from tests.service.one_database.site import NEVER, Site

GARBAGE = b"no JSON \x00\xff"
Outcome = Literal["as before", "another epoch", "session_corrupt", "session_not_found"]
Change = Callable[[Site], None]

CHANGES: dict[str, tuple[Change, Outcome]] = {
    "seq is too high": (lambda site: site.change_row(seq=5), "session_corrupt"),
    "seq is too low": (lambda site: site.change_row(seq=1), "another epoch"),
    "seq is below the header": (lambda site: site.change_row(seq=-1), "session_corrupt"),
    "digest": (lambda site: site.change_row(digest=b"x"), "another epoch"),
    "size": (lambda site: site.change_row(size=1), "as before"),
    "epoch": (lambda site: site.change_row(epoch="another-one"), "another epoch"),
    "place": (lambda site: site.change_row(place="nowhere"), "as before"),
    "is_deleted": (lambda site: site.change_row(is_deleted=True), "session_not_found"),
    "leases are no JSON": (lambda site: site.change_row(leases=GARBAGE), "as before"),
    "leases are no text": (
        lambda site: site.change_row(leases=b'[{"head":"\xff"}]'),
        "as before",
    ),
    "leases are none": (lambda site: site.change_row(leases=b"[1]"), "as before"),
    "the row is gone": (lambda site: site.remove_row(), "session_not_found"),
    "the header is gone": (lambda site: site.remove_line(0), "session_corrupt"),
    "a line in the middle is gone": (lambda site: site.remove_line(1), "session_corrupt"),
    "the last line is gone": (lambda site: site.remove_line(2), "session_corrupt"),
    "the header is garbage": (lambda site: site.put_line(0, GARBAGE), "session_corrupt"),
    "a line is there twice": (lambda site: site.put_line(2, site.line(1)), "another epoch"),
    "a line is another one": (
        lambda site: site.put_line(2, site.line(2).replace(b"e-2", b"e-x")),
        "another epoch",
    ),
}

REFUSED = {
    "seq is too high": "session_corrupt",
    "seq is below the header": "session_corrupt",
    "is_deleted": "session_not_found",
    "the row is gone": "session_not_found",
}
"""Refusals of every read and append behind a change, at a daemon that has the session open."""


async def outcome(wire: Wire, method: str, **members: Any) -> str:
    """Return "ok", or the kind of the refusal, which names no content and is no bug."""
    said: dict[str, Any] = {"kind": "ok"}
    try:
        await wire.call(method, **members)
    except Refusal as refusal:
        said = {**refusal.data, "message": refusal.message}
    assert said["kind"] != "internal", (method, said)
    assert "S3CRET" not in str(said)
    return str(said["kind"])


@pytest.mark.parametrize("name", CHANGES)
async def test_a_daemon_that_opens_a_changed_session_says_what_is_wrong(
    site: Site, name: str
) -> None:
    change, expected = CHANGES[name]
    reports: list[str] = []
    with fail_after(PATIENCE_SECONDS):
        async with site.daemon("one") as daemon, daemon.connect() as wire:
            await create(wire, persist="immediate")
            for entry in ("e-1", "e-2"):
                await append(wire, entry, "S3CRET")
            epoch = await call(wire, "session/get", "session.epoch")
        await to_thread.run_sync(change, site)
        async with (
            site.daemon("two", report_trouble=reports.append) as daemon,
            daemon.connect() as wire,
        ):
            if expected in {"session_corrupt", "session_not_found"}:
                for method in ("session/get", "session/entries", "session/build_context"):
                    assert await outcome(wire, method, session_id=SESSION) == expected
                assert await outcome(wire, "append", session_id=SESSION, entry=SAID) == expected
            else:
                now = await call(wire, "session/get", "session.epoch")
                assert (now == epoch) is (expected == "as before")
                said = await outcome(wire, "append", session_id=SESSION, entry=SAID | {"id": "e-9"})
                # Lines behind the end are in the way of appends.
                assert said == ("storage_error" if name == "seq is too low" else "ok")
                assert (
                    await outcome(wire, "session/acquire", session_id=SESSION, ttl_ms=1000) == "ok"
                )
            for method in ("session/verify", "session/repair"):
                await outcome(wire, method, session_id=SESSION)
            listed = await wire.call("session/list")
            shown = [one["id"] for one in listed["sessions"]]
            assert shown == ([SESSION] if expected in {"as before", "another epoch"} else [])
            assert bool(listed.get("unreadable")) is (expected == "session_corrupt")
    assert "S3CRET" not in str(reports)
    assert ("leases" in str(reports)) is name.startswith("leases")


@pytest.mark.parametrize("name", CHANGES)
async def test_a_daemon_under_which_a_session_is_changed_answers_in_words(
    site: Site, name: str
) -> None:
    change, _ = CHANGES[name]
    async with site.daemon("one") as daemon, daemon.connect() as wire:
        with fail_after(PATIENCE_SECONDS):
            await create(wire, persist="immediate")
            for entry in ("e-1", "e-2"):
                await append(wire, entry, "S3CRET")
            await to_thread.run_sync(change, site)
            for method, members in (
                ("session/get", {}),
                ("session/entries", {}),
                ("append", {"entry": SAID | {"id": "e-9"}}),
                ("session/acquire", {"ttl_ms": 1000}),
                ("session/get", {}),
            ):
                said = await outcome(wire, method, session_id=SESSION, **members)
                assert said == REFUSED.get(name, said), method
            for method in ("session/verify", "session/repair"):
                await outcome(wire, method, session_id=SESSION)
            assert await outcome(wire, "session/list") == "ok"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda site: site.change_row(seq=5), "the database has 3 of 6 lines: bring the other"),
        (lambda site: site.remove_line(2), "the database has 2 of 3 lines: bring the other"),
        (lambda site: site.change_row(seq=-5), "the row's seq, -5, does not count the lines"),
        (lambda site: site.put_line(2, b"{}\n{}"), "the row's seq, 2, does not count the lines"),
    ],
)
async def test_a_wrong_number_of_lines_is_told_with_what_to_do(
    site: Site, change: Change, said: str
) -> None:
    async with site.daemon("one") as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for entry in ("e-1", "e-2"):
            await append(wire, entry)
    await to_thread.run_sync(change, site)
    with fail_after(PATIENCE_SECONDS):
        async with site.daemon("two") as daemon, daemon.connect() as wire:
            refusal = await wire.refusal("session/get", session_id=SESSION)
            assert said in refusal.message
            assert not refusal.data["repairable"]


async def test_a_line_that_does_not_parse_is_read_only_until_a_repair(site: Site) -> None:
    async with site.daemon("one") as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        for entry in ("e-1", "e-2", "e-3"):
            await append(wire, entry)
        epoch = await call(wire, "session/get", "session.epoch")
    await to_thread.run_sync(site.put_line, 2, GARBAGE)
    with fail_after(PATIENCE_SECONDS):
        async with site.daemon("two") as daemon, daemon.connect() as wire:
            session = (await call(wire, "session/get"))["session"]
            assert (session["read_only"], session["read_only_reason"]) == (True, "bad_line")
            assert session["epoch"] != epoch
            refusal = await wire.refusal("append", session_id=SESSION, entry=SAID | {"id": "e-9"})
            assert (refusal.data["kind"], refusal.data["repairable"]) == ("session_corrupt", True)
            rows = (await call(wire, "session/entries"))["entries"]
            assert [(row["seq"], row["entry"]["id"]) for row in rows] == [(1, "e-1"), (3, "e-3")]
            plan = await call(wire, "session/repair")
            assert (plan["repaired"], plan["dropped_lines"]) == (False, [3])
            done = await call(wire, "session/repair", dry_run=False)
            assert done["repaired"]
            assert "in the trash" in done["backup"]
            await append(wire, "e-9")
            rows = (await call(wire, "session/entries"))["entries"]
            assert [(row["seq"], row["entry"]["id"]) for row in rows] == [
                (1, "e-1"),
                (2, "e-3"),
                (3, "e-9"),
            ]


class Losing(Wrapped):
    """A connection that loses a session while the session is opened."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self._site = site
        self.loses = False

    def pieces(self, number: int, first: int, last: int, *, ahead: bool = False) -> Iterator[bytes]:
        if self.loses:
            # With the row go its lines.
            self._site.remove_row()
        else:
            yield from self.inner.pieces(number, first, last, ahead=ahead)


async def test_a_row_that_is_removed_during_an_opening_is_no_session(site: Site) -> None:
    async with site.daemon("one") as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append(wire, "e-1")
    with fail_after(PATIENCE_SECONDS):
        connection = Losing(site)
        async with site.daemon("two", connection, NEVER) as daemon, daemon.connect() as wire:
            connection.loses = True
            assert await outcome(wire, "session/get", session_id=SESSION) == "session_not_found"
