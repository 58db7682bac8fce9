"""Native files with records as parents of entries, as programs without records write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.testing.daemon import Wire
from tests.kit.calls import call, session_info, watch
from tests.kit.house import House
from tests.kit.sessions import stored_entry, stored_message


def label(entry_id: str, parent_id: str | None, target_id: str) -> Any:
    return stored_entry("label", entry_id, parent_id, target_id=target_id, label="here")


# Every entry is the parent of the next one, whatever it is.
CHAINED = [
    stored_message("a", None),
    stored_message("b", "a", "assistant"),
    label("l1", "b", "b"),
    stored_message("c", "l1"),
    stored_entry("session_info", "i1", "c", name="a title"),
    label("l2", "i1", "a"),
    stored_message("d", "l2", "assistant"),
    stored_message("e", "d"),
]


async def path(wire: Wire) -> list[Any]:
    """Return the ids of the path, each with the parent of its entry where that is another one."""
    rows = await call(wire, "session/path", "entries")
    return [(row["entry"]["id"], row.get("resolved_parent_id")) for row in rows]


async def test_the_path_goes_on_through_labels_and_names(house: House) -> None:
    house.put(CHAINED)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await path(wire) == [("a", None), ("b", None), ("c", "b"), ("d", "c"), ("e", None)]
        assert await call(wire, "build_context", "sources") == list("abcde")
        got = await session_info(wire)
        assert (got["message_count"], got["message_total"], got["problems"]) == (5, 5, 0)
        assert await call(wire, "session/list", "sessions[].message_count") == [5]
        assert await call(wire, "session/entries", "entries[].entry") == CHAINED
        assert await call(wire, "session/verify", "ok")


async def test_the_tree_says_what_is_stored_and_where_it_stands(house: House) -> None:
    house.put(CHAINED)
    async with house.daemon() as daemon, daemon.connect() as wire:
        nodes = await call(wire, "session/tree", "nodes")
        shown = [
            (node["id"], node["parent_id"], node.get("resolved_parent_id"), node["depth"])
            for node in nodes
        ]
        assert shown == [
            ("a", None, None, 0),
            ("b", "a", None, 1),
            ("c", "l1", "b", 2),
            ("d", "l2", "c", 3),
            ("e", "d", None, 4),
        ]
        assert ["resolved_parent_id" in node for node in nodes] == [0, 0, 1, 1, 0]
        entry = await call(wire, "session/entry", "{children,label}", entry_id="b")
        assert entry == (["c"], "here")
        assert await call(wire, "session/labels", "labels[].entry_id") == ["a", "b"]


@pytest.mark.parametrize(
    ("records", "below", "expected"),
    [
        ([stored_entry("leaf", "m", "b", target_id="a", reason="branch")], "m", "ax"),
        ([stored_entry("leaf", "m", "b", target_id=None, reason="reset")], "m", "x"),
        ([stored_entry("leaf", "m", "b", target_id="nope")], "m", "abx"),
        ([stored_entry("leaf", "m", "a", target_id="b", reason="drop", head="h")], "m", "ax"),
        ([label("l", "b", "b"), stored_entry("leaf", "m", "a", target_id="l")], "m", "abx"),
        ([stored_entry("leaf", "m", "b", target_id="a"), label("l", "m", "b")], "l", "ax"),
        ([label("l", "nope", "b")], "l", "x"),
        ([label("l", None, "b")], "l", "x"),
    ],
)
async def test_an_entry_below_a_record_stands_where_the_record_stands(
    house: House, records: list[Any], below: str, expected: str
) -> None:
    house.put(
        [stored_message("a", None), stored_message("b", "a"), *records, stored_message("x", below)]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "build_context", "sources") == list(expected)
        ids = await call(wire, "session/path", "entries[].entry.id")
        assert (ids[-1], len(ids)) == ("x", len(expected))


async def test_a_parent_that_is_not_there_is_said_to_be_none(house: House) -> None:
    house.put([stored_message("a", None), stored_message("x", "nope")])
    async with house.daemon() as daemon, daemon.connect() as wire:
        parents = "entries[].{entry.parent_id,resolved_parent_id}"
        assert await call(wire, "session/path", parents) == [("nope", None)]


async def test_a_head_that_is_moved_to_a_record_is_where_the_record_stands(house: House) -> None:
    file = house.put([stored_message("a", None), stored_message("b", "a"), label("l", "a", "a")])
    async with house.daemon() as daemon, daemon.connect() as wire:
        await watch(wire, after={"seq": 0})
        moved = stored_entry("leaf", "m", "l", target_id="l", reason="branch")
        house.disk.write_as_another(file, json.dumps(moved).encode() + b"\n")
        # Before a mutation the daemon looks at the file.
        await call(wire, "session/update", title="another")
        seqs: dict[int, Any] = {}
        while 4 not in seqs:
            told = await wire.next_notification()
            if told["method"] == "session/event":
                seqs[told["params"]["seq"]] = told["params"]
        got = await session_info(wire)
        assert got["leaf_id"] == "a"
        event = seqs[4]
        assert (event["leaf_id"], event["entry"]["target_id"]) == ("a", "l")
        await call(wire, "session/close")
    async with house.daemon() as daemon, daemon.connect() as wire:
        got = await session_info(wire)
        assert got["leaf_id"] == "a"


async def test_an_append_may_name_a_record_as_its_parent_and_be_sent_again(house: House) -> None:
    house.put(CHAINED)
    async with house.daemon() as daemon, daemon.connect() as wire:
        sent = {"type": "message", "id": "x", "message": {"role": "user"}}
        stored = await call(wire, "append", entry=sent, parent_id="l1")
        assert stored["entries"][0]["parent_id"] == "l1"
        assert await path(wire) == [("a", None), ("b", None), ("x", "b")]
        await call(wire, "session/close")
        again = await call(wire, "append", entry=sent, parent_id="l1")
        assert (again["duplicate"], again["entries"]) == (True, stored["entries"])
        assert await call(wire, "build_context", "sources") == ["a", "b", "x"]


@pytest.mark.parametrize(
    ("first_kept", "expected"), [("l1", "kcde"), ("l2", "kde"), ("l3", "k"), ("b", "kbcde")]
)
async def test_a_compaction_that_keeps_from_a_record_keeps_what_is_below_it(
    house: House, first_kept: str, expected: str
) -> None:
    compaction = stored_entry("compaction", "k", "l3", summary="S", first_kept_entry_id=first_kept)
    house.put([*CHAINED, label("l3", "e", "a"), compaction])
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "build_context", "sources") == list(expected)
        assert await call(wire, "session/verify", "ok")


async def test_moves_go_by_where_entries_stand(house: House) -> None:
    house.put(CHAINED)
    async with house.daemon() as daemon, daemon.connect() as wire:
        moved = await call(wire, "session/navigate", entry_id="c")
        assert (moved["leaf_id"], moved["editor_text"]) == ("b", "text of c")
        await call(wire, "session/branch", entry_id="e")
        assert await call(wire, "session/rewind", "rewound", to="b") == ["c", "d", "e"]


@pytest.mark.parametrize("labels", [True, False])
async def test_a_copy_without_labels_has_every_entry_where_it_stood(
    house: House, labels: bool
) -> None:
    compaction = stored_entry("compaction", "k", "l3", summary="S", first_kept_entry_id="l1")
    house.put([*CHAINED, label("l3", "e", "a"), compaction, stored_message("f", "k")])
    async with house.daemon() as daemon, daemon.connect() as wire:
        for taken in ("all", "path"):
            asked = {"entries": taken, "labels": labels}
            copy = await call(wire, "session/fork", "session.id", **asked)
            assert await call(wire, "build_context", "sources", session_id=copy) == list("kcdef")
            assert await call(wire, "session/verify", "ok", session_id=copy)
