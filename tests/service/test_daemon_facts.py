"""Facts that a daemon tells of itself: the handshake, its folders, and how busy it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond import __version__
from sessiond.build import BUILD
from tests.kit.calls import create
from tests.kit.house import House
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")


async def test_a_handshake_agrees_on_a_version_and_names_what_is_there(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        hello = await wire.call("initialize", protocol_versions=["9.0", "1.0"])
        assert hello["protocol_version"] == "1.0"
        assert hello["server_info"] == {"name": "sessiond", "version": __version__, "build": BUILD}
        able = hello["capabilities"]
        assert {"session", "catalog", "server"} <= {*able["methods"]}
        assert able["leases"] is able["subscriptions"] is able["signals"] is True
        await wire.send({"method": "initialized", "params": {}})
        refused = await wire.refusal("initialize", protocol_versions=["9.0"])
        assert refused.data["kind"] == "version_unsupported"


async def test_the_folder_of_the_sessions_is_told(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await wire.call("server/info")
        path = Path((await create(wire, persist="immediate"))["session"]["path"])
        assert path.parent == Path(info["data_folder"]) / "sessions"


async def test_open_sessions_clients_and_limits_are_counted(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        await create(other, "session-m", persist="never")
        stats = await wire.call("server/stats")
        assert (stats["sessions_open"], stats["sessions_in_memory"], stats["clients"]) == (2, 1, 2)
        assert stats["sessions"].keys() == {SESSION, "session-m"}
        limits = (await wire.call("server/info"))["limits"]
        assert min(limits[name] for name in ("max_open_sessions", "max_connections")) > 2
