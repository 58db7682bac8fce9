"""The forks of the replaced systems, each by the axes that protocol.md names for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.calls import call, say
from tests.kit.house import House
from tests.kit.sessions import SESSION, stored_entry, stored_message

# A file says what it says whichever loop runs.
pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")


FORK = ("session/fork", "session")
TIMES = [f"2026-01-15T10:{minute:02}:00.000Z" for minute in range(10)]

# u1 - a1 - u2 - a2 - short - u3      main
#        \- tried
SOURCE = [
    stored_entry(
        "session_info",
        "info",
        None,
        timestamp=TIMES[0],
        name="A name",
        plan="the plan",
        tags=["t"],
        agent="g",
    ),
    stored_entry("model_change", "model", None, timestamp=TIMES[0], model_id="m", provider="p"),
    stored_message("u1", "model", "user", timestamp=TIMES[1]),
    stored_message("a1", "u1", "assistant", timestamp=TIMES[2]),
    stored_entry("label", "l1", "a1", timestamp=TIMES[3], target_id="a1", label="good"),
    stored_message("tried", "a1", "user", timestamp=TIMES[4]),
    stored_message("u2", "a1", "user", timestamp=TIMES[5]),
    stored_entry(
        "custom",
        "chose",
        "u2",
        timestamp=TIMES[6],
        custom_type="sessiond.decision",
        data={"decision": "x"},
    ),
    stored_message("a2", "chose", "assistant", timestamp=TIMES[7]),
    stored_entry(
        "compaction", "short", "a2", timestamp=TIMES[8], summary="S", first_kept_entry_id="u2"
    ),
    stored_message("u3", "short", "user", timestamp=TIMES[9]),
]


class Forked:
    """A fork and its lines on disk."""

    def __init__(self, house: House, info: dict[str, Any]) -> None:
        self.info = info
        lines = house.disk.content(Path(info["path"])).splitlines()
        self.header, *self.entries = map(json.loads, lines)

    def of(self, *types: str) -> list[dict[str, Any]]:
        return [one for one in self.entries if one["type"] in types]


async def test_operator_takes_a_path_with_its_ids_and_labels_and_their_times(house: House) -> None:
    path = house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = Forked(house, await call(wire, *FORK, at="a2"))
        ids = ["model", "u1", "a1", "u2", "chose", "a2"]
        tree = [one for one in made.entries if one["type"] != "label"]
        assert [(one["id"], one["parent_id"]) for one in tree if one["id"] in ids] == list(
            zip(ids, [None, *ids], strict=False)
        )
        (label,) = made.of("label")
        assert made.entries[-1] == label
        assert (label["target_id"], label["label"], label["timestamp"]) == ("a1", "good", TIMES[3])
        assert (made.header["parent_session"], made.info["title"]) == (str(path), None)


async def test_operator_and_pi_take_everything_to_another_folder(house: House) -> None:
    path = house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = Forked(house, await call(wire, *FORK, entries="all", cwd="/elsewhere"))
        assert made.entries == SOURCE
        assert (made.header["cwd"], made.header["parent_session"]) == ("/elsewhere", str(path))
        assert made.header["id"] != SESSION


async def test_pi_forks_before_what_a_user_said_and_edits_it(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        user = await call(wire, "session/entry", "entry", entry_id="u2")
        made = Forked(house, await call(wire, *FORK, at=user["parent_id"]))
        assert made.info["leaf_id"] == "a1"
        assert user["message"]["content"] == "text of u2"


@pytest.mark.parametrize(("first", "count"), [(1, 1), (2, 2), (4, 4), (99, 4), (None, 4)])
async def test_piglet_takes_the_first_messages_of_the_context(
    house: House, first: int | None, count: int
) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        whole = await call(wire, "build_context")
        made = Forked(house, await call(wire, *FORK, entries="context", keep_messages=first))
        built = await wire.call("build_context", session_id=made.info["id"])
        said = [one.get("content", one.get("summary")) for one in built["messages"]]
        assert said == ["S", "text of u2", "text of a2", "text of u3"][:count]
        assert built["model"] == whole["model"]
        # New ids, in a straight line; other branches, labels and the title stay behind.
        assert not {one["id"] for one in made.entries} & {one["id"] for one in SOURCE}
        assert (made.of("label", "custom"), made.info["title"]) == ([], None)
        assert (made.info["cwd"], made.info["lineage"]["fork_point"]) == ("/p", count)


@pytest.mark.parametrize(("index", "leaf"), [(0, "u1"), (2, "u2"), (4, "u3"), (None, "u3")])
async def test_sharur_branches_at_a_message_which_is_taken_too(
    house: House, index: int | None, leaf: str
) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = Forked(house, await call(wire, *FORK, at_message=index))
        lineage = made.info["lineage"]
        assert (made.info["leaf_id"], lineage["parent_id"]) == (leaf, SESSION)
        assert lineage["at_message"] == (4 if index is None else index)
        nodes = await call(wire, "catalog/forest", "nodes[].{session_id,depth}")
        assert nodes == [
            (SESSION, 0),
            (made.info["id"], 1),
        ]


async def test_sharur_forks_a_copy_that_is_nobodys_child(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = Forked(house, await call(wire, *FORK, entries="all", link="none"))
        assert made.entries == SOURCE
        assert made.info["lineage"] == {"detached": True}
        assert "parent_session" not in made.header
        assert await call(wire, "catalog/forest", "nodes[].depth") == [0, 0]


async def test_nova_takes_what_it_knows_and_no_conversation(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = Forked(house, await call(wire, *FORK, entries="none", state=True))
        info = made.info
        assert (info["plan"], info["tags"], info["agent"]) == ("the plan", ["t"], "g")
        assert (info["message_total"], info["lineage"]["parent_id"]) == (0, SESSION)
        assert [one["data"] for one in made.of("custom")] == [{"decision": "x"}]


async def test_piglet_hands_over_to_a_session_that_begins_with_a_summary(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, *FORK, entries="none")
        await say(wire, "Go on from here.", session_id=made["id"])
        built = await wire.call("build_context", session_id=made["id"])
        assert built["messages"] == [{"role": "user", "content": "Go on from here."}]
        assert made["lineage"]["parent_id"] == SESSION
