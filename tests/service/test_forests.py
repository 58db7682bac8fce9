"""catalog/forest of a whole daemon: the sessions of each scope, and the roots among them."""

from __future__ import annotations

from tests.kit.calls import append, call, create
from tests.kit.house import House

NODES = "nodes[].{session_id,depth,orphan}"


async def test_a_forest_is_of_all_of_a_project_or_of_one_tree(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="immediate")
        await append(wire, "m1", session_id="session-a")
        await call(wire, "session/fork", new_session_id="session-b", cwd="/q")
        await create(wire, "session-c", persist="immediate", cwd="/q")
        tree = [("session-a", 0, False), ("session-b", 1, False)]
        alone = ("session-c", 0, False)
        assert await call(wire, "catalog/forest", NODES, scope="all") == [*tree, alone]
        assert (
            await call(wire, "catalog/forest", NODES, scope="session", session_id="session-b")
            == tree
        )
        # The parent is in another project: what has no parent here is shown all the same.
        assert await call(wire, "catalog/forest", NODES, cwd="/q/") == [
            ("session-b", 0, True),
            alone,
        ]
        assert await call(wire, "catalog/forest", NODES, scope="project", cwd="/p") == [
            ("session-a", 0, False)
        ]
        assert await call(wire, "catalog/forest", NODES, cwd="/elsewhere") == []


async def test_the_drawing_says_what_is_archived_and_what_has_lost_its_parent(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, "session-a", persist="immediate")
        await append(wire, "m1", session_id="session-a")
        await call(wire, "session/fork", new_session_id="session-b", cwd="/q", title="Tried again")
        await call(wire, "session/archive", session_id="session-b")
        drawn = await call(wire, "catalog/forest", "text", form="text", cwd="/q")
        assert drawn == "session-b Tried again (archived) (its parent is not here)"


async def test_a_session_without_a_title_is_named_by_its_first_message(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for session_id, title in (("session-a", None), ("session-b", "Titled")):
            await create(wire, session_id, persist="immediate", title=title)
            message = {"role": "user", "content": "first words\nand more"}
            await wire.call("append", session_id=session_id, message=message)
        nodes = await call(wire, "catalog/forest", "nodes[].{title,first_message}")
        assert nodes == [(None, "first words and more"), ("Titled", "first words and more")]
        drawn = await call(wire, "catalog/forest", "text", form="text")
        assert drawn.splitlines() == ["session-a first words and more", "session-b Titled"]
