"""session/tree in every form, over a real daemon: bounds, pages, foreign files, hostile words."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest

from tests.kit.calls import call
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.roots import spelled_by_pi
from tests.kit.sessions import SESSION, chain, stored_message


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_the_three_forms_show_one_tree(house: House, dialect: str) -> None:
    lines = [
        stored_message("a", None, content="first"),
        stored_message("b", "a", role="assistant", content=[{"type": "text", "text": "second"}]),
        stored_message("c", "a", role="assistant", content=[{"type": "text", "text": "other"}]),
        stored_message("d", "c", content="last"),
    ]
    house.put(spelled_by_pi(lines) if dialect == "pi" else lines)
    async with house.daemon() as daemon, daemon.connect() as wire:
        flat = await call(wire, "session/tree", "nodes", layout=True)
        nested = await call(wire, "session/tree", "roots", form="nested")
        text = await call(wire, "session/tree", "text", form="text")

    found: list[Any] = []

    def visit(node: Any) -> None:
        below = node.pop("children")
        found.append(node | {"children": len(below)})
        for child in below:
            visit(child)

    for root in nested:
        visit(root)
    layout = {"indent", "connector", "last", "gutters"}
    assert found == [{name: row[name] for name in row if name not in layout} for row in flat]
    assert [(row["id"], row["indent"], row["connector"], row["last"]) for row in flat] == [
        ("a", 0, False, True),
        ("c", 1, True, False),
        ("d", 2, False, True),
        ("b", 1, True, True),
    ]
    assert flat[2]["gutters"] == [{"position": 0, "show": True}]
    assert text.split("\n") == [
        "• user: first",
        "├── • assistant: other",
        "│       ▶ user: last",
        "└──   assistant: second",
    ]


# Of the branches of a fork the one that is drawn first stands last in the file: it has the leaf.
VECTORS: dict[str, tuple[dict[str, str | None], list[str]]] = {
    "a fork": (
        {"A": None, "B": "A", "E": "B", "C": "B", "D": "C"},
        ["A 0 - T []", "B 0 - T []", "C 1 + F []", "D 2 - T [0T]", "E 1 + T []"],
    ),
    "two long branches": (
        {"A": None, "B": "A", "C2": "B", "D2": "C2", "C1": "B", "D1": "C1", "E1": "D1"},
        [
            "A 0 - T []",
            "B 0 - T []",
            "C1 1 + F []",
            "D1 2 - T [0T]",
            "E1 2 - T [0T]",
            "C2 1 + T []",
            "D2 2 - T [0F]",
        ],
    ),
    "two roots": (
        {"R2": None, "c": "R2", "R1": None, "a": "R1", "b": "a"},
        [
            "R1 1 + F [0T]",
            "a 2 - T [0T 0T]",
            "b 2 - T [0T 0T]",
            "R2 1 + T []",
            "c 2 - T [0F]",
        ],
    ),
    "a fork in a fork": (
        {"A": None, "B2": "A", "B1": "A", "C2": "B1", "D": "C2", "C1": "B1"},
        [
            "A 0 - T []",
            "B1 1 + F []",
            "C1 2 + F [0T]",
            "C2 2 + T [0T]",
            "D 3 - T [0T 1F]",
            "B2 1 + T []",
        ],
    ),
}


@pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")
@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_layout_is_as_it_was_recorded(house: House, dialect: str, vector: str) -> None:
    parents, expected = VECTORS[vector]
    lines = [stored_message(name, parent, content=name) for name, parent in parents.items()]
    house.put(spelled_by_pi(lines) if dialect == "pi" else lines)
    async with house.daemon() as daemon, daemon.connect() as wire:
        nodes = await call(wire, "session/tree", "nodes", layout=True)
    shown = [
        f"{node['id']} {node['indent']} {'+' if node['connector'] else '-'} {'FT'[node['last']]} "
        f"[{' '.join(str(one['position']) + 'FT'[one['show']] for one in node['gutters'])}]"
        for node in nodes
    ]
    assert shown == expected


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_what_a_terminal_would_obey_is_not_in_a_drawing(house: House, dialect: str) -> None:
    hostile = "\x1b[2J\x1b]0;mine\x07 a\rb\nc\x9b31m\u2028d\u202ee\x00"
    lines = [
        stored_message("a", None, content=hostile),
        {"type": "x\x1b[1m\n", "id": "b", "parent_id": "a", "timestamp": ""},
    ]
    house.put(spelled_by_pi(lines) if dialect == "pi" else lines)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/label", session_id=SESSION, entry_id="a", label="l\x1b\n" * 99)
        text = await call(wire, "session/tree", "text", form="text")
        (first, *_) = await call(wire, "session/tree", "nodes")
    rows = text.split("\n")
    assert len(rows) == (2 if dialect == "native" else 3)
    assert all(character.isprintable() for row in rows for character in row)
    assert "mine" in rows[0]
    assert all(len(row) < 160 for row in rows)
    # The label is whole where it is data; the preview never is what a terminal obeys.
    assert len(first["label"]) == 3 * 99
    assert first["preview"].isprintable()


@pytest.fixture
def deep_reader() -> Generator[None]:
    """Python's readers of JSON take about 490 levels of a nested tree unless they are told."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(4 * before)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("deep_reader")
