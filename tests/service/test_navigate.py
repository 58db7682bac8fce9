"""session/navigate: the text for the editor, the new place of the head, and the stored entries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.testing.daemon import Refusal, Wire
from tests.kit.calls import session_info
from tests.kit.house import House, arrived
from tests.kit.sessions import SESSION, TIME, stored_entry, stored_message

# Where a head goes is the same whichever loop runs.
one_backend = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
WHOLE = "all of it, \u2028 \U0001f600 é, " * 500


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


SOURCE = [
    stored_message("plain", None, "user", WHOLE),
    stored_message("answer", "plain", "assistant", [text("yes")]),
    stored_message("blocks", "answer", "user", [text("one "), IMAGE, text("two")]),
    stored_message("picture", "blocks", "user", [IMAGE]),
    stored_entry(
        "custom_message", "note", "picture", custom_type="x", content="a note", display=False
    ),
    stored_entry("branch_summary", "back", "note", summary="left", from_id=None),
    stored_entry("compaction", "short", "back", summary="S", first_kept_entry_id="blocks"),
    stored_entry("custom", "mark", "short", custom_type="x"),
    stored_message("last", "mark", "assistant", [text("end")]),
]


async def go(wire: Wire, entry_id: str | None, **more: Any) -> Any:
    return await wire.call("session/navigate", session_id=SESSION, entry_id=entry_id, **more)


async def leaf_of(wire: Wire) -> Any:
    return (await session_info(wire))["leaf_id"]


async def stored(wire: Wire, entry_id: str) -> Any:
    return (await wire.call("session/entry", session_id=SESSION, entry_id=entry_id))["entry"]


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
        moved = await go(wire, target)
        assert (moved["leaf_id"], moved["editor_text"], moved["moved"]) == (leaf, editor, True)
        assert (moved["head"], moved["seq"]) == ("main", 10)
        assert await leaf_of(wire) == leaf
        # It is there already, and so it is before what was said.
        again = await go(wire, target)
        assert (again["moved"], again["seq"], again["editor_text"]) == (False, 10, editor)
        # On disk when it was answered: this is what a power cut leaves.
        left = type(house)(house.home, house.disk.crash())
    async with left.daemon() as daemon, daemon.connect() as wire:
        assert await leaf_of(wire) == leaf


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
    house.put(SOURCE[:count] if dialect == "native" else as_pi(SOURCE[:count]))
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await leaf_of(wire) == leaf
        moved = await go(wire, leaf)
        assert (moved["moved"], moved["editor_text"]) == (True, editor)
        again = await go(wire, leaf)
        assert (again["moved"], again["editor_text"]) == (False, editor)
        said = {"role": "user", "content": "anew", "timestamp": 1}
        anew = await wire.call("append", session_id=SESSION, message=said)
        path = await wire.call("session/path", session_id=SESSION)
        ids = [row["entry"]["id"] for row in path["entries"]]
        assert leaf not in ids
        assert anew["leaf_id"] in ids
        assert before is None or before in ids


@one_backend
@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_where_a_head_went_is_where_it_is(house: House, dialect: str) -> None:
    house.put(SOURCE if dialect == "native" else as_pi(SOURCE))
    async with house.daemon() as daemon, daemon.connect() as wire:
        first = await go(wire, "answer")
        # The move itself may be an entry; to go there again, or to what comes right behind it, is none.
        for target, editor in (("answer", None), ("blocks", "one two")):
            again = await go(wire, target)
            told = (again["moved"], again["seq"], again["leaf_id"], again["editor_text"])
            assert told == (False, first["seq"], first["leaf_id"], editor)
        refused = await wire.refusal(
            "session/navigate", session_id=SESSION, entry_id="answer", summary="S"
        )
        assert refused.data["path"] == "summary"
        start = await go(wire, None)
        assert (start["moved"], (await go(wire, None))["moved"]) == (True, False)
        # Somebody else's entry is no move.
        custom = {"type": "custom", "custom_type": "x", "data": 1}
        await wire.call("append", session_id=SESSION, entry=custom, parent_id="answer")
        assert (await go(wire, "answer"))["moved"] is True


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_summary_stands_where_the_head_goes_and_the_label_on_it(
    house: House, dialect: str
) -> None:
    house.put(SOURCE if dialect == "native" else as_pi(SOURCE))
    async with house.daemon() as daemon, daemon.connect() as wire:
        for target, at, label_on in (("blocks", "answer", None), ("answer", "answer", "answer")):
            before = await leaf_of(wire)
            summary = {} if label_on else {"summary": "It was tried.", "details": {"a": 1}}
            moved = await go(wire, target, label=f"to {target}", **summary)
            path = await wire.call("session/path", session_id=SESSION)
            rows = [row for row in path["entries"] if row["entry"]["type"] != "label"]
            labels = (await wire.call("session/labels", session_id=SESSION))["labels"]
            labelled = {one["label"]: one["entry_id"] for one in labels}[f"to {target}"]
            assert moved["leaf_id"] == await leaf_of(wire)
            if label_on:
                assert labelled == label_on
                continue
            last = rows[-1]["entry"]
            assert (labelled, last["parent_id"], last["from_id"]) == (last["id"], at, before)
            assert (last["summary"], last["details"]) == ("It was tried.", {"a": 1})
        context = await wire.call("build_context", session_id=SESSION)
        assert context["sources"] == ["plain", "answer"]


def as_pi(lines: list[dict[str, Any]]) -> bytes:
    names = {
        "parent_id": "parentId",
        "custom_type": "customType",
        "from_id": "fromId",
        "first_kept_entry_id": "firstKeptEntryId",
    }
    header = {"type": "session", "version": 3, "id": SESSION, "timestamp": TIME, "cwd": "/p"}
    spelled = [{names.get(name, name): value for name, value in one.items()} for one in lines]
    return b"".join(json.dumps(line).encode() + b"\n" for line in [header, *spelled])


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
        refused = await wire.refusal("session/navigate", session_id=SESSION, **params)
        assert (refused.data["kind"], refused.data.get("path")) == (kind, path)
        assert await leaf_of(wire) == "last"
    assert house.disk.content(file) == before


async def test_of_two_who_move_from_one_leaf_the_second_is_told(house: House) -> None:
    house.put(SOURCE)
    expected = {"leaf_id": "last"}
    async with house.daemon() as daemon, daemon.connect() as one, daemon.connect() as two:
        await leaf_of(one)
        with house.disk.hold("fdatasync") as gate:
            append = {"session_id": SESSION, "message": {"role": "user"}, "expected": expected}
            appended = await one.request("append", **append)
            await arrived(gate)
            moving = await two.request(
                "session/navigate", session_id=SESSION, entry_id="blocks", expected=expected
            )
        new = (await one.answer(appended))["leaf_id"]
        with pytest.raises(Refusal) as refused:
            await two.answer(moving)
        assert refused.value.data["actual"]["leaf_id"] == new
        assert refused.value.data["missed"] == [new]
        # Without a condition it goes from wherever the head has come to.
        moved = await go(two, "blocks", summary="S")
        assert (await stored(two, moved["leaf_id"]))["from_id"] == new


async def test_another_head_goes_alone(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("branch", session_id=SESSION, entry_id="note", head="side")
        moved = await go(wire, "blocks", head="side")
        assert (moved["head"], moved["leaf_id"]) == ("side", "answer")
        assert await leaf_of(wire) == "last"
