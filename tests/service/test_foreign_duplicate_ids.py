"""Foreign lines with the id of an acknowledged entry: a retry is still answered as a duplicate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.limits import SAME_ID_MAX
from sessiond.testing.daemon import Wire
from tests.kit.calls import append, call, create, refused
from tests.kit.house import House
from tests.kit.sessions import entry, stored_message

KEYED: dict[str, Any] = {"message": {"role": "user", "content": "x"}, "idempotency_key": "k"}


@pytest.mark.parametrize(
    "asked",
    [
        {"entry": entry("own1")},
        {"entries": [entry("own1"), entry("own2"), entry("own3")]},
        KEYED,
    ],
    ids=["an id", "several ids", "a key"],
)
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("lines", [1, 3])
async def test_a_retry_is_a_duplicate_whatever_line_another_program_gave_the_same_id(
    house: House, asked: dict[str, Any], lines: int, *, restarted: bool
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        (path,) = house.session_files()
        told = await call(wire, "append", **asked)
        for number in range(lines):
            # Of several entries one in the middle is taken.
            taken = told["entries"][len(told["entries"]) // 2]["id"]
            line = stored_message(taken, None, content=str(number))
            house.disk.write_as_another(path, json.dumps(line).encode() + b"\n")
        # The daemon looks at the file before it appends.
        await append(wire, "between")
        if not restarted:
            await check(wire, asked, told, lines)
    if restarted:
        async with house.daemon() as daemon, daemon.connect() as wire:
            await check(wire, asked, told, lines)


async def check(wire: Wire, asked: dict[str, Any], told: Any, lines: int) -> None:
    again = await call(wire, "append", **asked)
    assert again["duplicate"] is True
    assert (again["entries"], again["seq"]) == (told["entries"], told["seq"])
    stored = await call(wire, "session/entries", "entries")
    assert len(stored) == len(told["entries"]) + lines + 1
    # Other content under the id is refused as ever.
    other: dict[str, Any] = {
        "entry": entry("own1") | {"message": {"role": "user", "content": "other"}}
    }
    if "idempotency_key" in asked:
        other = {**asked, "message": {"role": "user", "content": "other"}}
    elif "entries" in asked:
        other = {"entries": [other["entry"], *asked["entries"][1:]]}
    assert await refused(wire, "append", **other) == "idempotency_conflict"


async def test_a_retry_of_a_compaction_is_a_duplicate_though_its_id_was_taken(house: House) -> None:
    asked = {"summary": "s", "first_kept_entry_id": "own2", "idempotency_key": "k"}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        (path,) = house.session_files()
        await call(wire, "append", entries=[entry("own1"), entry("own2")])
        told = await call(wire, "compact", **asked)
        *_, taken = await call(wire, "session/entries", "entries[].entry.id")
        line = json.dumps(stored_message(taken, None)).encode() + b"\n"
        house.disk.write_as_another(path, line)
        await append(wire, "between")
        again = await call(wire, "compact", **asked)
        # `leaf_id` is where the head stands by now.
        assert again == {**told, "leaf_id": again["leaf_id"]}
        assert len(await call(wire, "session/entries", "entries")) == 5


async def test_of_many_lines_with_one_id_the_first_ones_are_held_against_a_retry(
    house: House,
) -> None:
    asked = {"entry": entry("own1")}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, persist="immediate")
        (path,) = house.session_files()
        told = await call(wire, "append", **asked)
        lines = SAME_ID_MAX + 20
        for number in range(lines):
            line = stored_message("own1", None, content=str(number))
            house.disk.write_as_another(path, json.dumps(line).encode() + b"\n")
        await append(wire, "between")
        await check(wire, asked, told, lines)
        before = house.disk.counts["pread"]
        await call(wire, "append", **asked)
        assert house.disk.counts["pread"] - before <= 2 * SAME_ID_MAX
