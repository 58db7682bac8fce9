"""The sign of lists that may be old: the time of the last look whose findings they show."""

from __future__ import annotations

from itertools import count

import pytest
from anyio import to_thread

from sessiond.errors import StorageError
from sessiond.service.database.scanning.census import Census
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
