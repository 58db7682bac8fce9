"""Random outages at two daemons of one database and one key file, while secrets are set and their key rotated.

Law: a secret that was answered is at both daemons, as it was set, whatever rotation goes on; no rotation loses
a key with which something is encrypted.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from anyio import create_task_group

from sessiond.state.keys import KeySettings
from sessiond.testing.wire import Refusal, Wire
from tests.kit.patience import drawn_pause
from tests.service.one_database.site import Site
from tests.service.test_lives_through_outages import PASSING
from tests.service.test_values_through_outages import late_daemons

pytestmark = [pytest.mark.slow, pytest.mark.drawn]

STEPS = 20


class Secret:
    """A secret that one client sets, deletes and reads at either daemon."""

    def __init__(self, namespace: str, key: str, wires: list[Wire], seed: str) -> None:
        self.place: dict[str, Any] = {"namespace": namespace, "key": key}
        self.value: str | None = None
        self.log: list[Any] = []
        self._wires = wires
        self._dice = random.Random(seed)
        self._made = 0

    async def ask(self, method: str, **params: Any) -> Any:
        while True:
            at = self._dice.randrange(len(self._wires))
            try:
                answer = await self._wires[at].call(method, **params)
            except Refusal as refusal:
                self.log.append((at, method, refusal.data, refusal.message))
                if refusal.data["kind"] not in PASSING:
                    raise
                await drawn_pause(self._dice, 0, 0.004)
                continue
            self.log.append((at, method, params, answer))
            if "_meta" not in answer:
                return answer
            await drawn_pause(self._dice, 0, 0.004)

    async def live(self) -> None:
        for _ in range(STEPS):
            step = self._dice.randrange(6)
            if step < 4:
                self._made += 1
                value = f"{self.place['key']} {self._made}"
                await self.ask("secret/set", **self.place, value=value)
                self.value = value
            elif step == 4:
                await self.ask("secret/delete", **self.place)
                self.value = None
            await self.look()

    async def rotate(self, times: int) -> None:
        """Rotate the key at either daemon now and then."""
        for _ in range(times):
            await self.ask("secret/rotate")
            await drawn_pause(self._dice, 0, 0.02)

    async def look(self) -> None:
        answer = await self.ask("secret/get", **self.place)
        assert answer["value"] == self.value, self.log[-8:]


@pytest.mark.parametrize("seed", range(4))
async def test_secrets_outlive_outages_and_rotations(site: Site, seed: int) -> None:
    keys = KeySettings(site.home / "shared.key", is_shared=True)
    async with late_daemons(site, seed, key_settings=lambda: keys) as (connections, clients):
        wires = [[await client() for client in clients] for _ in range(7)]
        secrets = [
            Secret(f"space-{at % 3}", f"key-{at}", wires[at], f"{seed} {at}") for at in range(5)
        ]
        for connection in connections:
            connection.chance = 0.05
        async with create_task_group() as tasks:
            for secret in secrets:
                tasks.start_soon(secret.live)
            for at in (5, 6):
                tasks.start_soon(Secret("", "", wires[at], f"{seed} {at}").rotate, 4)
        for connection in connections:
            connection.chance = 0.0
        for secret in secrets:
            await secret.look()
    # The key file alone opens what is stored.
    async with late_daemons(site, seed, key_settings=lambda: keys) as (_, clients):
        fresh = [await client() for client in clients]
        for secret in secrets:
            for wire in fresh:
                answer = await wire.call("secret/get", **secret.place)
                assert answer["value"] == secret.value
