"""Facts of sessions as answers tell them: at the creation, in lists, in forests and on paths."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from sessiond.daemon.environment import real_environment
from tests.kit.calls import append, call, create, refused, say
from tests.kit.house import House
from tests.kit.sessions import SESSION, stored_message

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")

RECENT = "{session.id,created}"
FACTS: dict[str, Any] = {"cwd": "/p", "agent": "coder", "model": "m-1", "tags": ["x", "y"]}


async def test_a_session_begins_with_its_id_time_folder_agent_model_and_tags(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await wire.call("session/create", session_id=SESSION, persist="immediate", **FACTS)
        session = made["session"]
        assert (made["created"], session["id"]) == (True, SESSION)
        assert {name: session[name] for name in FACTS} == FACTS
        (header,) = house.stored()
        assert header["type"] == "session_header"
        stored = {name: header[name] for name in ("id", "timestamp", "cwd")}
        assert stored == {"id": SESSION, "timestamp": session["created_at"], "cwd": "/p"}
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = (await call(wire, "session/get"))["session"]
        assert {name: again[name] for name in ("created_at", *FACTS)} == {
            "created_at": session["created_at"],
            **FACTS,
        }


async def test_an_id_is_the_callers_choice_or_made_as_a_uuid_of_version_7(house: House) -> None:
    new_session_id = real_environment(lambda _what, bug: pytest.fail(str(bug))).new_session_id
    made = [new_session_id() for _ in range(100)]
    assert {UUID(one).version for one in made} == {7}
    assert len(set(made)) == 100
    async with house.daemon() as daemon, daemon.connect() as wire:
        chosen = (await create(wire, "my-own-id"))["session"]
        given = (await wire.call("session/create", cwd="/p"))["session"]
        assert chosen["id"] == "my-own-id"
        # What the environment of this daemon gives.
        assert given["id"].startswith("session-")


async def test_a_list_has_title_model_folder_times_counts_parent_first_message_and_status(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate", title="T", **FACTS)
        await append(wire, "u1", "First words")
        await append(wire, "a1", role="assistant")
        fork = {"at": "u1", "new_session_id": "the-fork"}
        await wire.call("session/fork", session_id=SESSION, **fork)
        await wire.call("session/update", session_id="the-fork", status="busy")
        listed = {one["id"]: one for one in (await wire.call("session/list"))["sessions"]}
    parent, child = listed[SESSION], listed["the-fork"]
    assert (parent["title"], parent["model"]) == ("T", "m-1")
    assert (parent["cwd"], parent["first_message"]) == ("/p", "First words")
    assert parent["created_at"] <= parent["updated_at"]
    assert (parent["message_count"], parent["message_total"], parent["entry_count"]) == (2, 2, 2)
    assert (child["lineage"]["parent_id"], child["status"]) == (SESSION, "busy")
    assert child["message_count"] == 1


async def test_the_latest_session_with_an_answer_goes_on(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for name, cwd in (("session-p", "/p"), ("session-q", "/q"), ("session-y", "/p")):
            await create(wire, name, cwd=cwd, persist="immediate")
            await say(wire, session_id=name)
            await say(wire, role="assistant", session_id=name)
        await wire.call("session/archive", session_id="session-y")
        # A session without an answer is no conversation to go on with.
        await create(wire, "session-z", persist="immediate")
        await say(wire, session_id="session-z")
        assert await call(wire, "session/continue_recent", RECENT, cwd="/p") == ("session-p", False)
        assert await call(wire, "session/continue_recent", RECENT, cwd="/q") == ("session-q", False)
        session_id, created = await call(
            wire, "session/continue_recent", RECENT, cwd="/nothing-here"
        )
        assert created
        assert session_id not in {"session-p", "session-q", "session-y", "session-z"}


async def test_a_path_leads_from_the_root_to_any_entry_and_ends_in_a_circle(house: House) -> None:
    chain = [stored_message("a", None), stored_message("b", "a"), stored_message("c", "b")]
    branch = stored_message("d", "a")
    circle = [stored_message("x", "y"), stored_message("y", "x"), stored_message("z", "y")]
    house.put([*chain, branch, *circle])
    async with house.daemon() as daemon, daemon.connect() as wire:
        for entry_id, path in (
            ("a", "a"),
            ("b", "ab"),
            ("c", "abc"),
            ("d", "ad"),
            # A parent is an earlier line: x, whose parent comes later, is a root.
            ("x", "x"),
            ("z", "xyz"),
        ):
            ids = await call(wire, "session/path", "entries[].entry.id", entry_id=entry_id)
            assert ids == [*path]
        assert await refused(wire, "session/path", entry_id="nowhere") == "entry_not_found"


async def test_a_forest_counts_the_forks_of_each_session(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        await append(wire, "u1")
        for name in ("fork-one", "fork-two"):
            await wire.call("session/fork", session_id=SESSION, new_session_id=name)
        await wire.call("session/fork", session_id="fork-one", new_session_id="fork-three")
        nodes = (await wire.call("catalog/forest", scope="all"))["nodes"]
        found = {one["session_id"]: (one["parent_id"], one["children"]) for one in nodes}
        assert found == {
            SESSION: (None, 2),
            "fork-one": (SESSION, 1),
            "fork-two": (SESSION, 0),
            "fork-three": ("fork-one", 0),
        }
