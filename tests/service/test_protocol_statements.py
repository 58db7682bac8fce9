"""Small things that protocol.md says and a client found otherwise, one test each."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from anyio import wait_all_tasks_blocked

from sessiond.journal.disk.files import Files
from sessiond.system import SYSTEM
from sessiond.system.linux import LINUX
from sessiond.testing.daemon import Refusal
from tests.kit.calls import append, create_with, session_info
from tests.kit.house import House
from tests.kit.sessions import HI, SESSION

# -- entries ---------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["native", "pi"])
async def test_a_branch_summary_names_a_leaf_that_is_there(house: House, dialect: str) -> None:
    pi = '{"type":"session","version":3,"id":"session-p","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'
    async with house.daemon() as daemon, daemon.connect() as wire:
        if dialect == "pi":
            session_id = (await wire.call("session/import", content=pi))["session"]["id"]
        else:
            await create_with(wire)
            session_id = SESSION
        summary = {"type": "branch_summary", "summary": "s", "from_id": "nope"}
        refused = await wire.refusal("append", session_id=session_id, entry=summary)
        assert (refused.data["kind"], refused.data["path"]) == ("entry_not_found", "entry.from_id")
        message = {"type": "message", "id": "n1", "message": {**HI, "timestamp": 1}}
        both = [message, {**summary, "from_id": "n1"}, {**summary, "from_id": None}]
        assert (await wire.call("append", session_id=session_id, entries=both))["seq"] == 3


# -- hooks -----------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["n3", "n4", "nowhere"])
async def test_a_navigation_that_moves_nothing_asks_nobody(house: House, to: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as asked:
        await create_with(wire, "n1", "n2")
        await append(wire, "n3", role="assistant")
        await append(wire, "n4")
        await wire.call("session/branch", session_id=SESSION, entry_id="n3", head="other")
        await asked.call("initialize", capabilities={"hooks": ["before_branch"]})
        # n4 is what a user says below n3: to say it anew the head goes to n3, where it is.
        params = {"session_id": SESSION, "entry_id": to, "head": "other"}
        if to == "nowhere":
            refused = await wire.refusal("session/navigate", **params)
            assert refused.data["kind"] == "entry_not_found"
        else:
            answer = await wire.call("session/navigate", **params)
            assert (answer["moved"], answer["leaf_id"]) == (False, "n3")
            assert answer["editor_text"] == ("n4" if to == "n4" else None)
        await asked.call("server/ping")
        assert asked.requests == []
        moving = await wire.request("session/navigate", session_id=SESSION, entry_id="n1")
        await asked.reply(await asked.next_request(), {})
        assert (await wire.answer(moving))["editor_text"] == "n1"


# -- leases ----------------------------------------------------------------------------


async def test_who_waits_for_a_lease_when_the_daemon_stops_is_told_that(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as holder, daemon.connect() as waiter:
        await create_with(holder, "n1")
        await holder.call("session/acquire", session_id=SESSION, ttl_ms=60_000)
        number = await waiter.request(
            "session/acquire", session_id=SESSION, ttl_ms=1000, wait_ms=60_000
        )
        await waiter.call("server/ping")
        await wait_all_tasks_blocked()
        (host,) = daemon.service.registry.open_actors()
        assert len(host.leases.waiting) == 1
        await daemon.end()
        with pytest.raises(Refusal, match="draining"):
            await waiter.answer(number)


# -- files -----------------------------------------------------------------------------


async def test_a_file_that_a_daemon_of_another_home_has_open_says_whose_it_is(
    real_house: House, tmp_path: Path
) -> None:
    other_house = House(tmp_path / "other", Files())
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", persist="immediate")
        path = (await session_info(wire))["path"]
        async with other_house.daemon() as other, other.connect() as stranger:
            refused = await stranger.refusal("session/open", path=path)
            assert refused.data["kind"] == "session_locked"
            # Only Linux tells who has locked a file.
            known = {"pid": os.getpid(), "host": Files().host(), "since": None}
            assert refused.data["holder"] == (known if SYSTEM is LINUX else None)


# -- messages --------------------------------------------------------------------------


async def test_a_notification_is_not_answered_whatever_is_in_it(house: House) -> None:
    half = b'"\\ud83d"'
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.send(b'{"method":"no/such","params":{"x":%s}}' % half)
        await wire.send(b'{"method":%s}' % half)
        await wire.send(b'[{"method":"no/such","params":{"x":%s}}]' % half)
        await wire.send(
            b'[{"method":"no/such","params":[%s]},{"id":7,"method":"server/ping"}]' % half
        )
        (only,) = json.loads(await wire.receive())
        assert only["id"] == 7
        assert only["error"]["data"]["kind"] == "invalid_request"
        assert (await wire.call("server/ping"))["ok"]


@pytest.mark.parametrize("params", ["[1]", "5", '"x"', "true", "[[]]", '{"any":1}', "null"])
async def test_initialize_and_initialized_take_anything(house: House, params: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for method in ("initialize", "initialized"):
            await wire.send(f'{{"id":1,"method":"{method}","params":{params}}}'.encode())
            answer = json.loads(await wire.receive())
            assert "error" not in answer, answer
        await wire.send(f'{{"method":"$/whatever","params":{params}}}'.encode())
        await wire.send(b'{"id":2,"method":"server/ping","params":[1]}')
        assert json.loads(await wire.receive())["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        ("1e400", "1e400"),
        ("1e400", "10E399"),
        ("-1e400", "-1e400"),
        ("1e99999999999999999999", "1e99999999999999999999"),
        ("12345678901234567890123", "12345678901234567890123.0"),
        ("1", "1.0"),
        ('"\\u0061"', '"a"'),
        ("null", "null"),
    ],
)
async def test_a_request_is_cancelled_by_the_id_it_was_sent_with(
    house: House, sent: str, named: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as holder, daemon.connect() as wire:
        await create_with(holder, "n1")
        await holder.call("session/acquire", session_id=SESSION, ttl_ms=60_000)
        params = {"session_id": SESSION, "ttl_ms": 1000, "wait_ms": 60_000}
        asked = f'{{"id":{sent},"method":"session/acquire","params":{json.dumps(params)}}}'
        await wire.send(asked.encode())
        await wait_all_tasks_blocked()
        for other in ("2", '"1"', "1.5", "1e401", "12345678901234567890124", '"null"', "0"):
            await wire.send(f'{{"method":"$/cancelRequest","params":{{"id":{other}}}}}'.encode())
        await wire.send(b'{"id":"p","method":"server/ping"}')
        assert json.loads(await wire.receive())["id"] == "p"
        await wire.send(f'{{"method":"$/cancelRequest","params":{{"id":{named}}}}}'.encode())
        body = await wire.receive()
        assert body.startswith(b'{"jsonrpc":"2.0","id":' + sent.encode() + b',"error":')
        assert b'"kind":"cancelled"' in body


# -- access ----------------------------------------------------------------------------


async def test_access_is_given_up_and_never_taken_back(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1")
        for access, refused_ones in (("read", ["write"]), ("status", ["write", "read"])):
            await wire.call("initialize", access=access)
            for more in refused_ones:
                refused = await wire.refusal("initialize", access=more)
                assert (refused.data["kind"], refused.data["need"]) == ("permission_denied", more)
            # Once more, without a word about it: what it has it keeps.
            await wire.call("initialize", client_id="again")
            refused = await wire.refusal("append", session_id=SESSION, message=HI)
            assert refused.data["kind"] == "permission_denied"
        refused = await wire.refusal("session/entries", session_id=SESSION)
        assert refused.data["kind"] == "permission_denied"
