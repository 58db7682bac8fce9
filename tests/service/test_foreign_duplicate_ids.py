"""Foreign lines with the id of an acknowledged entry: a retry is still answered as a duplicate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.limits import SAME_ID_MAX
from sessiond.testing.daemon import Wire
from tests.kit.calls import create
from tests.kit.house import House
from tests.kit.sessions import SESSION, entry


def foreign(entry_id: str, kind: str = "message", content: str = "of another program") -> bytes:
    """Return a line of a foreign writer."""
    entry = {
        "type": kind,
        "id": entry_id,
        "parent_id": None,
        "timestamp": "2026-01-15T10:30:00.000Z",
        "message": {"role": "user", "content": content},
    }
    return json.dumps(entry).encode() + b"\n"


async def make_file(wire: Wire) -> Path:
    made = await create(wire, persist="immediate", if_exists="open")
    return Path(made["session"]["path"])


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
        path = await make_file(wire)
        told = await wire.call("append", session_id=SESSION, **asked)
        for number in range(lines):
            # Of several entries one in the middle is taken.
            taken = told["entries"][len(told["entries"]) // 2]["id"]
            house.disk.write_as_another(path, foreign(taken, content=str(number)))
        await take_in(wire)
        if not restarted:
            await check(wire, asked, told, lines)
    if restarted:
        async with house.daemon() as daemon, daemon.connect() as wire:
            await check(wire, asked, told, lines)


async def take_in(wire: Wire) -> None:
    """Append something, before which the daemon looks at the file of the session."""
    await wire.call("append", session_id=SESSION, entry=entry("between"))


async def check(wire: Wire, asked: dict[str, Any], told: Any, lines: int) -> None:
    again = await wire.call("append", session_id=SESSION, **asked)
    assert again["duplicate"] is True
    assert (again["entries"], again["seq"]) == (told["entries"], told["seq"])
    page = await wire.call("session/entries", session_id=SESSION)
    assert len(page["entries"]) == len(told["entries"]) + lines + 1
    # Other content under the id is refused as ever.
    other: dict[str, Any] = {
        "entry": entry("own1") | {"message": {"role": "user", "content": "other"}}
    }
    if "idempotency_key" in asked:
        other = {**asked, "message": {"role": "user", "content": "other"}}
    elif "entries" in asked:
        other = {"entries": [other["entry"], *asked["entries"][1:]]}
    refused = await wire.refusal("append", session_id=SESSION, **other)
    assert refused.data["kind"] == "idempotency_conflict"


async def test_a_retry_of_a_compaction_is_a_duplicate_though_its_id_was_taken(house: House) -> None:
    asked = {"summary": "s", "first_kept_entry_id": "own2", "idempotency_key": "k"}
    async with house.daemon() as daemon, daemon.connect() as wire:
        path = await make_file(wire)
        await wire.call("append", session_id=SESSION, entries=[entry("own1"), entry("own2")])
        told = await wire.call("compact", session_id=SESSION, **asked)
        page = await wire.call("session/entries", session_id=SESSION)
        house.disk.write_as_another(path, foreign(page["entries"][-1]["entry"]["id"]))
        await take_in(wire)
        again = await wire.call("compact", session_id=SESSION, **asked)
        # `leaf_id` is where the head stands by now.
        assert again == {**told, "leaf_id": again["leaf_id"]}
        page = await wire.call("session/entries", session_id=SESSION)
        assert len(page["entries"]) == 5


async def test_of_many_lines_with_one_id_the_first_ones_are_held_against_a_retry(
    house: House,
) -> None:
    asked = {"entry": entry("own1")}
    async with house.daemon() as daemon, daemon.connect() as wire:
        path = await make_file(wire)
        told = await wire.call("append", session_id=SESSION, **asked)
        lines = SAME_ID_MAX + 20
        for number in range(lines):
            house.disk.write_as_another(path, foreign("own1", content=str(number)))
        await take_in(wire)
        await check(wire, asked, told, lines)
        before = house.disk.counts["pread"]
        await wire.call("append", session_id=SESSION, **asked)
        assert house.disk.counts["pread"] - before <= 2 * SAME_ID_MAX
