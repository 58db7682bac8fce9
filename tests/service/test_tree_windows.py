"""session/tree as text: a part of a tree, the heads in it, and short ids."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.calls import call, refused
from tests.kit.house import House
from tests.kit.sessions import SESSION, chain, stored_message


async def test_a_depth_leaves_out_what_hangs_by_more_forks_and_says_how_much(house: House) -> None:
    # In a chain every entry has a second child, so each is one level deeper.
    lines = [stored_message("n0", None, content="x")]
    for at in range(1, 101):
        # The branches m come first, so that every n is drawn below them.
        lines += [
            stored_message(f"n{at}", f"n{at - 1}", content="x"),
            stored_message(f"m{at}", f"n{at - 1}", content="x"),
        ]
    house.put(lines)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/branch", session_id=SESSION, entry_id="n100")
        whole = (await call(wire, "session/tree", "text", form="text")).split("\n")
        text = await call(wire, "session/tree", "text", form="text", depth=2, ids=True)
        none = await call(wire, "session/tree", "text", form="text", depth=0, ids=True)
    assert max(map(len, whole)) > 400
    assert text == (
        "• user: x (n0)\n"
        "├── • user: x (n1)\n"
        "│   ├── • user: x … 196 more (n2)\n"
        "│   └──   user: x (m2)\n"
        "└──   user: x (m1)"
    )
    assert none == "• user: x … 200 more (n0)"


async def test_around_an_entry_are_what_led_to_it_its_siblings_and_what_follows(
    house: House,
) -> None:
    lines = [
        *chain([f"n{n}" for n in range(20)], "x"),
        stored_message("other", "n18", content="x"),
        stored_message("below", "other", content="x"),
        stored_message("side", "n15", content="x"),
        stored_message("deep", "side", content="x"),
        stored_message("root", None, content="x"),
    ]
    house.put(lines)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/branch", session_id=SESSION, entry_id="n19")
        text = await call(wire, "session/tree", "text", form="text", around="n18", ids=True)
        less = await call(
            wire, "session/tree", "text", form="text", around="n18", ids=True, depth=0
        )
        first = await call(
            wire, "session/tree", "text", form="text", around="n0", depth=1, ids=True
        )
    rows = [f"• user: x (n{at})" for at in range(8, 16)]
    assert text.split("\n") == [
        "… 8 above",
        *rows,
        "├── • user: x (n16)",
        "│       • user: x (n17)",
        "│       • user: x (n18)",
        "│       ├── ▶ user: x (n19)",
        "│       └──   user: x (other)",
        "│                 user: x (below)",
        "└──   user: x … 1 more (side)",
    ]
    assert less.split("\n")[-2:] == [
        "│       • user: x … 3 more (n18)",
        "└──   user: x … 1 more (side)",
    ]
    assert first.split("\n")[0] == "• user: x (n0)"
    assert first.endswith("… 8 more (n15)")


async def test_a_drawing_shows_where_every_named_head_stands(house: House) -> None:
    house.put(chain([f"n{n}" for n in range(3)], "x"))
    async with house.daemon() as daemon, daemon.connect() as wire:
        for head in ("writer", "reviewer"):
            await wire.call("session/branch", session_id=SESSION, entry_id="n1", head=head)
        await wire.call("session/label", session_id=SESSION, entry_id="n1", label="here")
        text = await call(wire, "session/tree", "text", form="text", ids=True)
    assert text.split("\n")[1:] == [
        "• user: x [here] ◀ reviewer, writer (n1)",
        "▶ user: x (n2)",
    ]


async def test_short_ids_of_a_drawing_are_those_that_name_the_entries(house: House) -> None:
    ids = [f"3f2a77c0{at:024x}" for at in range(3)]
    house.put(
        [
            stored_message(one, ids[at - 1] if at else None, content="x")
            for at, one in enumerate(ids)
        ]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        text = await call(wire, "session/tree", "text", form="text", ids="short")
        shorts = [row[row.index("(") + 1 : -1] for row in text.split("\n")]
        found = await wire.call("session/resolve_entries", session_id=SESSION, refs=shorts)
    assert shorts == ["00000000", "00000001", "00000002"]
    assert [one["entry_id"] for one in found["entries"]] == ids


@pytest.mark.parametrize(
    ("params", "kind", "path"),
    [
        ({"form": "text", "around": "nobody"}, "entry_not_found", "around"),
        ({"form": "flat", "around": "n0"}, "invalid_params", "around"),
        ({"form": "nested", "depth": 0}, "invalid_params", "depth"),
        ({"form": "text", "depth": -1}, "invalid_params", "depth"),
        ({"form": "flat", "ids": "short"}, "invalid_params", "ids"),
    ],
)
async def test_a_part_is_of_the_text_and_around_an_entry_of_the_tree(
    house: House, params: dict[str, Any], kind: str, path: str
) -> None:
    house.put(chain([f"n{n}" for n in range(1)], "x"))
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await refused(wire, "session/tree", "{kind,path}", **params) == (kind, path)
