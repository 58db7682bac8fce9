"""Files whose times no 64 bits with a sign hold: every call that looks at many sessions goes on."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from sessiond.service.files.catalog_records import fingerprint_of
from tests.kit.calls import create, say
from tests.kit.house import House

SIDES = {"year 2300": 10_413_792_000, "year 2446": 15_032_385_535, "year 1902": -2_145_916_800}
CALLS: dict[str, dict[str, Any]] = {
    "session/list": {},
    "session/search": {"query": "said"},
    "catalog/forest": {},
    "session/resolve": {"ref": "other-time"},
    "session/continue_recent": {"cwd": "/p"},
    "retention/run": {"max_age_hours": 1},
    "session/open": {"session_id": "other-time"},
}


@pytest.mark.parametrize("seconds", SIDES.values(), ids=SIDES)
async def test_one_odd_time_spoils_no_call_about_many_sessions(
    real_house: House, seconds: int
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for session_id in ("odd-time", "other-time"):
            await create(wire, session_id=session_id, cwd="/p", persist="immediate")
            await say(wire, "said", session_id=session_id)
    (path,) = real_house.layout.sessions.glob("*_odd-time.jsonl")
    os.utime(path, (seconds, seconds))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for method, params in CALLS.items():
            await wire.call(method, **params)
        shown = (await wire.call("session/list"))["sessions"]
        assert {one["id"] for one in shown} == {"odd-time", "other-time"}


def test_numbers_of_any_size_are_told_apart() -> None:
    def found(inode: int, time: int) -> Any:
        return SimpleNamespace(st_ino=inode, st_size=1, st_mtime_ns=time)

    odd = [found(2**64 - 1, 0), found(2**63, 0), found(5, 2**63), found(5, -(2**62)), found(5, 0)]
    seen = [fingerprint_of(one) for one in odd]
    assert len(set(seen)) == len(odd)
    for one in seen:
        assert all(-(2**63) <= number < 2**63 for number in (one.inode, one.size, one.mtime_ns))
