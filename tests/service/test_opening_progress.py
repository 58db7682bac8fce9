"""A request that waits for the opening of another agent's file is told how far the opening is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.wire import Wire
from tests.kit.agent_roots import CLAUDE, claude_root
from tests.kit.calls import create, session_info
from tests.kit.house import House
from tests.kit.roots import add_root
from tests.kit.sessions import SESSION


def told_to(wire: Wire) -> list[dict[str, Any]]:
    notices = [one["params"] for one in wire.notifications if one["method"] == "$/progress"]
    assert {one["token"] for one in notices} <= {"t"}
    return [one["value"] for one in notices]


@pytest.mark.parametrize("method", ["session/get", "session/entries", "session/build_context"])
async def test_who_waits_for_an_opening_is_told_of_its_bytes(
    real_house: House, tmp_path: Path, method: str
) -> None:
    root = claude_root(tmp_path)
    size = next(root.glob(f"*/{CLAUDE.format(2)}.jsonl")).stat().st_size
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        await wire.call("session/list")
        asked = {"session_id": CLAUDE.format(2), "_meta": {"progress_token": "t"}}
        await wire.call(method, **asked)
        begin, *_, end = told_to(wire)
        assert begin == {"kind": "begin", "done": 0, "total": size, "unit": "bytes"}
        assert end == {"kind": "end", "done": size, "total": size, "unit": "bytes"}
        # Nobody waits for an open session.
        wire.notifications.clear()
        await wire.call(method, **asked)
        assert told_to(wire) == []


async def test_an_opening_without_a_report_tells_nothing(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/get", session_id=SESSION, _meta={"progress_token": "t"})
        assert told_to(wire) == []
        assert (await session_info(wire))["id"] == SESSION
