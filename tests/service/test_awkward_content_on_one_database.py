"""Content at the edges, through daemons on one database: the same bytes everywhere, or a clear refusal."""

from __future__ import annotations

import msgspec
import pytest
from anyio import fail_after

from sessiond.limits import FRAME_BYTES_MAX
from tests.kit.calls import append, call, create
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION, native_file
from tests.service.one_database.calls import SAID
from tests.service.one_database.site import Site, clients_of

AWKWARD = {
    "a zero character": rb'"a\u0000b"',
    "a number's spelling": b"1.50",
    "the order of keys": b'{"b":1,"a":2}',
    "an escape that needs none": rb'"\u0041\/"',
    "characters beyond the first plane": '"\U0001f600\U00020000"'.encode(),
    "separators of lines": '"\u2028\u2029\x85"'.encode(),
    "quotes and statements": rb'''"'; DROP TABLE lines; -- \"%s %(x)s $1"''',
    "a backslash and hex": rb'"\\x41\\000"',
}


def frame(payload: bytes, number: int = 7) -> bytes:
    """Return the request that appends a message with a payload."""
    return (
        b'{"jsonrpc":"2.0","id":%d,"method":"append","params":{"session_id":"%b",'
        b'"message":{"role":"user","content":%b}}}' % (number, SESSION.encode(), payload)
    )


@pytest.mark.parametrize("name", AWKWARD)
async def test_a_payload_comes_back_byte_for_byte_at_each_daemon(site: Site, name: str) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await one.send(frame(AWKWARD[name]))
        assert b'"result"' in await one.receive()
        for wire in (one, two):
            await wire.request("session/entries", session_id=SESSION)
            assert b'"content":' + AWKWARD[name] + b"}" in await wire.receive()
    # Also where no daemon has a copy.
    async with clients_of(site, "three") as (three,):
        await three.request("session/entries", session_id=SESSION)
        assert b'"content":' + AWKWARD[name] + b"}" in await three.receive()


@pytest.mark.parametrize(
    "payload",
    [b'"a\x00b"', b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"half \\ud800"', b'"open'],
    ids=["a raw zero byte", "no UTF-8", "a surrogate in UTF-8", "half a pair", "cut"],
)
async def test_what_is_no_json_is_refused_and_stores_nothing(site: Site, payload: bytes) -> None:
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, persist="immediate")
        await one.send(frame(payload))
        answer = msgspec.json.decode(await one.receive())
        assert answer["error"]["data"]["kind"] in {"parse_error", "invalid_request"}
        for wire in (one, two):
            assert await call(wire, "session/entries", "entries") == []
        await append(one, "e-1")


async def test_a_message_as_large_as_a_frame_is_stored_and_one_byte_more_is_refused(
    site: Site,
) -> None:
    room = FRAME_BYTES_MAX - len(frame(b'""'))
    with fail_after(PATIENCE_SECONDS):
        async with clients_of(site, "one") as (one,):
            await create(one, persist="immediate")
            await one.send(frame(b'"' + b"x" * (room + 1) + b'"'))
            answer = msgspec.json.decode(await one.receive())
            assert answer["error"]["data"]["kind"] == "too_large"
            await one.send(frame(b'"' + b"x" * room + b'"'))
            answer = msgspec.json.decode(await one.receive())
            assert answer["result"]["seq"] == 1
        async with clients_of(site, "two") as (two,):
            (said,) = await call(two, "session/entries", "entries[].entry.message.content")
            assert said == "x" * room
            await append(two, "e-2")


async def test_duplicate_and_long_ids_are_kept_as_they_were_imported(site: Site) -> None:
    long = "x" * 1024
    said = {**SAID, "parent_id": None, "timestamp": "2026-01-15T10:30:00.000Z"}
    lines = [
        said | {"id": "twice", "message": {"role": "user", "content": "first"}},
        said
        | {"id": "twice", "parent_id": "twice", "message": {"role": "user", "content": "second"}},
        said | {"id": long, "parent_id": "twice"},
    ]
    async with clients_of(site, "one", "two") as (one, two):
        content = native_file(lines, "session-of-old").decode()
        imported = await one.call("session/import", content=content)
        name = imported["session"]["id"]
        for wire in (one, two):
            page = await wire.call("session/entries", session_id=name)
            assert [row["entry"]["id"] for row in page["entries"]] == ["twice", "twice", long]
            found = await wire.call("session/entry", session_id=name, entry_id=long)
            assert found["seq"] == 3
        stored = await two.call("append", session_id=name, entry=SAID | {"id": "e-1"})
        assert stored["entries"][0]["parent_id"] == long
        again = await one.call("append", session_id=name, entry=SAID | {"id": "e-1"})
        assert again["duplicate"]
        refusal = await one.refusal(
            "append",
            session_id=name,
            entry=SAID | {"id": "twice", "message": {"role": "user", "content": "third"}},
        )
        assert refusal.data["kind"] == "idempotency_conflict"
        refusal = await two.refusal("append", session_id=name, entry=SAID | {"id": long})
        assert refusal.data["kind"] == "invalid_params"


async def test_the_longest_names_are_names_at_each_daemon(site: Site) -> None:
    name, entry_id = "s" * 128, "e" * 128
    async with clients_of(site, "one", "two") as (one, two):
        await create(one, name, persist="immediate")
        await append(two, entry_id, session_id=name)
        page = await one.call("session/entries", session_id=name)
        assert [row["entry"]["id"] for row in page["entries"]] == [entry_id]
        for method, members in (
            ("session/create", {"cwd": "/p", "session_id": name + "s"}),
            ("append", {"session_id": name, "entry": SAID | {"id": entry_id + "e"}}),
        ):
            assert (await one.refusal(method, **members)).data["kind"] == "invalid_params"
