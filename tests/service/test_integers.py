"""1.0 and 1e3 are integers wherever the schema has one; 1.5 is none; payloads stay as they came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessiond.testing.daemon import Wire
from tests.kit.calls import create_with, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION

HI = '{"role":"user","content":"hi"}'


async def ask(wire: Wire, method: str, params: str) -> Any:
    """Send parameters in exactly this spelling; return the result or the error."""
    wire_id = json.dumps({"method": method, "id": "x"})
    await wire.send(f'{wire_id[:-1]},"params":{params}}}'.encode())
    while True:
        message = json.loads(await wire.receive())
        if message.get("id") == "x":
            return message.get("result", message.get("error"))


# Method and parameters with %s in the place of the integer, the integer, and a member of the result.
PLACES = [
    ("session/list", '{"limit":%s}', 1, "sessions"),
    ("session/entries", '{"session_id":"session-a","after_seq":%s}', 1, "entries"),
    ("session/entries", '{"session_id":"session-a","limit":%s}', 2, "entries"),
    ("session/path", '{"session_id":"session-a","limit":%s}', 2, "entries"),
    ("session/tree", '{"session_id":"session-a","limit":%s}', 2, "nodes"),
    ("subscribe", '{"session_id":"session-a","after":{"seq":%s,"entry_id":"n2"}}', 2, "epoch"),
    ("append", '{"session_id":"session-a","message":' + HI + ',"expected":{"seq":%s}}', 3, "seq"),
    (
        "session/compact",
        '{"session_id":"session-a","summary":"s","tokens_before":%s}',
        1000,
        "entry",
    ),
    (
        "append",
        '{"session_id":"session-a","entries":[{"type":"compaction","summary":"s","tokens_before":%s}]}',
        1000,
        "entries",
    ),
    (
        "append",
        '{"session_id":"session-a","entry":{"type":"session_info","compaction":{"reserve_tokens":%s}}}',
        1000,
        "entries",
    ),
    (
        "session/update",
        '{"session_id":"session-a","compaction":{"keep_recent_tokens":%s}}',
        1000,
        "session",
    ),
    ("session/acquire", '{"session_id":"session-a","ttl_ms":%s}', 10000, "epoch"),
    ("build_context", '{"session_id":"session-a","known":{"leaf_id":"n2","count":%s}}', 2, "etag"),
    ("session/plan_compaction", '{"session_id":"session-a","keep_recent_tokens":%s}', 10, "plan"),
    ("session/usage", '{"session_id":"session-a","context_window":%s}', 100000, "tokens"),
    ("server/ping", '{"_meta":{"progress_token":%s}}', 7, "ok"),
]


@pytest.mark.parametrize(("method", "params", "value", "member"), PLACES)
async def test_an_integer_may_have_a_fraction_of_zeros_or_an_exponent(
    house: House, method: str, params: str, value: int, member: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", "n3", persist="immediate")
        plain = await ask(wire, method, params % value)
        assert member in plain, plain
        spellings = [
            f"{value}.0",
            f"{value}.000",
            f"{value}e0",
            f"{value * 10}E-1",
            f"{value / 1000:.5f}e+3",
        ]
        for number, text in enumerate(spellings):
            await create_with(
                wire, "n1", "n2", "n3", session_id=f"session-{number}", persist="immediate"
            )
            spelled = await ask(wire, method, (params % text).replace(SESSION, f"session-{number}"))
            assert spelled.keys() == plain.keys(), (text, spelled)


@pytest.mark.parametrize(("method", "params", "value", "member"), PLACES)
async def test_what_is_no_whole_number_is_refused_by_its_path(
    house: House, method: str, params: str, value: int, member: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", "n3", persist="immediate")
        for text in (
            f"{value}.5",
            f"{value}e-9",
            "1e400",
            "1e99999999999999999999",
            "[1.0]",
            "true",
        ):
            error = await ask(wire, method, params % text)
            assert member not in error, text
            assert error["data"]["kind"] in {"invalid_params", "entry_invalid"}, (text, error)
            assert error["data"]["path"], error
        assert (await session_info(wire))["seq"] == 3


async def test_a_payload_beside_it_keeps_its_numbers_as_they_were_sent(house: House) -> None:
    message = '{"role":"user","n":[1.0,1e3,1.50],"seq":1.0,"limit":2e0}'
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", "n3", persist="immediate")
        params = f'{{"session_id":"session-a","message":{message},"expected":{{"seq":3.0}}}}'
        assert (await ask(wire, "append", params))["seq"] == 4
        custom = '{"type":"custom","custom_type":"x","data":{"seq":1.0,"tokens_before":1e3}}'
        compaction = '{"type":"compaction","summary":"s","tokens_before":1e3,"details":{"n":1.0}}'
        params = f'{{"session_id":"session-a","entries":[{custom},{compaction}]}}'
        assert (await ask(wire, "append", params))["seq"] == 6
    stored = house.disk.content(house.session_files()[0]).split(b"\n")
    assert message.encode() in stored[4]
    assert b'"data":{"seq":1.0,"tokens_before":1e3}' in stored[5]
    assert b'"tokens_before":1000,"details":{"n":1.0}' in stored[6]


async def test_lease_epochs_are_integers_that_grow(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", "n3", persist="immediate")
        epochs = []
        for _ in range(3):
            params = '{"session_id":"session-a","ttl_ms":1e4}'
            lease = await ask(wire, "session/acquire", params)
            epochs.append(lease["epoch"])
            await wire.call("session/release", session_id=SESSION, lease_id=lease["lease_id"])
        assert all(type(epoch) is int for epoch in epochs)
        assert epochs == sorted({*epochs})


async def test_lines_that_lua_wrote_are_read(house: House) -> None:
    house.put(
        b'{"type":"session_header","version":1.0,"id":"session-a","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'
        b'{"type":"custom","id":"c1","custom_type":"x"}\n'
        b'{"type":"compaction","id":"c2","parent_id":"c1","summary":"s","tokens_before":1e3}\n'
        b'{"type":"session_info","id":"c3","compaction":{"reserve_tokens":5e2,"keep_recent_tokens":1.0}}\n'
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await session_info(wire)
        assert (info["seq"], info["problems"]) == (3, 0)
        nodes = (await wire.call("session/tree", session_id=SESSION))["nodes"]
        assert [node["tokens_before"] for node in nodes] == [None, 1000]
        usage = await wire.call("session/usage", session_id=SESSION)
        assert usage["reserve"] == 500
