"""Reading a file changes no byte of it and leaves no file beside it, for any end of the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.kit.calls import call, refused, session_info
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.service.damage import GOOD, HEADER, ONE, PI_GOOD, PI_HEADER, part

HI = {"role": "user", "content": "hi", "timestamp": 1768473000000}

ENDS: dict[str, bytes] = {
    "half a line": GOOD + b'{"type":"mess',
    "zero bytes": GOOD + bytes(100),
    "half an append": GOOD + part(1) + part(2),
    "half an append and half a line": GOOD + part(1) + b"{",
    "no newline": GOOD[:-1],
    "a header without its newline": HEADER[:-1],
    "half a line in a file of pi": PI_GOOD + b'{"type":"mess',
    "no newline in a file of pi": PI_GOOD[:-1],
    "a header of pi without its newline": PI_HEADER[:-1],
}
READS: list[tuple[str, dict[str, Any]]] = [
    ("session/get", {}),
    ("session/entries", {}),
    ("session/path", {}),
    ("session/tree", {}),
    ("session/turns", {}),
    ("session/build_context", {}),
    ("session/export", {}),
    ("session/stats", {}),
    ("session/queue", {}),
    ("session/verify", {}),
    ("session/repair", {}),
    ("subscribe", {"after": {"seq": 0}}),
    ("session/flush", {}),
    ("session/unsubscribe", {}),
    ("session/close", {}),
]


@pytest.fixture(params=["elsewhere", "in the profile"])
def folder(real_house: House, home: Path, request: pytest.FixtureRequest) -> Path:
    if request.param == "in the profile":
        real_house.layout.make_folders(real_house.files)
        return real_house.layout.sessions
    (home / "project").mkdir(parents=True)
    return home / "project"


@pytest.mark.parametrize("end", ENDS)
async def test_reading_a_file_leaves_its_end_as_it_is(
    real_house: House, folder: Path, end: str
) -> None:
    path = folder / "chat.jsonl"
    path.write_bytes(ENDS[end])
    before = path.stat()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        info = await call(wire, "session/open", "session", path=str(path))
        verified = await wire.call("session/verify", session_id=info["id"])
        for method, params in READS:
            await wire.call(method, session_id=info["id"], **params)
        # Opened again it is the same session, and lists say of it what an opening says.
        again = await session_info(wire, info["id"])
        assert again == info
        await wire.call("session/close", session_id=info["id"])
        listed = (await wire.call("session/list"))["sessions"]
        assert [one["seq"] for one in listed if one["id"] == info["id"]] in ([], [info["seq"]])
    after = path.stat()
    assert path.read_bytes() == ENDS[end]
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert [one.name for one in folder.iterdir()] == ["chat.jsonl"]
    assert info["problems"] == verified["problem_count"]
    if "no newline" in end:
        assert (info["seq"], info["problems"]) == (ENDS[end].count(b"\n"), 0)


@pytest.mark.parametrize("end", ENDS)
async def test_the_first_change_settles_the_end_and_a_reopening_agrees(
    real_house: House, folder: Path, end: str
) -> None:
    path = folder / "chat.jsonl"
    path.write_bytes(ENDS[end])
    # Nobody is about to go on with it.
    os.utime(path, (1.0, 1.0))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        info = await call(wire, "session/open", "session", path=str(path))
        await wire.call("append", session_id=info["id"], message=HI)
        entries = await call(wire, "session/entries", "entries", session_id=info["id"])
        await wire.call("session/close", session_id=info["id"])
        again = await call(wire, "session/entries", "entries", session_id=info["id"])
        assert again == entries
    copies = [one for one in path.parent.iterdir() if ".torn-" in one.name]
    torn = b"".join(one.read_bytes() for one in copies)
    assert len(copies) == (end in {"half a line", "zero bytes"} or "half an append" in end)
    assert ENDS[end].endswith(torn)
    assert path.read_bytes().startswith(ENDS[end].removesuffix(torn))


async def test_half_a_line_elsewhere_is_closed_by_a_change_only(
    real_house: House, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, HALF_LINE_SECONDS=0.05)
    path = home / "chat.jsonl"
    home.mkdir(parents=True, exist_ok=True)
    path.write_bytes(PI_GOOD)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session_id = await call(wire, "session/open", "session.id", path=str(path))
        await wire.call("subscribe", session_id=session_id)
        with path.open("ab") as file:
            file.write(b'{"half')
        actor = daemon.service.find(session_id)
        assert actor is not None
        await actor.writer.look()
        assert actor.opened.journal.half_bytes == len(b'{"half')
        # A change closes it, as the line of another program that it is.
        await wire.call("append", session_id=session_id, message=HI)
    assert path.read_bytes().startswith(PI_GOOD + b'{"half \n{')


async def test_a_line_that_another_program_goes_on_with_is_another_log(
    real_house: House, home: Path
) -> None:
    path = home / "chat.jsonl"
    home.mkdir(parents=True, exist_ok=True)
    path.write_bytes((HEADER + ONE)[:-1])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        opened = await call(wire, "session/open", "session", path=str(path))
        assert opened["seq"] == 1
        with path.open("ab") as file:
            file.write(b" and more\n")
        late = {"session_id": opened["id"], "message": HI}
        assert await refused(wire, "append", **late) == "session_corrupt"
        info = await session_info(wire, opened["id"])
        assert (info["epoch"] == opened["epoch"], info["read_only"]) == (False, True)
