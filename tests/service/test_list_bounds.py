"""A list that is asked for too much says so, and the catalog is none the worse for it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from sessiond.limits import LIST_TAGS_MAX
from tests.kit.calls import call, create, refused
from tests.kit.house import House
from tests.kit.limits import set_limits

LIST = "session/list"


async def test_more_tags_than_a_list_takes_are_refused(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        tags = [f"tag-{n}" for n in range(LIST_TAGS_MAX)]
        await create(wire, "session-a", tags=tags)
        found = await call(wire, LIST, "sessions[].id", tags=tags, drafts=True)
        assert found == ["session-a"]
        refusal = await refused(wire, LIST, "{kind,path}", tags=[*tags, "another"])
        assert refusal == ("invalid_params", "tags")
        assert not (await wire.call("server/stats"))["catalog"]["in_memory"]


@pytest.mark.parametrize("key", [2**63, -1, 10**400, "a title", None, 1.5])
async def test_a_made_up_cursor_is_none(house: House, key: Any) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for name in ("a", "b"):
            await create(wire, f"session-{name}", persist="immediate")
        params = {"sort": "message_count", "limit": 1}
        cursor = (await wire.call(LIST, **params))["next_cursor"]
        stamp, _, session_id = json.loads(base64.urlsafe_b64decode(cursor + "=="))
        made_up = base64.urlsafe_b64encode(json.dumps([stamp, key, session_id]).encode())
        asked = {**params, "cursor": made_up.decode().rstrip("=")}
        assert await refused(wire, LIST, "{kind,path}", **asked) == ("invalid_params", "cursor")


async def test_a_page_of_large_rows_ends_earlier(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, LIST_BYTES_MAX=5000)
    async with house.daemon() as daemon, daemon.connect() as wire:
        for name in "abcdef":
            await create(wire, f"session-{name}", persist="immediate", title=name * 1500)
        await create(wire, "session-z", title="z" * 9000)
        found: list[str] = []
        pages = 0
        cursor = None
        while pages == 0 or cursor is not None:
            page = await wire.call(LIST, sort="title", drafts=True, cursor=cursor)
            found += [session["id"] for session in page["sessions"]]
            cursor, pages = page["next_cursor"], pages + 1
        assert found == [f"session-{name}" for name in "abcdefz"]
        assert pages == 4


async def test_a_drawing_that_no_answer_holds_is_refused(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for name in "abcde":
            await create(wire, f"session-{name}", persist="immediate")
        assert len((await wire.call("catalog/forest"))["nodes"]) == 5
        set_limits(monkeypatch, RESULT_BYTES_MAX=100)
        refusal = await wire.refusal("catalog/forest", form="text")
        assert refusal.data["kind"] == "too_large"
        # The drawing ends early, before there is an answer that is too large.
        assert "form nodes" in refusal.message


async def test_nodes_whose_places_no_answer_holds_are_refused(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="immediate")
        plain = (await wire.call("catalog/forest"))["nodes"]
        set_limits(monkeypatch, RESULT_BYTES_MAX=len(json.dumps(plain)))
        assert (await wire.call("catalog/forest"))["nodes"] == plain
        refusal = await wire.refusal("catalog/forest", layout=True)
        assert refusal.data["kind"] == "too_large"
        assert "without layout" in refusal.message
