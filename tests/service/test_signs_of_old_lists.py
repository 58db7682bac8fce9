"""The sign of lists that may be old: the time of the last look whose findings they show."""

from __future__ import annotations

from itertools import count

import pytest
from anyio import to_thread
from msgspec import convert

from sessiond.catalog.rows import Facts, Fingerprint, Mark, Stored
from sessiond.errors import StorageError
from sessiond.service.database.database import Head
from sessiond.service.database.scanning.census import Census
from sessiond.service.database.scanning.rows import IN_DATABASE
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import Severed
from tests.service.one_database.site import Site


async def test_the_sign_has_the_time_of_the_last_look_that_lists_show(site: Site) -> None:
    connection, times = Severed(site.connect()), map(str, count(1))
    census = Census(connection, times.__next__)
    assert census.shown_at == ""
    first = await to_thread.run_sync(census.later)
    second = await to_thread.run_sync(census.later)
    census.take(second)
    census.are_current(first)
    assert census.shown_at == "2"
    connection.is_there = False
    with pytest.raises(StorageError):
        await to_thread.run_sync(census.later)
    assert (census.shown_at, census.unanswered) == ("2", 1)


async def test_a_row_of_an_earlier_session_is_old_although_it_has_more_lines(site: Site) -> None:
    connection = site.connect()
    census = Census(connection, lambda: "now")

    def made(epoch: str, *lines: bytes) -> Head:
        head = connection.create(SESSION, epoch, [lines], "placed")
        assert head is not None
        return head

    def stored(head: Head) -> Stored:
        mark = Mark(head.epoch, head.seq, f"line {head.digest.hex()}")
        facts = convert(
            dict.fromkeys(Facts.__struct_fields__, "")
            | {"tags": [], "message_count": 0}
            | dict.fromkeys(("archived", "draft", "subagent", "has_assistant"), False),
            Facts,
        )
        return Stored(SESSION, f"{IN_DATABASE}/{SESSION}", mark, Fingerprint(0, 0, 0), facts, b"")

    before = await to_thread.run_sync(made, "epoch-1", b"header", b"e-1", b"e-2")
    assert await to_thread.run_sync(connection.delete, before)
    after = await to_thread.run_sync(made, "epoch-2", b"header")
    census.take(await to_thread.run_sync(census.all))
    assert not census.shows_old_rows()
    # An opening that had read the earlier session stores that session behind the scan.
    census.meet([stored(before)], [])
    assert census.shows_old_rows()
    census.meet([stored(after)], [])
    assert not census.shows_old_rows()
