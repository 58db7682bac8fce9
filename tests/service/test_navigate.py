"""session/navigate: the text for the editor, the new place of the head, and the stored entries."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.testing.daemon import Refusal
from tests.kit.calls import call, refused
from tests.kit.house import House, arrived
from tests.kit.roots import spelled_by_pi
from tests.kit.sessions import SESSION, stored_entry, stored_message, text

# Where a head goes is the same whichever loop runs.
one_backend = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
BLOCKS = [text("one "), IMAGE, text("two")]
WHOLE = "all of it, \u2028 \U0001f600 é, " * 500


SOURCE = [
    stored_message("plain", None, "user", WHOLE),
    stored_message("answer", "plain", "assistant", [text("yes")]),
    stored_message("blocks", "answer", "user", BLOCKS),
    stored_message("picture", "blocks", "user", [IMAGE]),
    stored_entry(
        "custom_message", "note", "picture", custom_type="x", content="a note", display=False
    ),
    stored_entry("branch_summary", "back", "note", summary="left", from_id=None),
    stored_entry("compaction", "short", "back", summary="S", first_kept_entry_id="blocks"),
    stored_entry("custom", "mark", "short", custom_type="x"),
    stored_message("last", "mark", "assistant", [text("end")]),
]


@one_backend
@pytest.mark.parametrize(
    ("target", "leaf", "editor"),
    [
        ("plain", None, WHOLE),
        ("blocks", "answer", "one two"),
        ("picture", "blocks", ""),
        ("note", "picture", "a note"),
        ("answer", "answer", None),
        ("back", "back", None),
        ("short", "short", None),
        ("mark", "mark", None),
        (None, None, None),
    ],
)
async def test_who_goes_to_what_was_said_may_say_it_anew(
    house: House, target: str | None, leaf: str | None, editor: str | None
) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        moved = await call(wire, "session/navigate", entry_id=target)
        assert (moved["leaf_id"], moved["editor_text"], moved["moved"]) == (leaf, editor, True)
        assert (moved["head"], moved["seq"]) == ("main", 10)
        assert await call(wire, "session/get", "session.leaf_id") == leaf
        # It is there already, and so it is before what was said.
        again = await call(wire, "session/navigate", entry_id=target)
        assert (again["moved"], again["seq"], again["editor_text"]) == (False, 10, editor)
        # On disk when it was answered: this is what a power cut leaves.
        left = type(house)(house.home, house.disk.crash())
    async with left.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/get", "session.leaf_id") == leaf


@one_backend
@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize(
    ("leaf", "before", "editor"),
    [("blocks", "answer", "one two"), ("note", "picture", "a note"), ("plain", None, WHOLE)],
)
async def test_what_was_said_last_may_be_said_anew(
    house: House, dialect: str, leaf: str, before: str | None, editor: str
) -> None:
    count = [one["id"] for one in SOURCE].index(leaf) + 1
    house.put(SOURCE[:count] if dialect == "native" else spelled_by_pi(SOURCE[:count]))
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/get", "session.leaf_id") == leaf
        moved = await call(wire, "session/navigate", entry_id=leaf)
        assert (moved["moved"], moved["editor_text"]) == (True, editor)
        again = await call(wire, "session/navigate", entry_id=leaf)
        assert (again["moved"], again["editor_text"]) == (False, editor)
        said = {"role": "user", "content": "anew", "timestamp": 1}
        anew = await wire.call("append", session_id=SESSION, message=said)
        ids = await call(wire, "session/path", "entries[].entry.id")
        assert leaf not in ids
        assert anew["leaf_id"] in ids
        assert before is None or before in ids


@one_backend
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_where_a_head_went_is_where_it_is(house: House, dialect: str) -> None:
    house.put(SOURCE if dialect == "native" else spelled_by_pi(SOURCE))
    async with house.daemon() as daemon, daemon.connect() as wire:
        first = await call(wire, "session/navigate", entry_id="answer")
        # The move itself may be an entry; to go there again, or to what comes right behind it, is none.
        for target, editor in (("answer", None), ("blocks", "one two")):
            again = await call(wire, "session/navigate", entry_id=target)
            told = (again["moved"], again["seq"], again["leaf_id"], again["editor_text"])
            assert told == (False, first["seq"], first["leaf_id"], editor)
        asked = {"entry_id": "answer", "summary": "S"}
        assert await refused(wire, "session/navigate", "path", **asked) == "summary"
        for moves in (True, False):
            assert await call(wire, "session/navigate", "moved", entry_id=None) is moves
        # Somebody else's entry is no move.
        custom = {"type": "custom", "custom_type": "x", "data": 1}
        await call(wire, "append", entry=custom, parent_id="answer")
        assert await call(wire, "session/navigate", "moved", entry_id="answer") is True


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_summary_stands_where_the_head_goes_and_the_label_on_it(
    house: House, dialect: str
) -> None:
    house.put(SOURCE if dialect == "native" else spelled_by_pi(SOURCE))
    async with house.daemon() as daemon, daemon.connect() as wire:
        for target, at, label_on in (("blocks", "answer", None), ("answer", "answer", "answer")):
            before = await call(wire, "session/get", "session.leaf_id")
            summary = {} if label_on else {"summary": "It was tried.", "details": {"a": 1}}
            moved = await call(
                wire, "session/navigate", entry_id=target, label=f"to {target}", **summary
            )
            path = await call(wire, "session/path", "entries[].entry")
            entries = [one for one in path if one["type"] != "label"]
            labels = await call(wire, "session/labels", "labels")
            labelled = {one["label"]: one["entry_id"] for one in labels}[f"to {target}"]
            assert moved["leaf_id"] == await call(wire, "session/get", "session.leaf_id")
            if label_on:
                assert labelled == label_on
                continue
            last = entries[-1]
            assert (labelled, last["parent_id"], last["from_id"]) == (last["id"], at, before)
            assert (last["summary"], last["details"]) == ("It was tried.", {"a": 1})
        assert await call(wire, "build_context", "sources") == ["plain", "answer"]


BAD: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "an unknown entry": ({"entry_id": "nobody"}, "entry_not_found", "entry_id"),
    "a head that is not there": ({"entry_id": "answer", "head": "x"}, "head_not_found", None),
    "a summary of nothing": ({"entry_id": "last", "summary": "S"}, "entry_invalid", "summary"),
    "details of nothing": ({"entry_id": "answer", "details": 1}, "entry_invalid", "details"),
    "a label of nothing": ({"entry_id": None, "label": "x"}, "entry_invalid", "label"),
    "an older leaf": (
        {"entry_id": "answer", "expected": {"leaf_id": "note"}},
        "precondition_failed",
        None,
    ),
    "no entry_id": ({}, "invalid_params", "entry_id"),
}


@one_backend
@pytest.mark.parametrize("case", BAD)
async def test_what_cannot_be_is_refused_and_moves_nothing(house: House, case: str) -> None:
    params, kind, path = BAD[case]
    file = house.put(SOURCE)
    before = house.disk.content(file)
    async with house.daemon() as daemon, daemon.connect() as wire:
        data = await refused(wire, "session/navigate", "", **params)
        assert (data["kind"], data.get("path")) == (kind, path)
        assert await call(wire, "session/get", "session.leaf_id") == "last"
    assert house.disk.content(file) == before


async def test_of_two_who_move_from_one_leaf_the_second_is_told(house: House) -> None:
    house.put(SOURCE)
    expected = {"leaf_id": "last"}
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as two:
        await call(one, "session/get", "session.leaf_id")
        with house.disk.hold("fdatasync") as gate:
            append = {"session_id": SESSION, "message": {"role": "user"}, "expected": expected}
            appended = await one.request("append", **append)
            await arrived(gate)
            moving = await two.request(
                "session/navigate", session_id=SESSION, entry_id="blocks", expected=expected
            )
        new = (await one.answer(appended))["leaf_id"]
        with pytest.raises(Refusal) as caught:
            await two.answer(moving)
        assert caught.value.data["actual"]["leaf_id"] == new
        assert caught.value.data["missed"] == [new]
        # Without a condition it goes from wherever the head has come to.
        moved = await call(two, "session/navigate", entry_id="blocks", summary="S")
        stored = await call(two, "session/entry", "entry", entry_id=moved["leaf_id"])
        assert stored["from_id"] == new


async def test_another_head_goes_alone(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await call(wire, "branch", entry_id="note", head="side")
        moved = await call(wire, "session/navigate", entry_id="blocks", head="side")
        assert (moved["head"], moved["leaf_id"]) == ("side", "answer")
        assert await call(wire, "session/get", "session.leaf_id") == "last"
