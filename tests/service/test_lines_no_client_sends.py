"""Lines of a file that no client could have sent: every read copes with them.

Half surrogate pairs (JavaScript writes them when it cuts a text), bytes that are not UTF-8, fields
of other types. Each of these once led to an `internal` error.
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sessiond.testing.wire import RawWire
from tests.kit.calls import call
from tests.kit.house import House
from tests.kit.sessions import SESSION

TIME = b'"timestamp":"2026-01-15T10:30:00.000Z"'
HEADER = b'{"type":"session_header","version":1,"id":"session-a",%b,"cwd":"/p"}\n' % TIME
PI = b'{"type":"session","version":3,"id":"session-a",%b,"cwd":"/p"}\n' % TIME
ONE = (
    b'{"type":"message","id":"n1","parent_id":null,%b,"message":{"role":"user","content":"x"}}\n'
    % TIME
)
HALF = rb'"cut \ud83d"'
READS: dict[str, dict[str, Any]] = {
    "session/get": {},
    "session/entries": {},
    "session/entries ": {"types": ["zz", "message"]},
    "session/entry": {"entry_id": "n2"},
    "session/path": {},
    "session/tree": {},
    "session/tree ": {"form": "text"},
    "session/tree  ": {"form": "nested"},
    "session/turns": {},
    "session/turns ": {"view": "agent"},
    "session/labels": {},
    "session/heads": {},
    "session/build_context": {},
    "session/export": {},
    "session/verify": {},
    "session/subscribe": {"after": {"seq": 0}, "types": ["zz", "message", "compaction"]},
    "session/flush": {},
}


class Tolerant(RawWire):
    """A client that takes every JSON that Python's reader takes, half a surrogate pair too."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.events: list[dict[str, Any]] = []

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer, a result or an error."""
        body = {"id": 1, "method": method.strip(), "params": {"session_id": SESSION, **params}}
        await self.send_bytes(json.dumps(body).encode() + b"\n")
        while "id" not in (message := await self.message()):
            self.events.append(message)
        assert isinstance(message, dict)
        return message


@asynccontextmanager
async def tolerant(house: House, content: bytes) -> AsyncGenerator[Tolerant]:
    house.put(content)
    async with house.daemon() as daemon:
        wire = Tolerant(daemon.open_socket())
        yield wire
        wire.close()


NATIVE_HALVES = [
    b'{"type":"message","id":"n2","parent_id":"n1",%b,"message":{"role":"user","content":%b}}\n',
    b'{"type":"compaction","id":"n2","parent_id":"n1",%b,"summary":%b,"tokens_before":7}\n',
    b'{"type":"zz","id":"n2","parent_id":"n1",%b,"words":%b}\n',
    b'{"type":"label","id":"n2","parent_id":"n1",%b,"target_id":"n1","label":%b}\n',
    b'{"type":"session_info","id":"n2","parent_id":"n1",%b,"name":%b,"metadata":{"a":"\\ud800"}}\n',
    b'{"type":"custom_message","id":"n2","parent_id":"n1",%b,"custom_type":"x","content":%b,"display":true}\n',
    b'{"type":"branch_summary","id":"n2","parent_id":"n1",%b,"summary":%b,"from_id":null}\n',
]


@pytest.mark.parametrize("dialect", ["native", "pi"])
@pytest.mark.parametrize("line", NATIVE_HALVES)
async def test_half_a_surrogate_pair_in_a_file_is_shown_by_every_read(
    house: House, dialect: str, line: bytes
) -> None:
    content = HEADER + ONE + line % (TIME, HALF)
    if dialect == "pi":
        content = PI + (ONE + line % (TIME, HALF)).replace(b"parent_id", b"parentId")
    async with tolerant(house, content) as client:
        for method, params in READS.items():
            answer = await client.ask(method, **params)
            found = answer.get("error", {}).get("data", {}).get("kind")
            assert found in {None, "entry_not_found"}, (method, answer)
        if b'"zz"' in line or b'"message"' in line:
            events = [one["params"]["entry"] for one in client.events if "entry" in one["params"]]
            assert "cut \ud83d" in json.dumps(events[1]).encode().decode("unicode_escape")
        # Whoever appends under its id is told that it is taken, not that there is a bug.
        entry = {"type": "custom", "id": "n2", "custom_type": "x"}
        answer = await client.ask("session/append", entry=entry)
        assert answer["error"]["data"]["kind"] == "idempotency_conflict"


@pytest.mark.parametrize(
    "odd", ['"atom":["1","2"]', '"timestamp":[1]', '"parent_id":7', '"head":1']
)
async def test_an_id_that_an_odd_line_has_is_taken(house: House, odd: str) -> None:
    line = b'{"type":"zz","id":"n2",%b}\n' % odd.encode()
    async with tolerant(house, HEADER + ONE + line) as client:
        entry = {"type": "custom", "id": "n2", "custom_type": "x"}
        answer = await client.ask("session/append", entry=entry)
        assert answer["error"]["data"] == {
            "kind": "idempotency_conflict",
            "retryable": False,
            "entry_id": "n2",
            "stored_seq": 2,
        }


async def test_an_export_into_an_answer_says_which_line_is_not_utf8(
    house: House, home: Any
) -> None:
    content = HEADER + ONE + b'{"type":"zz","id":"n2","x":"\xff"}\n'
    house.put(content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        refused = await wire.refusal("session/export", session_id=SESSION)
        assert (refused.data["kind"], refused.data["line"]) == ("session_corrupt", 3)
        copy = home / "copy.jsonl"
        await call(wire, "session/export", path=str(copy))
        assert house.disk.content(copy) == content


async def test_one_file_that_is_not_utf8_keeps_nobody_from_searching(house: House) -> None:
    house.put(
        HEADER + ONE + b'{"type":"zz\xff","id":"n2"}\n{"id":"n3","type":"message",'
        b'"message":{"role":"user","content":"x\xe9x"}}\n'
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        (hit,) = (await wire.call("session/search", query="x"))["hits"]
        assert (hit["session_id"], hit["seq"]) == (SESSION, 1)


async def test_half_an_append_before_a_bad_line_goes_with_it(house: House) -> None:
    """Else it would be at the end, and half of it: damage again, cut at the next opening."""
    atom = [
        ONE.replace(b'"n1"', b'"a%d"' % k).replace(b',"message"', b',"atom":[%d,3],"message"' % k)
        for k in (1, 2)
    ]
    atom[0] = atom[0].replace(b',"message"', b',"atom_of":"session-a","message"')
    path = house.put(HEADER + ONE + b"".join(atom) + b"garbage\n" + b'{"half')
    async with house.daemon() as daemon, daemon.connect() as wire:
        plan = await call(wire, "session/repair")
        assert plan["dropped_lines"] == [3, 4, 5, 6]
        done = await call(wire, "session/repair", dry_run=False)
        assert done["repaired"]
        assert (await call(wire, "session/verify"))["ok"]
    assert house.disk.content(path) == HEADER + ONE


async def test_half_an_append_that_goes_on_behind_a_bad_line_is_whole(house: House) -> None:
    atom = [
        ONE.replace(b'"n1"', b'"a%d"' % k).replace(b',"message"', b',"atom":[%d,2],"message"' % k)
        for k in (1, 2)
    ]
    path = house.put(HEADER + atom[0] + b"garbage\n" + atom[1])
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (await call(wire, "session/repair", dry_run=False))["dropped_lines"] == [3]
    assert house.disk.content(path) == HEADER + atom[0] + atom[1]


async def test_a_header_of_ours_inside_a_file_of_pis_is_no_entry(house: House) -> None:
    house.put(PI + HEADER + ONE.replace(b"parent_id", b"parentId"))
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert [row["seq"] for row in (await call(wire, "session/entries"))["entries"]] == [2]
        content = (await call(wire, "session/export"))["content"]
        assert (await wire.call("session/import", content=content))["report"]["entries"] == 1
