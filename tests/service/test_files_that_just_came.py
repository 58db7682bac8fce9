"""Sessions in roots that nobody has listed: every method that takes an id or a path finds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Daemon, Refusal
from sessiond.testing.wire import Wire
from tests.kit.agents import claude_line
from tests.kit.calls import refused
from tests.kit.house import House
from tests.kit.roots import add_root

METHODS: dict[str, dict[str, Any]] = {
    "session/get": {},
    "session/open": {},
    "session/build_context": {},
    "session/entries": {},
    "session/path": {},
    "subscribe": {},
    "session/fork": {},
    "session/export": {"path": "copy.jsonl"},
}


def named(number: int) -> str:
    return f"5e55a1d0-0000-4000-8000-{number:012}"


def begin(folder: Path, number: int) -> str:
    """Write a session of Claude Code; return its id."""
    session_id = named(number)
    line = claude_line(1, None, "hello") | {"sessionId": session_id}
    (folder / f"{session_id}.jsonl").write_bytes(json.dumps(line).encode() + b"\n")
    return session_id


async def watched_root(wire: Wire, home: Path) -> Path:
    """Return a folder of a root that the daemon has looked at, and that nobody lists any more."""
    folder = home / "claude" / "projects" / "-home-ann-shop"
    folder.mkdir(parents=True)
    begin(folder, 0)
    await add_root(wire, folder.parent)
    assert len((await wire.call("session/list"))["sessions"]) == 1
    return folder


async def test_each_method_finds_a_session_whose_file_has_just_appeared(
    real_house: House, tmp_path: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        folder = await watched_root(wire, tmp_path.resolve())
        for number, (method, params) in enumerate(METHODS.items(), 1):
            session_id = begin(folder, number)
            if "path" in params:
                params = {"path": str(tmp_path / "copy.jsonl")}
            assert await wire.call(method, session_id=session_id, **params)


def count_looks(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list that grows with each look at the roots."""
    lists = daemon.service.live_catalog
    looks: list[None] = []
    look_around = lists._look_around

    async def counted() -> None:
        looks.append(None)
        await look_around()

    monkeypatch.setattr(lists, "_look_around", counted)
    return looks


async def test_any_number_of_misses_shares_a_look(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await watched_root(wire, tmp_path.resolve())
        looks = count_looks(daemon, monkeypatch)

        ids = [named(1000 + number) for number in range(40)]
        asked = [await wire.request("session/get", session_id=session_id) for session_id in ids]
        for number in asked:
            with pytest.raises(Refusal) as refusal:
                await wire.answer(number)
            assert refusal.value.data["kind"] == "session_not_found"
        # Those that came while the first look ran share the next one.
        assert 1 <= len(looks) <= 2


async def test_without_a_root_a_miss_costs_no_look(
    real_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        looks = count_looks(daemon, monkeypatch)
        assert (
            await refused(wire, "session/get", "kind", session_id=named(1)) == "session_not_found"
        )
        assert looks == []


async def test_a_path_that_its_program_has_not_begun_is_not_found_yet(
    real_house: House, tmp_path: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        folder = await watched_root(wire, tmp_path.resolve())
        path = folder / f"{named(1)}.jsonl"
        early = b'{"type":"queue-operation","operation":"enqueue","sessionId":"x"}\n'
        for content in (None, b"", early, early + b'{"type":"user","uu'):
            if content is not None:
                path.write_bytes(content)
            told = await refused(wire, "session/open", "{kind,retryable,path}", path=str(path))
            assert told == ("session_not_found", True, str(path))
        begin(folder, 1)
        assert (await wire.call("session/open", path=str(path)))["session"]["id"] == named(1)
        # A file that no program of a root writes is what it is.
        other = tmp_path / "other.jsonl"
        assert await refused(wire, "session/open", "kind", path=str(other)) == "storage_error"
        other.write_bytes(b"")
        assert await refused(wire, "session/open", "kind", path=str(other)) == "session_corrupt"
