"""Compare-and-set of many clients: a counter that loses no increment and makes none up."""

from __future__ import annotations

import anyio
import pytest

from sessiond.testing.daemon import Daemon, Refusal
from tests.kit.house import House

pytestmark = pytest.mark.both_loops

CLIENTS, EACH = 6, 6


async def count_up(daemon: Daemon, method: str, done: list[int], refusals: set[str]) -> None:
    """Add 1 to the counter again and again; note the revision of each acknowledged addition.

    Note also with what kinds of errors an addition was refused.
    """
    async with daemon.connect() as wire:
        for _ in range(EACH):
            while True:
                found = await wire.call(f"{method}/get", namespace="n", key="counter")
                value = str(int(found["value"] or 0) + 1)
                try:
                    answer = await wire.call(
                        f"{method}/set",
                        namespace="n",
                        key="counter",
                        value=value,
                        expected_revision=found["revision"],
                    )
                except Refusal as refused:
                    refusals.add(refused.data["kind"])
                    continue
                done.append(answer["revision"])
                break


@pytest.mark.parametrize("method", ["state", "secret"])
@pytest.mark.parametrize("failures", [0, 12])
async def test_a_counter_of_many_clients_has_every_acknowledged_increment_once(
    house: House, method: str, failures: int
) -> None:
    done: list[int] = []
    refusals: set[str] = set()
    async with house.daemon() as daemon:
        for number in range(failures):
            house.disk.fail(("write", "fsync", "rename")[number % 3], nth=2 * number + 1)
        async with anyio.create_task_group() as tasks:
            for _ in range(CLIENTS):
                tasks.start_soon(count_up, daemon, method, done, refusals)
        cut = House(house.home, house.disk.crash())
    assert refusals <= {"revision_mismatch", "storage_error"}
    assert len(done) == len(set(done)) == CLIENTS * EACH
    async with cut.daemon() as daemon, daemon.connect() as wire:
        found = await wire.call(f"{method}/get", namespace="n", key="counter")
        assert (int(found["value"]), found["revision"]) == (CLIENTS * EACH, max(done))
