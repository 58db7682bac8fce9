"""catalog/forest of a whole daemon: the sessions of each scope, and the roots among them."""

from __future__ import annotations

from typing import Any

from sessiond.testing.wire import Wire
from tests.kit.calls import append, create
from tests.kit.house import House


async def forest(wire: Wire, **more: Any) -> list[tuple[str, int, bool]]:
    nodes = (await wire.call("catalog/forest", **more))["nodes"]
    return [(node["session_id"], node["depth"], node["orphan"]) for node in nodes]


async def test_a_forest_is_of_all_of_a_project_or_of_one_tree(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="immediate")
        await append(wire, "m1", session_id="session-a")
        fork = {"session_id": "session-a", "new_session_id": "session-b", "cwd": "/q"}
        await wire.call("session/fork", **fork)
        await create(wire, "session-c", persist="immediate", cwd="/q")
        tree = [("session-a", 0, False), ("session-b", 1, False)]
        alone = ("session-c", 0, False)
        assert await forest(wire, scope="all") == [*tree, alone]
        assert await forest(wire, scope="session", session_id="session-b") == tree
        # The parent is in another project: what has no parent here is shown all the same.
        assert await forest(wire, cwd="/q/") == [("session-b", 0, True), alone]
        assert await forest(wire, scope="project", cwd="/p") == [("session-a", 0, False)]
        assert await forest(wire, cwd="/elsewhere") == []
