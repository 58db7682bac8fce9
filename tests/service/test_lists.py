"""session/list by itself: its order, its progress, and which old drafts are there no more."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from sessiond.service.files.startup_cleanup import settle_drafts
from sessiond.testing.daemon import Refusal, Wire
from tests.kit.calls import create, say
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.service.test_live_catalog import drop_in, text

HOUR = 3600.0


def session(session_id: str, created: str, updated: str, *, title: str, messages: int = 1) -> bytes:
    """Make a session file with times of creation and change."""
    header = {"type": "session_header", "version": 1, "id": session_id, "timestamp": created}
    lines: list[dict[str, Any]] = [{**header, "cwd": "/p", "title": title}]
    for number in range(messages):
        message = {"role": "user", "content": "hi"}
        parent = f"n{number - 1}" if number else None
        entry = {"type": "message", "id": f"n{number}", "parent_id": parent, "timestamp": updated}
        lines.append({**entry, "message": message})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def moment(day: int) -> str:
    return f"2026-01-{day:02}T00:00:00.000Z"


async def order(wire: Wire, **more: Any) -> list[str]:
    page = await wire.call("session/list", **more)
    return [one["id"] for one in page["sessions"]]


async def test_a_list_begins_with_what_changed_last_unless_it_is_asked_for_otherwise(
    real_house: House,
) -> None:
    for session_id, created, updated, title, messages in (
        ("session-a", 1, 4, "banana", 1),
        ("session-b", 3, 5, "Apple", 3),
        ("session-c", 2, 6, "cherry", 2),
        # As late as session-b: then the id decides.
        ("session-d", 4, 5, "", 4),
    ):
        made = session(session_id, moment(created), moment(updated), title=title, messages=messages)
        path = drop_in(real_house, session_id, made)
        os.utime(path, (0, 0))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        by_default = await order(wire)
        assert by_default == ["session-c", "session-d", "session-b", "session-a"]
        assert await order(wire, sort="updated_at", order="desc") == by_default
        assert await order(wire, order="asc") == by_default[::-1]
        assert await order(wire, sort="created_at") == [f"session-{name}" for name in "dbca"]
        assert await order(wire, sort="message_count") == [f"session-{name}" for name in "dbca"]
        # Only titles begin with the least.
        assert await order(wire, sort="title") == [f"session-{name}" for name in "dbac"]
        pages = [(await wire.call("session/list", limit=2))["sessions"]]
        cursor = (await wire.call("session/list", limit=2))["next_cursor"]
        pages.append((await wire.call("session/list", limit=2, cursor=cursor))["sessions"])
        assert [one["id"] for page in pages for one in page] == by_default


async def test_a_list_has_the_sessions_that_fit_every_filter(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for name, cwd, agent, tags in (
            ("session-a", "/p", "coder", ["x", "y"]),
            ("session-b", "/p", "writer", ["x"]),
            ("session-c", "/q", "coder", []),
        ):
            await create(wire, name, cwd=cwd, agent=agent, tags=tags, persist="immediate")
        await wire.call("session/update", session_id="session-b", status="busy", agent="coder")
        await wire.call("session/update", session_id="session-c", status="done")
        for filters, fitting in (
            ({"cwd": "/p"}, "ab"),
            ({"tags": ["x"]}, "ab"),
            ({"tags": ["x", "y"]}, "a"),
            ({"agent": "coder"}, "abc"),
            ({"agent": "writer"}, ""),
            ({"status": "busy"}, "b"),
            ({"status": "done", "agent": "coder"}, "c"),
            ({"cwd": "/q", "status": "busy"}, ""),
        ):
            assert sorted(await order(wire, **filters)) == [f"session-{one}" for one in fitting]


@pytest.mark.parametrize("method", ["session/list", "session/resolve", "catalog/forest"])
async def test_a_list_tells_how_many_sessions_it_has_read_of_how_many(
    real_house: House, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    # Fewer than fit into one transaction are read before a client could be told of them.
    set_limits(monkeypatch, SCAN_BATCH_ROWS=10)
    params = {"ref": "session-07"} if method == "session/resolve" else {}
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/list")
        for number in range(30):
            drop_in(real_house, f"session-{number:02}", text(f"session-{number:02}", "hi"))
        await wire.call(method, _meta={"progress_token": "t"}, **params)
        told = [one["params"] for one in wire.notifications if one["method"] == "$/progress"]
    assert {one["token"] for one in told} == {"t"}
    values = [one["value"] for one in told]
    assert (values[0]["kind"], values[-1]["kind"]) == ("begin", "end")
    assert {value["unit"] for value in values if "unit" in value} == {"sessions"}
    assert values[-1]["done"] == values[-1]["total"] == 30
    counts = [value["done"] for value in values]
    assert counts == sorted(counts)


async def test_a_list_that_reads_nothing_tells_nothing(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="immediate")
        await wire.call("session/list")
        await wire.call("session/list", _meta={"progress_token": "t"})
        assert [one for one in wire.notifications if one["method"] == "$/progress"] == []


def age(path: Path, hours: float, now: float) -> None:
    then = now - hours * HOUR
    os.utime(path, (then, then))


async def test_a_draft_that_nobody_touched_for_a_day_goes_to_the_trash(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for draft in ("draft-old", "draft-new", "draft-kept"):
            await create(wire, draft, persist="on_assistant")
            await say(wire, session_id=draft)
        await create(wire, "session-a", persist="immediate")
    layout, now = real_house.layout, real_house.files.now()
    age(layout.pending / "draft-old.jsonl", 24.5, now)
    age(layout.pending / "draft-new.jsonl", 23.5, now)
    # It was answered, but a daemon ended before it could move the file.
    answer: dict[str, Any] = {"type": "message", "id": "answer", "timestamp": moment(1)}
    answer |= {"parent_id": None, "message": {"role": "assistant", "content": "yes"}}
    with (layout.pending / "draft-kept.jsonl").open("ab") as file:
        file.write(json.dumps(answer).encode() + b"\n")
    age(layout.pending / "draft-kept.jsonl", 100, now)
    for path in layout.sessions.iterdir():
        age(path, 1000, now)
    before = (layout.pending / "draft-old.jsonl").read_bytes()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        # As a daemon does when it starts.
        await to_thread.run_sync(settle_drafts, daemon.store)
        assert set(await order(wire, drafts=True)) == {"draft-new", "draft-kept", "session-a"}
        assert set(await order(wire)) == {"draft-kept", "session-a"}
        with pytest.raises(Refusal) as refused:
            await wire.call("session/get", session_id="draft-old")
        assert refused.value.data["kind"] == "session_not_found"
    (trashed,) = layout.trash.glob("*draft-old*.jsonl")
    assert trashed.read_bytes() == before
    assert [path.name for path in layout.pending.glob("*.jsonl")] == ["draft-new.jsonl"]


async def test_a_root_that_can_be_no_path_has_no_sessions(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await order(wire, root="/p\0") == []
