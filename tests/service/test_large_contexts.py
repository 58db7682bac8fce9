"""Contexts, plans and turns that are larger than an answer: read by pages, planned without images, shown without contents."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import append, append_message, call, create, refused
from tests.kit.house import House
from tests.kit.limits import set_limits

MiB = 1024 * 1024
PICTURE = "iVBORw0KGgo" + "QUJD" * 10_000
SPELLINGS = {
    "plain": PICTURE,
    "wrapped": "\r\n".join(PICTURE[at : at + 76] for at in range(0, len(PICTURE), 76)) + "==\n",
}
VIEWS: list[dict[str, Any]] = [
    {"shape": shape, "repair": repair, **more}
    for shape in ("stored", "openai", "anthropic")
    for repair in (False, True)
    for more in ({}, {"include": ["system"]})
]


async def look_at_pages(wire: Wire, count: int, picture: str = PICTURE) -> None:
    """Append the talk of a model that reads so many pages, a screenshot each."""
    await append(wire, "u", "look at the pages")
    for n in range(count):
        use = {"type": "toolCall", "id": f"c{n}", "name": "Read", "arguments": {"n": n}}
        await append_message(wire, f"a{n}", {"role": "assistant", "content": [use]})
        image = {"type": "image", "mimeType": "image/png", "data": picture}
        seen = {"role": "toolResult", "toolCallId": f"c{n}", "content": [image]}
        await append_message(wire, f"r{n}", seen)
    await append(wire, "end", "all seen", role="assistant")


async def pages(wire: Wire, **asked: Any) -> list[Any]:
    """Return all pages of a context; the session goes on meanwhile."""
    found: list[Any] = []
    cursor = None
    while not found or cursor is not None:
        found.append(await call(wire, "build_context", cursor=cursor, **asked))
        assert len(found) < 50, "the pages do not end"
        cursor = found[-1]["next_cursor"]
        await append(wire, f"later{len(found)}{len(str(asked))}")
    return found


@pytest.mark.parametrize("view", VIEWS)
async def test_the_pages_of_a_context_are_the_context(
    house: House, view: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, system_prompt="be brief")
        await look_at_pages(wire, 6)
        whole = await call(wire, "build_context", **view)
        held = {"leaf_id": "u", "count": len(await messages_at(wire, "u", view))}
        set_limits(monkeypatch, RESULT_BYTES_MAX=200_000)
        size = (await refused(wire, "build_context", "", **view))["size"]
        assert size > sum(len(PICTURE) for _ in range(6))
        first = await pages(wire, limit=10, **view, entry_id="end")
        assert len(first) > 1
        behind = await pages(wire, limit=10, known=held, **view, entry_id="end")
        assert (behind[0]["unchanged"], behind[-1]["leaf_id"]) == (held["count"], "end")
        one_each = await pages(wire, limit=1, **view, entry_id="end")
        assert [len(page["messages"]) for page in one_each] == [1] * len(whole["messages"])
        for found in (first, one_each):
            assert found[0]["unchanged"] == 0
            for name in ("messages", "sources"):
                assert [one for page in found for one in page[name]] == whole[name]
                rest = [one for page in behind for one in page[name]]
                assert rest == whole[name][held["count"] :]
        for page, after in pairwise(first):
            assert after["unchanged"] == page["unchanged"] + len(page["messages"])
        for name in (
            "leaf_id",
            "etag",
            "tokens",
            "model",
            *(["system"] if "include" in view else []),
        ):
            assert {str(page[name]) for page in (*first, *behind, *one_each)} == {str(whole[name])}


async def messages_at(wire: Wire, entry_id: str, view: dict[str, Any]) -> Any:
    return await call(wire, "build_context", "messages", entry_id=entry_id, **view)


async def test_a_context_that_is_no_answer_says_that_it_has_pages(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, RESULT_BYTES_MAX=200_000)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await look_at_pages(wire, 6)
        told = await refused(wire, "build_context", "")
        assert (told["kind"], told["limit"], told["pages"]) == ("too_large", 200_000, True)
        await append(wire, "giant", "x" * 300_000)
        with pytest.raises(Refusal) as refusal:
            await pages(wire, limit=9)
        assert refusal.value.data["kind"] == "too_large"
        assert "pages" not in refusal.value.data


async def test_a_cursor_fits_its_own_context_only(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, system_prompt="be brief")
        await look_at_pages(wire, 2, "iVBORw0KGgo=")
        asked = {"shape": "openai", "include": ["system"], "limit": 2}
        cursor = await call(wire, "build_context", "next_cursor", **asked)
        assert await call(wire, "build_context", "unchanged", **asked, cursor=cursor) == 2
        for other in ({"shape": "stored"}, {"repair": True}, {"include": None}):
            told = await refused(wire, "build_context", "path", **(asked | other), cursor=cursor)
            assert told == "cursor"
        await call(wire, "session/update", system_prompt="be long")
        assert await refused(wire, "build_context", "path", **asked, cursor=cursor) == "cursor"
        for bad in ("", "1", "1:2:3:x", cursor + "0", "9" + cursor):
            assert await refused(wire, "build_context", "path", **asked, cursor=bad) == "cursor"
        assert await refused(wire, "build_context", "path", limit=0) == "limit"


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_context_full_of_images_can_be_planned_and_compacted(
    house: House, spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, PLAN_BYTES_MAX=100_000)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await look_at_pages(wire, 6, SPELLINGS[spelling])
        plan = await call(wire, "session/plan_compaction", "plan", keep_recent_tokens=1)
        assert "QUJD" not in plan["prompt"]
        assert [*plan["summarize"], *plan["turn_prefix"]][:3] == ["u", "a0", "r0"]
        fork = await call(wire, "session/fork", "session", entries="context", ids="keep")
        told = await call(wire, "build_context", session_id=fork["id"])
        assert told["messages"] == await call(wire, "build_context", "messages")
        left = await call(wire, "session/plan_branch_summary", entry_id="u")
        assert "QUJD" not in str(left)
        done = await call(wire, "compact", plan_id=plan["plan_id"], summary="all pages were seen")
        assert (await call(wire, "build_context", "sources"))[0] == done["entry"]["id"]


async def test_a_context_of_too_many_words_is_still_no_plan(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, PLAN_BYTES_MAX=100_000)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for n in range(3):
            await append(wire, f"u{n}", "words of a user " * 3000)
        told = await refused(wire, "session/plan_compaction", "")
        assert (told["kind"], told["limit"]) == ("too_large", 100_000)


async def test_a_turn_that_is_no_answer_is_shown_without_its_largest_contents(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        await look_at_pages(wire, 6)
        (whole,) = await call(wire, "session/turns", "turns")
        monkeypatch.setattr("sessiond.methods.session.turns.RESULT_BYTES_MAX", 100_000)
        (turn,) = await call(wire, "session/turns", "turns")
        assert turn["request"] == whole["request"]
        for block, full in zip(turn["response"], whole["response"], strict=True):
            if full["type"] == "image":
                assert block["content"] == ""
                assert block["meta"]["mime_type"] == "image/png"
                assert block["meta"]["left_out"] > len(PICTURE)
            else:
                assert block == full
