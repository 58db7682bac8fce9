"""Files of older versions are read where they are, with ids that stay, and never written to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from sessiond.dialects import sniff
from sessiond.dialects.base import current_lines
from sessiond.dialects.pi.dialect import PI
from sessiond.dialects.pi.migrate import upgrade_of
from sessiond.service.external.watcher import PollingWatcher
from tests.kit.calls import call, part_of, session_info
from tests.kit.house import House
from tests.kit.sessions import HI

SAMPLE = Path(__file__).parents[1] / "samples" / "pi" / "pi-v1-linear.jsonl"
TIME = b'"timestamp":"2026-01-15T10:30:00.000Z"'
V1 = SAMPLE.read_bytes()
V2 = (
    b'{"type":"session","version":2,"id":"old-session",%s,"cwd":"/p"}\n'
    b'{"type":"message","id":"a1","parentId":null,%s,"message":{"role":"user","content":"hi"}}\n'
    b'{"type":"message","id":"a2","parentId":"a1",%s,'
    b'"message":{"role":"hookMessage","customType":"x","content":"said","display":true}}\n'
) % (TIME, TIME, TIME)
V3_HEADER = b'{"type":"session","version":3,"id":"old-session",%s,"cwd":"/p"}\n' % TIME
OPERATORS_LIST = (
    b'{"type":"metadata","id":"old-session","created_at":"2026-01-15T10:30:00","metadata":{}}\n'
    b'{"role":"user","content":"hi"}\n'
    b'{"role":"assistant","content":"said"}\n'
)
OLD = {"pi v1": V1, "pi v2": V2, "operator list": OPERATORS_LIST}
SAID = {
    "pi": {**HI, "timestamp": 1768473000000},
    "operator": {"contents": [], "id": "m", "timestamp": 1768473000.0, "role": "user"},
}
MUTATIONS: dict[str, dict[str, Any]] = {
    "append": {"message": HI},
    "append of entries": {"entries": [{"type": "custom", "custom_type": "x"}]},
    "branch": {"entry_id": None},
    "session/reset": {},
    "session/rewind": {"to": None},
    "session/navigate": {"entry_id": "LEAF"},
    "session/label": {"entry_id": "LEAF", "label": "x"},
    "session/update": {"title": "x"},
    "compact": {"summary": "x", "first_kept_entry_id": None},
    "session/merge": {"other_session_id": "OTHER", "text": "x"},
}


ROWS = "entries[].{seq,entry}"
"""Part of an answer of `session/entries`: each entry with its seq."""


@pytest.fixture
def folder(home: Path) -> Path:
    (home / "project").mkdir(parents=True)
    return home / "project"


@pytest.fixture(params=OLD)
def old(folder: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Return a file of an older version; nothing may touch the file or put another beside it."""
    path = folder / "old.jsonl"
    path.write_bytes(OLD[request.param])
    os.utime(path, (1.0, 1.0))
    before = path.stat()
    yield path
    after = path.stat()
    assert path.read_bytes() == OLD[request.param]
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert [one.name for one in folder.iterdir()] == ["old.jsonl"]


async def test_an_older_version_is_read_where_it_is_with_the_ids_of_every_opening(
    real_house: House, old: Path
) -> None:
    seen: list[Any] = []
    for _ in range(2):
        async with real_house.daemon() as daemon, daemon.connect() as wire:
            info = await call(wire, "session/open", "session", path=str(old))
            assert (info["read_only"], info["read_only_reason"]) == (True, "older_version")
            is_operators = old.read_bytes() == OPERATORS_LIST
            assert info["dialect"] == ("operator" if is_operators else "pi")
            assert info["path"] == str(old)
            for was_closed in (False, True):
                if was_closed:
                    assert (await session_info(wire, info["id"])) == info
                    await wire.call("session/close", session_id=info["id"])
                rows = await call(wire, "session/entries", ROWS, session_id=info["id"])
                said = await call(wire, "build_context", "messages", session_id=info["id"])
                seen.append([rows, said, part_of(info, "{id,seq,leaf_id,epoch}")])
            verified = await wire.call("session/verify", session_id=info["id"])
            assert (verified["problem_count"], verified["read_only"]) == (info["problems"], True)
            imported = (await wire.call("session/import", path=str(old)))["session"]
            copies = await call(wire, "session/entries", ROWS, session_id=imported["id"])
            assert copies == seen[0][0]
            said = await call(wire, "build_context", "messages", session_id=imported["id"])
            assert said == seen[0][1]
            assert imported["read_only_reason"] is None
    assert all(one == seen[0] for one in seen)


