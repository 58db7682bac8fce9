"""session/list by itself: its order, its progress, and which old drafts are there no more."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from anyio import to_thread

from sessiond.service.files.startup_cleanup import settle_drafts
from tests.kit.calls import call, create, refused, say
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.sessions import native_header, stored_message
from tests.service.test_live_catalog import drop_in, text

HOUR = 3600.0
DAY = "2026-01-{:02}T00:00:00.000Z"
LIST = ("session/list", "sessions[].id")


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
        header = native_header(session_id) | {"timestamp": DAY.format(created), "title": title}
        lines = [header]
        for number in range(messages):
            parent = f"n{number - 1}" if number else None
            lines.append(stored_message(f"n{number}", parent, timestamp=DAY.format(updated)))
        made = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        path = drop_in(real_house, session_id, made)
        os.utime(path, (0, 0))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        by_default = await call(wire, *LIST)
        assert by_default == ["session-c", "session-d", "session-b", "session-a"]
        assert await call(wire, *LIST, sort="updated_at", order="desc") == by_default
        assert await call(wire, *LIST, order="asc") == by_default[::-1]
        assert await call(wire, *LIST, sort="created_at") == [f"session-{name}" for name in "dbca"]
        assert await call(wire, *LIST, sort="message_count") == [
            f"session-{name}" for name in "dbca"
        ]
        # Only titles begin with the least.
        assert await call(wire, *LIST, sort="title") == [f"session-{name}" for name in "dbac"]
        first = await call(wire, *LIST, limit=2)
        cursor = await call(wire, "session/list", "next_cursor", limit=2)
        assert first + await call(wire, *LIST, limit=2, cursor=cursor) == by_default


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
            assert sorted(await call(wire, *LIST, **filters)) == [
                f"session-{one}" for one in fitting
            ]


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


async def test_a_draft_that_nobody_touched_for_a_day_goes_to_the_trash(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for draft in ("draft-old", "draft-new", "draft-kept"):
            await create(wire, draft, persist="on_assistant")
            await say(wire, session_id=draft)
        await create(wire, "session-a", persist="immediate")
    layout, now = real_house.layout, real_house.files.now()
    # It was answered, but a daemon ended before it could move the file.
    answer = stored_message("answer", None, "assistant", "yes", timestamp=DAY.format(1))
    with (layout.pending / "draft-kept.jsonl").open("ab") as file:
        file.write(json.dumps(answer).encode() + b"\n")
    ages: dict[Path, float] = dict.fromkeys(layout.sessions.iterdir(), 1000)
    for draft, hours in (("draft-old", 24.5), ("draft-new", 23.5), ("draft-kept", 100)):
        ages[layout.pending / f"{draft}.jsonl"] = hours
    for path, hours in ages.items():
        os.utime(path, (now - hours * HOUR, now - hours * HOUR))
    before = (layout.pending / "draft-old.jsonl").read_bytes()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        # As a daemon does when it starts.
        await to_thread.run_sync(settle_drafts, daemon.store)
        assert set(await call(wire, *LIST, drafts=True)) == {"draft-new", "draft-kept", "session-a"}
        assert set(await call(wire, *LIST)) == {"draft-kept", "session-a"}
        assert await refused(wire, "session/get", session_id="draft-old") == "session_not_found"
    (trashed,) = layout.trash.glob("*draft-old*.jsonl")
    assert trashed.read_bytes() == before
    assert [path.name for path in layout.pending.glob("*.jsonl")] == ["draft-new.jsonl"]


async def test_a_root_that_can_be_no_path_has_no_sessions(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, *LIST, root="/p\0") == []
