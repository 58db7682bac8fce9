"""Annotations through the daemon: appended, added up, kept over a restart, refused where they say nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.calls import append_all, call, create_with, refused
from tests.kit.house import House
from tests.kit.sessions import SESSION, entry

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]


def custom(name: str, data: Any) -> dict[str, Any]:
    return {"type": "custom", "custom_type": f"sessiond.{name}", "data": data}


def annotation(entry_id: str, **data: Any) -> dict[str, Any]:
    return custom("annotation", {"entry_id": entry_id, "data": data})


async def test_annotations_add_up_and_outlive_the_daemon(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", persist="immediate")
        assert "annotations" not in await call(wire, "session/entry", entry_id="n1")
        await append_all(wire, annotation("n1", reply_to="17", reactions={"a": [1]}))
        patch = annotation("n1", reactions={"a": None, "b": 2})
        sent = {"entry": patch, "idempotency_key": "k", "session_id": SESSION}
        await wire.call("append", **sent)
        assert (await wire.call("append", **sent))["duplicate"]
        assert await call(wire, "session/entry", "annotations", entry_id="n1") == {
            "reply_to": "17",
            "reactions": {"b": 2},
        }
        assert "annotations" not in await call(wire, "session/entry", entry_id="n2")
        # An annotation may be about an entry of the same call.
        await append_all(wire, entry("n3"), annotation("n3", x=1))
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "session/entry", "annotations", entry_id="n1") == {
            "reply_to": "17",
            "reactions": {"b": 2},
        }
        assert await call(wire, "session/entry", "annotations", entry_id="n3") == {"x": 1}


@pytest.mark.parametrize(
    ("entry", "kind", "path"),
    [
        (annotation("nowhere", x=1), "entry_not_found", "entry.data.entry_id"),
        (custom("annotation", {"entry_id": "n1"}), "entry_invalid", "entry.data.data"),
        (custom("annotation", {"entry_id": "n1", "data": 1}), "entry_invalid", "entry.data.data"),
        (custom("annotation", {"data": {}}), "entry_invalid", "entry.data.entry_id"),
        (custom("annotation", None), "entry_invalid", "entry.data"),
        (custom("channel", {"name": ""}), "entry_invalid", "entry.data.name"),
        (custom("channel", {"name": "x", "chat_id": []}), "entry_invalid", "entry.data.chat_id"),
    ],
)
async def test_an_entry_that_says_nothing_is_refused(
    house: House, entry: dict[str, Any], kind: str, path: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        assert await refused(wire, "append", "{kind,path}", entry=entry) == (kind, path)
        assert await call(wire, "session/entries", "seq") == 1
