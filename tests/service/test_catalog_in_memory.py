"""A daemon whose catalog's file cannot be used: it keeps its catalog in memory, and no word is left in the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio import to_thread

from sessiond.testing.daemon import running_daemon, standing_environment
from tests.kit.calls import append, call, create, refused
from tests.kit.catalogs import (
    become_circle,
    become_folder,
    become_immutable,
    become_pipe,
    become_read_only,
)
from tests.kit.house import House
from tests.kit.sessions import SESSION
from tests.service.one_database.site import NEVER, Site

HI = {"role": "user", "content": "hello"}


@pytest.mark.parametrize("become", [become_immutable, become_folder, become_circle, become_pipe])
async def test_a_daemon_starts_whatever_stands_in_the_place_of_its_catalog(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    become: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    path = home / "profiles" / "default" / "catalog.sqlite"
    async with running_daemon(home) as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await wire.call("append", session_id=SESSION, message=HI)
    become(path, monkeypatch)
    told: list[str] = []
    environment = msgspec.structs.replace(standing_environment(), report_trouble=told.append)
    async with running_daemon(home, environment=environment) as daemon, daemon.connect() as wire:
        for seq in (2, 3):
            assert (await wire.call("append", session_id=SESSION, message=HI))["seq"] == seq
            listed: Any = await wire.call("session/list")
            assert [info["id"] for info in listed["sessions"]] == [SESSION]
        assert (await wire.call("session/delete", session_id=SESSION)) == {}
        if become is become_immutable:
            assert await refused(wire, "session/purge", "{kind,errno}") == (
                "storage_error",
                "EPERM",
            )
        else:
            assert (await wire.call("session/purge", session_id=SESSION)) == {}
    assert len(told) == 1
    assert "catalog is kept in memory" in told[0]
    assert os.path.lexists(path)


WORD = "unforgotten"
PI = '{"type":"session","version":3,"id":"session-p","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/unforgotten"}\n'


def has_words(home: Path) -> bool:
    """Return whether a file below a folder has a word of the session."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return any(WORD.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize("behind_a_list", [True, False])
async def test_a_purge_is_refused_while_the_catalog_cannot_be_written(
    real_house: House, monkeypatch: pytest.MonkeyPatch, behind_a_list: bool
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate", title=WORD)
        await append(wire, "e-1", WORD)
        await wire.call("session/search", query=WORD)
        await call(wire, "session/delete")
        if behind_a_list:
            await wire.call("session/list")
        with monkeypatch.context() as patch:
            await to_thread.run_sync(become_read_only, daemon.store.catalog.file, patch)
            for _ in range(2):
                assert await refused(wire, "session/purge") == "storage_error"
            assert has_words(real_house.layout.trash)
        assert await call(wire, "session/purge") == {}
    assert not has_words(real_house.home)


async def test_a_session_is_forgotten_only_when_the_catalog_can_be_written(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "theirs.jsonl"
    foreign.write_text(PI)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        opened = (await wire.call("session/open", path=str(foreign)))["session"]["id"]
        await wire.call("session/list")
        with monkeypatch.context() as patch:
            await to_thread.run_sync(become_read_only, daemon.store.catalog.file, patch)
            for _ in range(2):
                assert await refused(wire, "session/forget", session_id=opened) == "storage_error"
        assert await wire.call("session/forget", session_id=opened) == {}
        assert not has_words(real_house.home)


@pytest.mark.parametrize("read_only", ["one", "three"])
async def test_words_of_a_row_go_from_the_catalogs_of_all_daemons(
    site: Site, monkeypatch: pytest.MonkeyPatch, read_only: str
) -> None:
    async with (
        site.daemon("one", poll_seconds=NEVER) as first,
        site.daemon("three", poll_seconds=NEVER) as third,
        first.connect() as one,
        third.connect() as three,
    ):
        await create(one, persist="immediate", title=WORD)
        for wire in (one, three):
            assert (await wire.call("session/list"))["sessions"]
        await call(one, "session/delete")
        for wire in (one, three):
            await wire.call("session/list")
        with monkeypatch.context() as patch:
            catalog = (first if read_only == "one" else third).service.store.catalog
            await to_thread.run_sync(become_read_only, catalog.file, patch)
            if read_only == "one":
                assert await refused(one, "session/purge") == "storage_error"
                assert (await three.call("session/trash"))["sessions"]
            else:
                assert await call(one, "session/purge") == {}
                await three.call("session/list")
                assert has_words(site.home / "three")
        if read_only == "one":
            assert await call(one, "session/purge") == {}
        # A scan erases what was purged elsewhere, and a change asks for one.
        await create(one, "session-b", persist="immediate")
        await three.call("session/list")
        assert not has_words(site.home)