async def test_a_nested_tree_has_at_most_500_levels_and_flat_any(house: House) -> None:
    house.put(chain([f"n{n}" for n in range(500)]))
    async with house.daemon() as daemon, daemon.connect() as wire:
        node = (await call(wire, "session/tree", "roots", form="nested"))[0]
        for _ in range(499):
            (node,) = node["children"]
        assert (node["id"], node["children"]) == ("n499", [])
        await wire.call("append", session_id=SESSION, message={"role": "user"})
        refusal = await wire.refusal("session/tree", session_id=SESSION, form="nested")
        assert (refusal.data["kind"], refusal.data["limit"]) == ("too_large", 500)
        assert "flat" in refusal.message
        assert len(await call(wire, "session/tree", "nodes", limit=1000)) == 501
        assert len((await call(wire, "session/tree", "text", form="text")).split("\n")) == 501


@pytest.mark.parametrize("form", ["nested", "text"])
async def test_a_whole_tree_over_the_limit_is_refused_and_flat_is_named(
    house: House, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    house.put([stored_message(f"n{n}", None, content="x") for n in range(50)])
    set_limits(monkeypatch, RESULT_BYTES_MAX=500)
    async with house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("session/tree", session_id=SESSION, form=form)
        assert refusal.data["kind"] == "too_large"
        assert "flat" in refusal.message


async def test_a_page_ends_early_where_rows_are_large_and_pages_make_the_whole(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.put(
        [stored_message(f"n{n}", f"n{n // 3}" if n else None, content="x") for n in range(60)]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        whole = await call(wire, "session/tree", layout=True)
        assert whole == await call(wire, "session/tree", layout=True)
        set_limits(monkeypatch, RESULT_BYTES_MAX=4000)
        rows: list[Any] = []
        cursor = None
        pages = 0
        while pages == 0 or cursor is not None:
            page = await call(wire, "session/tree", layout=True, limit=40, cursor=cursor)
            rows += page["nodes"]
            cursor = page["next_cursor"]
            pages += 1
        assert rows == whole["nodes"]
        assert pages > 2


async def test_siblings_of_one_moment_stand_in_the_order_of_the_file(house: House) -> None:
    later = stored_message("early", "a", content="1") | {"timestamp": "2026-01-15T10:31:00.000Z"}
    house.put(
        [
            stored_message("a", None, content="0"),
            later,
            stored_message("b", "a", content="2"),
            stored_message("c", "a", content="3"),
            stored_message("d", "a", content="4"),
        ]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        nodes = await call(wire, "session/tree", "nodes")
        # d is main's leaf; the others go by time and then by seq.
        assert [node["id"] for node in nodes] == ["a", "d", "b", "c", "early"]


async def test_an_empty_tree_in_every_form(house: House) -> None:
    house.put([])
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/tree") == {"nodes": [], "next_cursor": None, "seq": 0}
        assert await call(wire, "session/tree", form="nested") == {"roots": [], "seq": 0}
        assert await call(wire, "session/tree", form="text") == {"text": "", "seq": 0}
