"""Native files with records as parents of entries, as programs without records write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Wire
from tests.kit.calls import session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION, TIME


def record(entry_id: str, parent_id: str | None, type_: str = "message", **fields: Any) -> Any:
    entry: dict[str, Any] = {"type": type_, "id": entry_id, "parent_id": parent_id}
    entry["timestamp"] = TIME
    if type_ == "message":
        role = fields.pop("role", "user")
        entry["message"] = {"role": role, "content": entry_id}
    return entry | fields


def label(entry_id: str, parent_id: str | None, target_id: str) -> Any:
    return record(entry_id, parent_id, "label", target_id=target_id, label="here")


# Every entry is the parent of the next one, whatever it is.
CHAINED = [
    record("a", None),
    record("b", "a", role="assistant"),
    label("l1", "b", "b"),
    record("c", "l1"),
    record("i1", "c", "session_info", name="a title"),
    label("l2", "i1", "a"),
    record("d", "l2", role="assistant"),
    record("e", "d"),
]


async def path(wire: Wire, **at: Any) -> list[Any]:
    answer = await wire.call("session/path", session_id=SESSION, **at)
    return [(row["entry"]["id"], row.get("resolved_parent_id")) for row in answer["entries"]]


async def sources(wire: Wire, **more: Any) -> Any:
    return (await wire.call("build_context", session_id=SESSION, **more))["sources"]


def write_on(house: House, file: Path, *lines: Any) -> None:
    house.disk.write_as_another(file, b"".join(json.dumps(one).encode() + b"\n" for one in lines))


async def test_the_path_goes_on_through_labels_and_names(house: House) -> None:
    house.put(CHAINED)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await path(wire) == [("a", None), ("b", None), ("c", "b"), ("d", "c"), ("e", None)]
        assert await sources(wire) == list("abcde")
        got = await session_info(wire)
        assert (got["message_count"], got["message_total"], got["problems"]) == (5, 5, 0)
        (listed,) = (await wire.call("session/list"))["sessions"]
        assert listed["message_count"] == 5
        rows = await wire.call("session/entries", session_id=SESSION)
        assert [row["entry"] for row in rows["entries"]] == CHAINED
        verified = await wire.call("session/verify", session_id=SESSION)
        assert verified["ok"]


async def test_the_tree_says_what_is_stored_and_where_it_stands(house: House) -> None:
    house.put(CHAINED)
    async with house.daemon() as daemon, daemon.connect() as wire:
        tree = await wire.call("session/tree", session_id=SESSION)
        shown = [
            (node["id"], node["parent_id"], node.get("resolved_parent_id"), node["depth"])
            for node in tree["nodes"]
        ]
        assert shown == [
            ("a", None, None, 0),
            ("b", "a", None, 1),
            ("c", "l1", "b", 2),
            ("d", "l2", "c", 3),
            ("e", "d", None, 4),
        ]
        assert ["resolved_parent_id" in node for node in tree["nodes"]] == [0, 0, 1, 1, 0]
        entry = await wire.call("session/entry", session_id=SESSION, entry_id="b")
        assert (entry["children"], entry["label"]) == (["c"], "here")
        labels = await wire.call("session/labels", session_id=SESSION)
        assert [row["entry_id"] for row in labels["labels"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("records", "below", "expected"),
    [
        ([record("m", "b", "leaf", target_id="a", reason="branch")], "m", "ax"),
        ([record("m", "b", "leaf", target_id=None, reason="reset")], "m", "x"),
        ([record("m", "b", "leaf", target_id="nope")], "m", "abx"),
        ([record("m", "a", "leaf", target_id="b", reason="drop", head="h")], "m", "ax"),
        ([label("l", "b", "b"), record("m", "a", "leaf", target_id="l")], "m", "abx"),
        ([record("m", "b", "leaf", target_id="a"), label("l", "m", "b")], "l", "ax"),
        ([label("l", "nope", "b")], "l", "x"),
        ([label("l", None, "b")], "l", "x"),
    ],
)
async def test_an_entry_below_a_record_stands_where_the_record_stands(
    house: House, records: list[Any], below: str, expected: str
) -> None:
    house.put([record("a", None), record("b", "a"), *records, record("x", below)])
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await sources(wire) == list(expected)
        *_, (name, _) = shown = await path(wire)
        assert (name, len(shown)) == ("x", len(expected))


async def test_a_parent_that_is_not_there_is_said_to_be_none(house: House) -> None:
    house.put([record("a", None), record("x", "nope")])
    async with house.daemon() as daemon, daemon.connect() as wire:
        (row,) = (await wire.call("session/path", session_id=SESSION))["entries"]
        assert (row["entry"]["parent_id"], row["resolved_parent_id"]) == ("nope", None)


async def test_a_head_that_is_moved_to_a_record_is_where_the_record_stands(house: House) -> None:
    file = house.put([record("a", None), record("b", "a"), label("l", "a", "a")])
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("subscribe", session_id=SESSION, after={"seq": 0})
        write_on(house, file, record("m", "l", "leaf", target_id="l", reason="branch"))
        # Before a mutation the daemon looks at the file.
        await wire.call("session/update", session_id=SESSION, title="another")
        seqs: dict[int, Any] = {}
        while 4 not in seqs:
            told = await wire.next_notification()
            if told["method"] == "session/event":
                seqs[told["params"]["seq"]] = told["params"]
        got = await session_info(wire)
        assert got["leaf_id"] == "a"
        event = seqs[4]
        assert (event["leaf_id"], event["entry"]["target_id"]) == ("a", "l")
        await wire.call("session/close", session_id=SESSION)
    async with house.daemon() as daemon, daemon.connect() as wire:
        got = await session_info(wire)
        assert got["leaf_id"] == "a"


async def test_an_append_may_name_a_record_as_its_parent_and_be_sent_again(house: House) -> None:
    house.put(CHAINED)
    async with house.daemon() as daemon, daemon.connect() as wire:
        call = {"session_id": SESSION, "entry": record("x", None) | {"message": {"role": "user"}}}
        for name in ("parent_id", "timestamp"):
            del call["entry"][name]
        stored = await wire.call("append", **call, parent_id="l1")
        assert stored["entries"][0]["parent_id"] == "l1"
        assert await path(wire) == [("a", None), ("b", None), ("x", "b")]
        await wire.call("session/close", session_id=SESSION)
        again = await wire.call("append", **call, parent_id="l1")
        assert (again["duplicate"], again["entries"]) == (True, stored["entries"])
        assert await sources(wire) == ["a", "b", "x"]


@pytest.mark.parametrize(
    ("first_kept", "expected"), [("l1", "kcde"), ("l2", "kde"), ("l3", "k"), ("b", "kbcde")]
)
async def test_a_compaction_that_keeps_from_a_record_keeps_what_is_below_it(
    house: House, first_kept: str, expected: str
) -> None:
    compaction = record("k", "l3", "compaction", summary="S", first_kept_entry_id=first_kept)
    house.put([*CHAINED, label("l3", "e", "a"), compaction])
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await sources(wire) == list(expected)
        verified = await wire.call("session/verify", session_id=SESSION)
        assert verified["ok"]


async def test_moves_go_by_where_entries_stand(house: House) -> None:
    house.put(CHAINED)
    async with house.daemon() as daemon, daemon.connect() as wire:
        moved = await wire.call("session/navigate", session_id=SESSION, entry_id="c")
        assert (moved["leaf_id"], moved["editor_text"]) == ("b", "c")
        await wire.call("session/branch", session_id=SESSION, entry_id="e")
        rewound = await wire.call("session/rewind", session_id=SESSION, to="b")
        assert rewound["rewound"] == ["c", "d", "e"]


@pytest.mark.parametrize("labels", [True, False])
async def test_a_copy_without_labels_has_every_entry_where_it_stood(
    house: House, labels: bool
) -> None:
    compaction = record("k", "l3", "compaction", summary="S", first_kept_entry_id="l1")
    house.put([*CHAINED, label("l3", "e", "a"), compaction, record("f", "k")])
    async with house.daemon() as daemon, daemon.connect() as wire:
        for taken in ("all", "path"):
            copy = await wire.call("session/fork", session_id=SESSION, entries=taken, labels=labels)
            at = {"session_id": copy["session"]["id"]}
            built = await wire.call("build_context", **at)
            assert built["sources"] == list("kcdef")
            assert (await wire.call("session/verify", **at))["ok"]
