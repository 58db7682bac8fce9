"""More defects of the programs that sessiond replaces: copies, trees, and waits for other programs.

As in `test_predecessor_defects`, each test is named after its line in section D of the facts about them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.calls import call, refused, session_info
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION, stored_message

OTHER = "session-b"
SHOWN = (("session/entries", "entries[].entry"), ("build_context", "{sources,messages}"))
"""Parts of a source that a copy has: methods, and parts of their answers."""
# What is shown is shown whichever loop runs.
one_backend = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")


# m1 - m2 - m3      main, and x1 beside m3
SOURCE = [
    stored_message("m1", None),
    stored_message("m2", "m1", "assistant"),
    stored_message("x1", "m2"),
    stored_message("m3", "m2"),
]


async def test_d1_an_export_brings_back_every_entry_and_branch(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        content = await call(wire, "session/export", "content", format="native")
        copy = await call(wire, "session/import", "session.id", content=content)
        for method, part in SHOWN:
            copied = await call(wire, method, part, session_id=copy)
            assert copied == await call(wire, method, part)


MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "fork": ("session/fork", {"at": "x1"}),
    "rebase": ("session/rebase", {"entry_ids": ["x1", "m1"]}),
    "squash": ("session/rebase", {"indices": [0, 1], "squash": {"summary": "S"}}),
    "merge": ("session/merge", {"other_session_id": OTHER, "text": "both", "into": "new"}),
    "merge here": ("session/merge", {"other_session_id": OTHER, "text": "both"}),
    "import": ("session/import", {}),
}


@one_backend
@pytest.mark.parametrize("way", MADE)
async def test_d4_what_was_answered_is_on_disk(house: House, way: str) -> None:
    house.put(SOURCE)
    house.put([stored_message("o1", None)], OTHER)
    method, params = MADE[way]
    async with house.daemon() as daemon, daemon.connect() as wire:
        if way == "import":
            params = {"content": await call(wire, "session/export", "content", format="native")}
        else:
            params = {"session_id": SESSION, **params}
        made = (await wire.call(method, **params)).get("session", {"id": SESSION})["id"]
        # The power fails with the answer.
        left = type(house)(house.home, house.disk.crash())
        told = [await call(wire, *shown, session_id=made) for shown in SHOWN]
        assert told[0]
    async with left.daemon() as daemon, daemon.connect() as wire:
        assert [await call(wire, *shown, session_id=made) for shown in SHOWN] == told
        assert (await session_info(wire, made))["problems"] == 0


async def test_d12_what_nobody_has_open_is_got_copied_and_deleted(house: House) -> None:
    house.put(SOURCE)
    house.put([stored_message("o1", None)], OTHER)
    for method, params in (
        ("session/get", {}),
        *(made for way, made in MADE.items() if way != "import"),
        ("session/delete", {}),
    ):
        # Nothing is in memory when it is asked.
        async with house.daemon() as daemon, daemon.connect() as wire:
            await wire.call(method, session_id=SESSION, **params)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await refused(wire, "session/get") == "session_not_found"


async def test_d17_a_tree_of_one_moment_has_one_order(house: House) -> None:
    house.put(
        [
            stored_message("r", None),
            *(stored_message(name, "r") for name in "gcaebdf"),
            stored_message("z", None),
        ]
    )
    trees: list[Any] = []
    for _ in range(2):
        async with house.daemon() as daemon, daemon.connect() as wire:
            trees += [await call(wire, "session/tree", "nodes[].id") for _ in range(3)]
    assert trees == [["z", "r", *"gcaebdf"]] * 6


@one_backend
@pytest.mark.parametrize("form", ["flat", "nested", "text"])
async def test_d18_short_ids_are_ids(house: House, form: str) -> None:
    house.put([stored_message("a", None), stored_message("1", "a"), stored_message("é", "1")])
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert "text of é" in str(await call(wire, "session/tree", form=form))
        assert await call(wire, "session/fork", "session.leaf_id", at="é") == "é"


@one_backend
@pytest.mark.parametrize("form", ["flat", "nested", "text"])
async def test_d19_an_orphan_is_seen(house: House, form: str) -> None:
    house.put(
        [
            stored_message("a", None),
            stored_message("lost", "nobody"),
            stored_message("below", "lost"),
        ]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        shown = str(await call(wire, "session/tree", form=form))
        assert "text of lost" in shown
        assert "text of below" in shown
        assert (await session_info(wire))["problems"] == 1
        # Its branch can be had without the gap.
        made = await call(wire, "session/fork", "session", at="below")
        assert (made["problems"], made["message_count"]) == (0, 2)


@pytest.mark.parametrize("does", ["hangs", "throws", "talks nonsense", "leaves"])
async def test_d21_a_hook_blocks_no_compaction(
    house: House, does: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if does == "hangs":
        set_limits(monkeypatch, HOOK_SECONDS=0.05)
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watcher.call("initialize", capabilities={"hooks": ["before_compact"]})
        params = {"session_id": SESSION, "summary": "S", "first_kept_entry_id": "m3"}
        number = await wire.request("compact", **params)
        asked = await watcher.next_request()
        assert asked["method"] == "client/before_compact"
        if does == "throws":
            await watcher.send({"id": asked["id"], "error": {"code": -32603, "message": "no"}})
        elif does == "talks nonsense":
            await watcher.reply(asked, ["veto"])
        elif does == "leaves":
            watcher.close()
        done = await wire.answer(number)
        assert await call(wire, "build_context", "sources") == [done["entry"]["id"], "m3"]