async def test_the_context_of_a_list_is_what_pi_makes_of_it(
    real_house: House, folder: Path
) -> None:
    path = folder / "old.jsonl"
    path.write_bytes(V1)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        info = await call(wire, "session/open", "session", path=str(path))
        told = await call(wire, "build_context", "messages", session_id=info["id"])
        said = [one.get("summary") or one["content"] for one in told]
        assert said == ["one+two", "three", "four"]
        assert told[1]["role"] == "custom"
        rows = await call(wire, "session/entries", ROWS, session_id=info["id"])
        ids = [entry["id"] for _, entry in rows]
        assert [entry["parent_id"] for _, entry in rows] == [None, *ids[:-1]]
        assert len(set(ids)) == len(ids)
        path_rows = await wire.call("session/path", session_id=info["id"])
        assert [row["entry"]["id"] for row in path_rows["entries"]] == ids
        tree = await wire.call("session/tree", session_id=info["id"])
        assert [node["id"] for node in tree["nodes"]] == ids
        await wire.call("subscribe", session_id=info["id"], after={"seq": 0})
        events = [(await wire.next_notification())["params"] for _ in ids]
        assert [(one["seq"], one["entry"]) for one in events] == rows


@pytest.mark.parametrize("mutation", MUTATIONS)
async def test_a_mutation_is_refused_and_names_the_ways_to_go_on(
    real_house: House, old: Path, mutation: str
) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        info = await call(wire, "session/open", "session", path=str(old))
        other = (await wire.call("session/create", cwd="/p"))["session"]["id"]
        await wire.call("append", session_id=other, message=HI)
        params = {
            name: {"LEAF": info["leaf_id"], "OTHER": other}.get(value, value)
            if isinstance(value, str)
            else value
            for name, value in MUTATIONS[mutation].items()
        }
        method = mutation.partition(" ")[0]
        if mutation == "session/navigate":
            rows = await call(wire, "session/entries", ROWS, session_id=info["id"])
            params["entry_id"] = rows[0][1]["id"]
        refused = await wire.refusal(method, session_id=info["id"], **params)
        assert (refused.code, refused.data["kind"]) == (-32027, "session_read_only")
        assert refused.data["reason"] == "older_version"
        assert refused.data["retryable"] is False
        for way in ("session/import", "session/fork"):
            assert way in refused.data["use"]
            assert way in str(refused)


async def test_a_fork_of_an_older_version_can_be_changed(real_house: House, old: Path) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        info = await call(wire, "session/open", "session", path=str(old))
        for kind in ("all", "path"):
            fork = await wire.call("session/fork", session_id=info["id"], entries=kind)
            copy = fork["session"]
            assert (copy["dialect"], copy["read_only_reason"]) == (info["dialect"], None)
            for method, part in (("build_context", "messages"), ("session/entries", ROWS)):
                copied = await call(wire, method, part, session_id=copy["id"])
                assert copied == await call(wire, method, part, session_id=info["id"])
            said = SAID[info["dialect"]]
            await wire.call("append", session_id=copy["id"], message=said)


async def test_an_older_version_in_the_folder_of_sessions_is_listed_and_searched(
    real_house: House,
) -> None:
    await to_thread.run_sync(real_house.layout.make_folders, real_house.files)
    path = real_house.layout.sessions / "2026-01-15T10-30-00-000000_old-session.jsonl"
    path.write_bytes(V2)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        page = await wire.call("session/list")
        assert page["sessions"], page
        (row,) = page["sessions"]
        assert page["unreadable"] == []
        assert (row["read_only"], row["read_only_reason"]) == (True, "older_version")
        assert (row["message_count"], row["first_message"]) == (2, "hi")
        (hit,) = (await wire.call("session/search", query="hi"))["hits"]
        assert (hit["entry_id"], hit["seq"]) == ("a1", 1)
        assert (await wire.call("session/open", entry_id="a2"))["session"]["id"] == row["id"]
    more = V2.splitlines(keepends=True)[1].replace(b"a1", b"a3").replace(b"hi", b"later")
    path.write_bytes(V2 + more)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        (hit,) = (await wire.call("session/search", query="later"))["hits"]
        assert (hit["entry_id"], hit["seq"]) == ("a3", 3)
    assert path.read_bytes() == V2 + more


