"""Defects of the programs that sessiond replaces: files, ids, answers and slow subscribers.

As in `test_predecessor_defects`, each test is named after its line in section D of the facts about them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.calls import append, call, create, create_with, refused, watch
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION, TIME, native_file, native_header, stored_message

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]
GOOD = native_file([stored_message("m1", None), stored_message("m2", "m1", "assistant")])
PI_HEADER = {"type": "session", "version": 3, "id": SESSION, "timestamp": TIME, "cwd": "/p"}
NO_SESSIONS = {
    "no header": native_file([stored_message("m1", None)]).split(b"\n", 1)[1],
    "garbage first": b"garbage\n" + GOOD,
    "half a header": GOOD[:30],
    "empty": b"",
    "a newer pi": json.dumps(PI_HEADER | {"version": 4}).encode() + b"\n",
}
DAMAGED = {
    **NO_SESSIONS,
    "a bad line": GOOD + b"{bad\n",
    "a torn end": GOOD[:-20],
    "no newline": GOOD[:-1],
    "two headers": GOOD + GOOD,
}


@pytest.mark.parametrize("case", NO_SESSIONS)
async def test_d4b_an_unreadable_session_is_an_error_and_no_fresh_start(
    house: House, case: str
) -> None:
    path = house.put(NO_SESSIONS[case])
    before = house.contents()
    asked: list[tuple[str, dict[str, Any]]] = [
        ("session/open", {"session_id": SESSION}),
        ("session/open", {"session_id": SESSION, "create": True}),
        ("session/open", {"path": str(path)}),
        ("session/create", {"session_id": SESSION, "cwd": "/p", "if_exists": "open"}),
        ("append", {"session_id": SESSION, "message": {"role": "user", "content": "anew"}}),
    ]
    async with house.daemon() as daemon, daemon.connect() as wire:
        for method, params in asked:
            assert await refused(wire, method, **params) == "session_corrupt", method
    assert house.contents() == before


@pytest.mark.parametrize("dialect", ["native", "piglet"])
async def test_d5_a_line_of_a_megabyte_loads_and_lists(house: House, dialect: str) -> None:
    long = "x" * 1_000_000
    if dialect == "native":
        house.put([stored_message("m1", None), stored_message("m2", "m1", content=long)])
    else:
        about = {"id": SESSION, "cwd": "/p", "createdAt": TIME}
        lines: list[dict[str, Any]] = [
            {"type": "meta", "ts": TIME, "data": about},
            {"type": "user", "id": "aa000001", "ts": TIME, "data": {"content": "text of m1"}},
            {"type": "user", "id": "aa000002", "parentId": "aa000001", "ts": TIME},
        ]
        lines[2]["data"] = {"content": long}
        house.put(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    async with house.daemon() as daemon, daemon.connect() as wire:
        page = await wire.call("session/list")
        assert ([one["id"] for one in page["sessions"]], page["unreadable"]) == ([SESSION], [])
        assert page["sessions"][0]["dialect"] == dialect
        said = await call(wire, "build_context", "messages[].content")
        assert said == ["text of m1", long]


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("case", DAMAGED)
async def test_d9_opening_a_damaged_file_never_changes_it(
    house: House, case: str, killed: bool
) -> None:
    path = house.put(DAMAGED[case], killed=killed)
    before = house.contents()
    for _ in range(2):
        async with house.daemon() as daemon, daemon.connect() as wire:
            for params in ({"session_id": SESSION}, {"path": str(path)}):
                if case in NO_SESSIONS:
                    await wire.refusal("session/open", **params)
                else:
                    opened = await wire.call("session/open", **params)
                    assert opened["session"]["message_total"] >= 1
            await wire.call("session/list")
            await call(wire, "session/verify")
    assert house.contents() == before
    assert {one for one in house.disk.paths if one.parent == path.parent} == {path}


@pytest.mark.parametrize("bad", ["abcdefgh\n", "../x", "../../secret", "/etc/passwd", "a" * 7])
async def test_d15_an_id_that_is_a_path_is_refused(house: House, bad: str) -> None:
    house.put([stored_message("m1", None)])
    before = house.contents()
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("session/create", "session_id", {"cwd": "/p"}),
        ("session/open", "session_id", {"create": True}),
        ("session/get", "session_id", {}),
        ("append", "session_id", {"message": {"role": "user", "content": "hi"}}),
        ("session/delete", "session_id", {}),
        ("session/fork", "new_session_id", {"session_id": SESSION}),
        ("session/merge", "other_session_id", {"session_id": SESSION, "text": "both"}),
    ]
    async with house.daemon() as daemon, daemon.connect() as wire:
        for method, name, params in asked:
            refusal = await refused(wire, method, "{kind,path}", **params, **{name: bad})
            assert refusal == ("invalid_params", name)
        # A header may say anything: it names no file.
        header = native_header() | {"id": bad}
        content = json.dumps(header) + "\n"
        made = await call(wire, "session/import", "session", content=content)
        assert Path(made["path"]).parent == house.layout.sessions
        assert made["id"] != bad
    assert set(house.session_files()) - set(before) == {Path(made["path"])}


async def test_d20_a_subscriber_that_falls_behind_is_told_and_sees_all(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, OUTBOX_BYTES_MAX=64 * 1024)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as stuck:
        await create(wire, persist="immediate")
        await watch(stuck)
        count = 40
        for n in range(1, count + 1):
            await append(wire, f"n{n}", "x" * 20_000)
        told: list[Any] = []
        while not told or told[-1] != "synced":
            message = await stuck.next_notification()
            word = message["method"].removeprefix("session/")
            told.append(message["params"]["seq"] if word == "event" else word)
        assert told.count("lagged") == 1
        assert [one for one in told if isinstance(one, int)] == list(range(1, count + 1))


async def test_d22_success_is_answered_as_success(house: House) -> None:
    done: list[tuple[str, dict[str, Any]]] = [
        ("session/open", {}),
        ("session/update", {"title": "T"}),
        ("append", {"entry": {"type": "custom", "id": "c1", "custom_type": "x"}}),
        (
            "append",
            {
                "entry": {
                    "type": "custom_message",
                    "id": "c2",
                    "custom_type": "x",
                    "content": "hi",
                    "display": True,
                }
            },
        ),
        ("session/label", {"entry_id": "u1", "label": "here"}),
        ("session/branch", {"entry_id": "u1"}),
        ("session/branch", {"entry_id": None, "summary": "what was"}),
        ("session/reset", {}),
    ]
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "u1", persist="immediate")
        for number, (method, params) in enumerate(done):
            body = {"id": f"r{number}", "method": method}
            await wire.send(body | {"params": {"session_id": SESSION} | params})
            answer = json.loads(await wire.receive())
            assert (answer.keys(), answer["id"]) == ({"jsonrpc", "id", "result"}, f"r{number}")
    types = [line["type"] for line in house.stored()]
    wanted = ["session_info", "custom", "custom_message", "label", "leaf", "branch_summary", "leaf"]
    assert types == ["session_header", "message", *wanted]
