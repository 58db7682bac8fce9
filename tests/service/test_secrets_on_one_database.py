"""Secrets of daemons that keep their sessions in one database and use one key file."""

from __future__ import annotations

from typing import Any

import pytest
from anyio import create_task_group, fail_after

from sessiond.state.keys import KeySettings
from tests.kit.calls import call
from tests.kit.patience import PATIENCE_SECONDS, happened
from tests.service.one_database.connections import Held
from tests.service.one_database.site import Site

PLACE: dict[str, Any] = {"namespace": "keys", "key": "a"}


@pytest.mark.parametrize("method", ["document_tokens", "put_document"])
async def test_of_two_rotations_at_once_neither_loses_the_key_of_the_other(
    site: Site, method: str
) -> None:
    keys = KeySettings(site.home / "shared.key", is_shared=True)
    gate = Held(site.connect())
    async with (
        site.daemon("one", gate, key_settings=lambda: keys) as first,
        site.daemon("three", key_settings=lambda: keys) as second,
        first.connect() as one,
        second.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            await one.call("secret/set", **PLACE, value="first")
            rotated: list[Any] = []

            async def rotate() -> None:
                rotated.append(await one.call("secret/rotate"))

            gate.holds = method
            async with create_task_group() as tasks:
                tasks.start_soon(rotate)
                await happened(gate.has_begun)
                # The other daemon makes a key while the first one goes on with the keys that it has read.
                await three.call("secret/rotate")
                gate.may_go.set()
            assert rotated[0]["secrets"] == 1
            assert await call(one, "secret/get", "value", **PLACE) == "first"
            assert await call(three, "secret/get", "value", **PLACE) == "first"
    # The key file alone opens what is stored.
    async with site.daemon("fresh", key_settings=lambda: keys) as daemon, daemon.connect() as wire:
        assert await call(wire, "secret/get", "value", **PLACE) == "first"