async def test_lines_that_the_old_program_appends_are_events_with_ids_that_stay(
    real_house: House, folder: Path
) -> None:
    path = folder / "old.jsonl"
    path.write_bytes(V1)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        info = await call(wire, "session/open", "session", path=str(path))
        await wire.call("subscribe", session_id=info["id"])
        with path.open("ab") as file:
            file.write(b'{"type":"message",%s,"message":{"role":"user","content":"five"}}\n' % TIME)
        actor = daemon.service.find(info["id"])
        assert actor is not None
        # The session's own task looks: two looks at a time would count a line twice.
        actor._loop.doubt()  # pyright: ignore[reportPrivateUsage]
        told = (await wire.next_notification())["params"]
        assert (told["seq"], told["entry"]["parent_id"]) == (info["seq"] + 1, info["leaf_id"])
        live = await call(wire, "session/entries", ROWS, session_id=info["id"])
        assert live[-1] == (told["seq"], told["entry"])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        session_id = await call(wire, "session/open", "session.id", path=str(path))
        assert await call(wire, "session/entries", ROWS, session_id=session_id) == live


async def test_a_file_that_its_program_brings_up_to_date_can_be_changed_from_then_on(
    real_house: House, folder: Path
) -> None:
    path = folder / "old.jsonl"
    path.write_bytes(V2)
    watching = PollingWatcher(real_house.files, 0.02)
    async with real_house.daemon(watching) as daemon, daemon.connect() as wire:
        info = await call(wire, "session/open", "session", path=str(path))
        await wire.call("subscribe", session_id=info["id"])
        young = folder / "young"
        young.write_bytes(
            b"".join(line + b"\n" for line in current_lines(PI, V2.split(b"\n")[:-1]))
        )
        young.replace(path)
        told = await wire.next_notification()
        assert told["method"] == "session/replaced"
        while told["method"] != "session/changed":
            told = await wire.next_notification()
        assert told["params"]["read_only_reason"] is None
        assert (await session_info(wire, info["id"]))["read_only"] is False
        said = {**HI, "timestamp": 1768473000000}
        answer = await wire.call("append", session_id=info["id"], message=said)
        assert answer["entries"][0]["parent_id"] == "a2"


LINES = V1.split(b"\n")
DAMAGED = {
    "a bad line": b"\n".join([*LINES[:2], b"garbage", *LINES[2:]]),
    "a blank line": b"\n".join([*LINES[:2], b"", *LINES[2:]]),
    "a second header": b"\n".join([*LINES[:2], LINES[0], *LINES[2:]]),
    "no newline at the end": V1[:-1],
    "half a line at the end": V1[:-20],
    "a crlf file": V1.replace(b"\n", b"\r\n"),
}


@pytest.mark.parametrize("kind", DAMAGED)
async def test_a_damaged_file_of_an_older_version_is_read_and_not_rewritten(
    real_house: House, folder: Path, kind: str
) -> None:
    path = folder / "old.jsonl"
    path.write_bytes(DAMAGED[kind])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        info = await call(wire, "session/open", "session", path=str(path))
        rows = await call(wire, "session/entries", ROWS, session_id=info["id"])
        assert info["read_only_reason"] == "older_version"
        assert [entry["parent_id"] for _, entry in rows] == [
            None,
            *[entry["id"] for _, entry in rows[:-1]],
        ]
        refused = await wire.refusal("append", session_id=info["id"], message=HI)
        assert refused.data["kind"] == "session_read_only"
        await call(wire, "build_context", "messages", session_id=info["id"])
        verified = await wire.call("session/verify", session_id=info["id"])
        assert verified["problem_count"] == info["problems"]
    assert path.read_bytes() == DAMAGED[kind]


@pytest.mark.parametrize("content", OLD.values(), ids=OLD)
def test_a_file_cut_at_any_byte_migrates_alike_at_once_and_line_by_line(content: bytes) -> None:
    header = content.index(b"\n") + 1
    dialect = sniff(content[: header - 1])
    assert dialect is not None
    for cut in range(header, len(content)):
        lines = content[:cut].split(b"\n")
        upgrade = dialect.upgrade(lines[0])
        assert upgrade is not None
        taken = [upgrade.header, *map(upgrade.take, lines[1:])]
        assert taken == list(current_lines(dialect, lines))
        assert [upgrade.again(seq, line) for seq, line in enumerate(lines)] == taken


def test_a_file_of_the_current_version_needs_no_migration() -> None:
    assert upgrade_of(V3_HEADER.strip()) is None
    assert json.loads(next(current_lines(PI, [V3_HEADER.strip()])))["version"] == 3
