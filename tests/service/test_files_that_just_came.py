"""Sessions in roots that nobody has listed: every method that takes an id or a path finds them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessiond.model.scopes import Scope
from sessiond.testing.daemon import Daemon, Refusal
from sessiond.testing.wire import Wire
from tests.kit.agents import claude_line, write_lines
from tests.kit.calls import create, refused
from tests.kit.house import House
from tests.kit.limits import set_limits
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
# None stands for the id that a new file has.
CREATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("session/create", {"cwd": "/", "session_id": None}),
    ("session/create", {"cwd": "/", "session_id": None, "persist": "never"}),
    ("session/fork", {"session_id": "the-source", "new_session_id": None}),
    ("session/fork", {"session_id": "the-source", "new_session_id": None, "dry_run": True}),
)


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

    async def counted(*begun: int) -> None:
        looks.append(None)
        await look_around(*begun)

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


async def test_an_id_that_a_new_file_has_is_given_to_no_other_session(
    real_house: House, tmp_path: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        folder = await watched_root(wire, tmp_path.resolve())
        await create(wire, "the-source")
        for number, (method, params) in enumerate(CREATIONS, 1):
            session_id = begin(folder, number)
            params = {key: value or session_id for key, value in params.items()}
            assert await refused(wire, method, "{kind,session_id}", **params) == (
                "session_exists",
                session_id,
            )
            opened = await wire.call("session/get", session_id=session_id)
            assert opened["session"]["path"] == str(folder / f"{session_id}.jsonl")


async def test_a_creation_that_may_open_opens_the_session_of_a_new_file(
    real_house: House, tmp_path: Path
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        folder = await watched_root(wire, tmp_path.resolve())
        wanted: dict[str, dict[str, Any]] = {
            "session/create": {"cwd": "/", "if_exists": "open"},
            "session/open": {"create": True},
        }
        for number, (method, params) in enumerate(wanted.items(), 1):
            session_id = begin(folder, number)
            answer = await wire.call(method, session_id=session_id, **params)
            assert not answer["created"]
            assert answer["session"]["path"] == str(folder / f"{session_id}.jsonl")


async def test_the_session_of_a_scope_is_the_one_that_a_new_file_has(
    real_house: House, tmp_path: Path
) -> None:
    key = Scope("assistant", agent="guide")
    home = tmp_path.resolve() / "pi"
    home.mkdir()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, home, kind="pi")
        await wire.call("session/list")
        path = home / f"2026-01-15T10-00-00-000Z_{key.session_id}.jsonl"
        header = {"type": "session", "version": 3, "id": key.session_id, "cwd": "/p"}
        write_lines(path, [header | {"timestamp": "2026-01-15T10:00:00.000Z"}])
        answer = await wire.call("scope/resolve", scope="assistant", agent="guide")
        assert (answer["created"], answer["session"]["path"]) == (False, str(path))


async def test_a_creation_costs_a_look_only_where_a_root_has_changed(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        looks = count_looks(daemon, monkeypatch)
        await create(wire, "without-a-root")
        folder = await watched_root(wire, tmp_path.resolve())
        for one in (folder, folder.parent):
            # As old as a folder is to which nothing has come for long.
            os.utime(one, (1, 1))
        await wire.call("session/list")
        looks.clear()
        await create(wire, "in-no-root")
        assert looks == []
        begin(folder, 1)
        # No file has the id that the daemon draws.
        await wire.call("session/create", cwd="/")
        assert looks == []
        await create(wire, "beside-a-new-file")
        assert len(looks) == 1


async def test_an_entry_of_a_new_file_names_its_session(real_house: House, tmp_path: Path) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        folder = await watched_root(wire, tmp_path.resolve())
        line = claude_line(7, None, "hello") | {"sessionId": named(7)}
        write_lines(folder / f"{named(7)}.jsonl", [line])
        found = await wire.call("session/open", entry_id="u-7")
        assert found["session"]["id"] == named(7)
        told = await refused(wire, "session/open", "kind", entry_id="u-8")
        assert told == "session_not_found"


async def test_a_creation_waits_for_no_look_without_end(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, MISS_SECONDS=0.01)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        folder = await watched_root(wire, tmp_path.resolve())
        begin(folder, 1)
        # A look at very many files takes minutes.
        async with daemon.service.live_catalog._scanning:
            created = await wire.call("session/create", cwd="/p", session_id="session-of-mine")
            assert created["created"]
