"""Answers about a session that the request does not name by its id: what is stored elsewhere is in them, too."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

import pytest

from sessiond.service.listing.looks import ActorLooks
from tests.kit.calls import append, call, create, refused
from tests.service.one_database.connections import Losing
from tests.service.one_database.site import NEVER, Site, beside


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/open", {"entry_id": "e-1"}),
        ("session/continue_recent", {}),
        ("session/continue_recent", {"cwd": "/p"}),
    ],
)
async def test_a_session_is_shown_as_it_is_behind_an_answer_elsewhere(
    site: Site, method: str, params: dict[str, Any]
) -> None:
    connection = Losing(site.connect())
    async with beside(site, connection, NEVER) as (one, three):
        await create(three)
        await append(three, "e-1", role="assistant")
        await call(one, "session/get")
        # A look that comes late would find what is appended behind it.
        await site.watches(one=one)
        seq = (await append(three, "e-2"))["seq"]
        found = await one.call(method, **params)
        assert (found["session"]["seq"], "_meta" in found) == (seq, False)
        # The lists are current; the look at the session is lost.
        connection.before.add("heads")
        away = await one.call(method, **params)
        assert away["_meta"]["stale_since"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/resolve", {"ref": "a title"}),
        ("session/open", {"entry_id": "e-2"}),
        ("catalog/forest", {"session_id": "another-session"}),
    ],
)
async def test_what_lists_that_may_be_old_do_not_show_is_not_refused_for_good(
    site: Site, method: str, params: dict[str, Any]
) -> None:
    connection = Losing(site.connect())
    async with beside(site, connection, NEVER) as (one, _three):
        await create(one, persist="immediate")
        await append(one, "e-1")
        await one.call("session/list")
        connection.before |= {"changes", "heads"}
        refusal = await refused(one, method, "{kind,retryable}", **params)
        assert refusal == ("storage_error", True)
        connection.answer()
        assert await refused(one, method, "{kind,retryable}", **params) == (
            "session_not_found",
            False,
        )


async def test_an_entry_is_found_that_the_index_of_an_open_session_lacks(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with beside(site, Losing(site.connect()), NEVER) as (one, three):
        await create(three, persist="immediate")
        await call(one, "session/get")
        await site.watches(one=one)
        await append(three, "e-1")
        # A session that is opened at this moment may be behind the lists, too.
        monkeypatch.setattr(ActorLooks, "catch_up", AsyncMock(return_value={}))
        found = await one.call("session/open", entry_id="e-1")
        assert found["session"]["seq"] == 1
