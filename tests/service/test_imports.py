"""Imports of files as they are found: each sample, and files with bad lines inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.limits import PROBLEMS_MAX
from tests.kit.calls import call
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.service.damage import FOREIGN, GOOD, PI_GOOD, PI_HEADER, pi_line

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]
SAMPLES = Path(__file__).parent.parent / "samples"
UID = "00000000-0000-4000-8000-0000000000"
SECRET = "the user's secret"


def ids(beginning: str, *ends: str) -> list[str]:
    return [beginning + end for end in ends]


# Leaf (None where ids are derived), texts or sources of the context at the leaf, dropped lines.
WHOLE: dict[str, tuple[str | None, list[str], list[int]]] = {
    "piglet/piglet": ("6a6b6c6d", ids("", "2a2b2c2d", "2a2b2c2d", "3a3b3c3d", "4a4b4c4d"), []),
    "piglet/piglet-fork": ("b0000005", ["b0000005"], []),
    "piglet/piglet-legacy": ("cafe0001", ["L2", "cafe0001"], [4]),
    "sharur/sharur": (UID + "20", ids(UID, "03", "04", "05", "06", "07", "08", "09", "16"), []),
    "sharur/sharur-branch": (UID + "90", ids(UID, "03", "90"), []),
    "sharur/sharur-export": (None, ["Fix the retry bug in client.go", "Done."], []),
    "sharur/sharur-legacy-kind": (None, ["hello", "hi"], []),
    "pi/pi": ("10000014", ids("100000", "03", "04", "05", "06", "10", "11", "12"), []),
    "pi/pi-v1-linear": (None, ["one+two", "three", "four"], []),
    "operator/operator": (
        "aa000013",
        ids("aa0000", "04", "05", "06", "07", "0f", "11", "12", "13"),
        [],
    ),
    "operator/operator-doc-spelling": ("a2", ["a1", "a2"], []),
}
# Sources of contexts at other entries.
ELSEWHERE = {
    # The compaction 13 gives the summary and the notice.
    "sharur/sharur": (
        UID + "15",
        ids(UID, "13", "07", "08", "09", "11", "12", "13", "14", "15"),
    ),
    "pi/pi": ("1000000f", ids("100000", "0b", "09", "0a", "0d", "0e", "0f")),
    "operator/operator": ("aa00000d", ids("aa0000", "0b", "09", "0a", "0c", "0d")),
}
# Whole lines of each program's file, of which the first is the header.
FILES = {name: cases["nothing"].content for name, cases in FOREIGN.items()}


def text(message: dict[str, Any]) -> Any:
    content = message["content"] if "content" in message else message["summary"]
    return content if isinstance(content, str) else content[0]["text"]


@pytest.mark.parametrize("name", WHOLE)
async def test_each_sample_is_imported_with_its_contents(real_house: House, name: str) -> None:
    path = SAMPLES / f"{name}.jsonl"
    leaf, wanted, dropped = WHOLE[name]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        made = await wire.call("session/import", path=str(path))
        session, report = made["session"], made["report"]
        assert session["dialect"] == report["format"] == path.parent.name
        assert [one["line"] for one in report["problems"]] == dropped
        assert report["dropped"] == report["problem_count"] == len(dropped)
        assert (session["problems"], session["read_only"]) == (0, False)
        built = await call(wire, "build_context", session_id=session["id"])
        if leaf is None:
            assert [text(message) for message in built["messages"]] == wanted
        else:
            assert (session["leaf_id"], built["sources"]) == (leaf, wanted)
        if name in ELSEWHERE:
            entry_id, sources = ELSEWHERE[name]
            place = {"session_id": session["id"], "entry_id": entry_id}
            assert await call(wire, "build_context", "sources", **place) == sources


async def test_a_sample_of_piglet_is_imported_with_labels_title_and_tree(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        made = await wire.call("session/import", path=str(SAMPLES / "piglet" / "piglet.jsonl"))
        asked = {"session_id": made["session"]["id"]}
        assert made["session"]["title"] == "Auth refactor"
        labels = (await wire.call("session/labels", **asked))["labels"]
        assert [(one["entry_id"], one["label"]) for one in labels] == [("ddeeff00", "pivot")]
        assert len((await wire.call("session/path", **asked))["entries"]) == 12
        rows = (await wire.call("session/tree", **asked))["nodes"]
        assert len(rows) == 16
        abandoned = ["88aa77bb", "11223344", "55667788", "99aabbcc"]
        assert [row["id"] for row in rows][-4:] == abandoned


@pytest.mark.parametrize("dialect", FOREIGN)
async def test_what_is_whole_is_imported_and_each_other_line_reported(
    house: House, dialect: str
) -> None:
    path = house.home / "found.jsonl"
    async with house.daemon() as daemon, daemon.connect() as wire:
        for case, damage in FOREIGN[dialect].items():
            house.disk.put(path, damage.content)
            if damage.opens == "refused":
                refused = await wire.refusal("session/import", path=str(path))
                assert refused.data["kind"] == "session_corrupt", case
                continue
            made = await wire.call("session/import", path=str(path))
            session, report = made["session"], made["report"]
            left_out = [place for place in damage.problems if place[1] in {"bad_line", "torn_tail"}]
            found = [(one["line"], one["kind"]) for one in report["problems"]]
            assert [place for place in found if place in left_out] == left_out, case
            assert report["dropped"] == len(left_out), case
            assert len(found) == report["problem_count"]
            assert house.disk.content(path) == damage.content
            checked = await wire.call("session/verify", session_id=session["id"])
            kinds = {one["kind"] for one in checked["problems"]}
            assert kinds.isdisjoint({"bad_line", "torn_tail"}), case
            lines = damage.content.replace(b"\r", b"").rstrip(b"\n").split(b"\n")
            kept = [one for at, one in enumerate(lines, 1) if at not in dict(left_out)]
            if report["migrated_from"] is None:
                copy = house.disk.content(Path(session["path"]))
                # piglet's later headers state the id, too.
                copy = copy.replace(session["id"].encode(), b"session-a")
                assert copy.splitlines()[1:] == kept[1:], case


async def test_a_bad_line_is_reported_by_number_and_reason_and_never_shown(house: House) -> None:
    bad = f'{{"type":"message","id":"x","content":"{SECRET}'.encode()
    content = PI_GOOD + bad + b"\n\n" + pi_line(b"00000002", b'"00000001"') + bad + b"\n"
    path = house.home / "found.jsonl"
    house.disk.put(path, content)
    async with house.daemon() as daemon, daemon.connect() as wire:
        planned = await wire.call("session/import", path=str(path), dry_run=True)
        made = await wire.call("session/import", path=str(path))
        assert planned["report"] == made["report"]
        assert [(one["line"], one["kind"]) for one in made["report"]["problems"]] == [
            (3, "bad_line"),
            (6, "bad_line"),
        ]
        assert all("left out" in one["detail"] for one in made["report"]["problems"])
        assert SECRET not in json.dumps(made)
        assert made["report"]["entries"] == 2
        assert made["session"]["leaf_id"] == "00000002"


async def test_a_line_that_is_too_long_is_left_out_and_a_native_file_with_one_refused(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, LINE_BYTES_MAX=300_000)
    long = pi_line(b"00000002", b'"00000001"').replace(b"1.50", b"x" * 600_000)
    path = house.home / "found.jsonl"
    async with house.daemon() as daemon, daemon.connect() as wire:
        house.disk.put(path, PI_GOOD + long + pi_line(b"00000003", b'"00000001"'))
        report = (await wire.call("session/import", path=str(path)))["report"]
        (problem,) = report["problems"]
        assert (problem["line"], problem["kind"]) == (3, "bad_line")
        assert f"is {len(long) - 1} bytes long" in problem["detail"]
        assert (report["entries"], report["dropped"]) == (2, 1)
        house.disk.put(path, GOOD + long)
        refused = await wire.refusal("session/import", path=str(path))
        assert (refused.data["kind"], refused.data["line"]) == ("session_corrupt", 4)


async def test_of_many_bad_lines_all_are_counted_and_come_before_other_problems(
    house: House,
) -> None:
    orphan = pi_line(b"orphan%02d", b'"nowhere"')
    orphans = b"".join(orphan % number for number in range(50))
    many = PROBLEMS_MAX + 5
    path = house.home / "found.jsonl"
    house.disk.put(path, PI_GOOD + orphans + b"garbage\n" * many)
    async with house.daemon() as daemon, daemon.connect() as wire:
        report = (await wire.call("session/import", path=str(path)))["report"]
        assert (report["dropped"], report["problem_count"]) == (many, many + 50)
        assert len(report["problems"]) == PROBLEMS_MAX
        assert {one["kind"] for one in report["problems"]} == {"bad_line"}
        house.disk.put(path, PI_GOOD + b"garbage\n" + orphans)
        report = (await wire.call("session/import", path=str(path)))["report"]
        places = [(one["line"], one["kind"]) for one in report["problems"]]
        assert places == [(3, "bad_line"), *((line, "orphan") for line in range(4, 54))]


@pytest.mark.parametrize("dialect", FILES)
async def test_a_file_without_a_whole_entry_is_an_error_that_names_the_line(
    house: House, dialect: str
) -> None:
    header = FILES[dialect].splitlines(keepends=True)[0]
    path = house.home / "found.jsonl"
    house.disk.put(path, header + b"\ngarbage\n{bad\n")
    async with house.daemon() as daemon, daemon.connect() as wire:
        refused = await wire.refusal("session/import", path=str(path))
        assert (refused.data["kind"], refused.data["line"]) == ("session_corrupt", 3)
        assert "nothing was imported" in refused.message
        assert (await wire.call("session/list", drafts=True))["sessions"] == []
        # A header alone is a session that is still empty.
        house.disk.put(path, header)
        assert (await wire.call("session/import", path=str(path)))["report"]["entries"] == 0


async def test_lines_behind_settings_that_a_migration_adds_keep_their_numbers(
    house: House,
) -> None:
    lines = (SAMPLES / "sharur" / "sharur-legacy-kind.jsonl").read_bytes().splitlines(keepends=True)
    path = house.home / "found.jsonl"
    house.disk.put(path, b"".join([*lines[:2], b"garbage\n", *lines[2:]]))
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await wire.call("session/import", path=str(path))
        assert [one["line"] for one in made["report"]["problems"]] == [3]
        at = {"session_id": made["session"]["id"]}
        messages = await call(wire, "build_context", "messages", **at)
        assert [text(message) for message in messages] == ["hello", "hi"]


async def test_a_native_file_with_a_bad_line_is_refused_and_a_file_of_pi_is_not(
    house: House,
) -> None:
    path = house.home / "found.jsonl"
    async with house.daemon() as daemon, daemon.connect() as wire:
        house.disk.put(path, GOOD + b"garbage\n")
        refused = await wire.refusal("session/import", path=str(path))
        assert (refused.data["line"], refused.data["repairable"]) == (4, False)
        house.disk.put(path, PI_HEADER + b"garbage\n" + PI_GOOD.splitlines(keepends=True)[1])
        assert (await wire.call("session/import", path=str(path)))["report"]["entries"] == 1
