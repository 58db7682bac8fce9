"""Checks and repairs of sessions of a database: on a disk that fails, and of many lines."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from unittest.mock import Mock

import pytest
from anyio import fail_after, to_thread

from sessiond.journal.spool import Spool
from sessiond.service.database import checking
from sessiond.service.database.database import Head, size_of
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import Wrapped
from tests.service.one_database.site import NEVER, Site

ENTRIES = 40
TEXT = "x" * 40_000
# A piece ends with what was read at a time.
READ_BYTES = 256 << 10


BROKEN = OSError(errno.EIO, "input/output error")
FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a new copy": lambda disk: disk.setattr(Spool, "nameless", Mock(side_effect=BROKEN)),
    "a line of the copy": lambda disk: disk.setattr(Spool, "add_piece", Mock(side_effect=BROKEN)),
    "a read of the copy": lambda disk: disk.setattr(checking, "survey", Mock(side_effect=BROKEN)),
}


async def damaged(site: Site, wire: Wire, text: str = "said") -> None:
    """Make a session with a line that does not parse, and close the session."""
    await create(wire, persist="immediate")
    for number in range(ENTRIES):
        await append(wire, f"e-{number}", text)
    await call(wire, "session/close")
    await to_thread.run_sync(site.put_line, 5, b"no JSON")


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_disk_that_fails_under_a_check_is_told(
    site: Site, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fail_after(PATIENCE_SECONDS):
        async with site.daemon("one") as daemon, daemon.connect() as wire:
            await damaged(site, wire)
            with monkeypatch.context() as disk:
                FAULTS[fault](disk)
                for method, members in (
                    ("session/verify", {}),
                    ("session/repair", {}),
                    ("session/repair", {"dry_run": False}),
                ):
                    refusal = await wire.refusal(method, session_id=SESSION, **members)
                    assert refusal.data["kind"] == "storage_error"
                    assert refusal.message == f"could not check {SESSION}: input/output error"
            assert (await call(wire, "session/repair", dry_run=False))["repaired"]


class Replacing(Wrapped):
    """A connection that notes the sizes of the pieces of a repaired session."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.connect())
        self.sizes: list[int] = []

    def replace(self, at: Head, epoch: str, chunks: Iterable[Sequence[bytes]]) -> Head | None:
        def noted() -> Iterable[Sequence[bytes]]:
            for lines in chunks:
                self.sizes.append(size_of(lines))
                yield lines

        head: Head | None = self.inner.replace(at, epoch, noted())
        return head


async def test_a_repair_goes_to_the_database_by_pieces(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, DATABASE_PIECE_BYTES=READ_BYTES)
    connection = Replacing(site)
    with fail_after(PATIENCE_SECONDS):
        async with site.daemon("one", connection, NEVER) as daemon, daemon.connect() as wire:
            await damaged(site, wire, TEXT)
            before = await call(wire, "session/entries", "entries[].entry", limit=1000)
            done = await call(wire, "session/repair", dry_run=False)
            assert (done["repaired"], done["dropped_lines"]) == (True, [6])
            assert len(connection.sizes) > 4
            assert max(connection.sizes) < 2 * READ_BYTES
            after = await call(wire, "session/entries", "entries[].entry", limit=1000)
            # The entry below the lost line goes on at the one before.
            below = next(one for one in before if one["parent_id"] == "e-4")
            below["parent_id"] = "e-3"
            assert after == before
            assert len(after) == ENTRIES - 1
