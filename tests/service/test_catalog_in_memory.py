"""A daemon whose catalog cannot be opened: it starts, and keeps its catalog in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.testing.daemon import running_daemon, standing_environment
from tests.kit.calls import create
from tests.kit.catalogs import become_circle, become_folder, become_immutable, become_pipe
from tests.kit.sessions import SESSION

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
        assert (await wire.call("session/purge", session_id=SESSION)) == {}
    assert len(told) == 1
    assert "catalog is kept in memory" in told[0]
    assert os.path.lexists(path)
