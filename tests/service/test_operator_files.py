"""Operator's files where they are: what reading them gives, and changes that Operator reads too."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.wire import Wire
from tests.kit.calls import call
from tests.kit.house import House, put_sample
from tests.kit.readers.operator import OperatorReader

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]

Json = Any
SAMPLES = Path(__file__).parent.parent / "samples" / "operator"
SAMPLE = {
    name: (SAMPLES / f"{name}.jsonl").read_bytes() for name in ("operator", "operator-doc-spelling")
}
TEXT = {"type": "text", "content": "hi"}


def said(role: str = "user", *contents: Json) -> Json:
    """Return a message of Operator's shape."""
    return {
        "contents": list(contents or (TEXT,)),
        "id": "m",
        "timestamp": 1784000000.25,
        "role": role,
    }


class Opened:
    """A file of Operator's, opened in place, and Operator's own reading of the file."""

    def __init__(self, house: House, wire: Wire, path: Path, session: Json) -> None:
        self.house = house
        self.wire = wire
        self.path = path
        self.session = session
        self.before = house.disk.content(path)

    async def call(self, method: str, **params: Json) -> Json:
        return await self.wire.call(method, session_id=self.session["id"], **params)

    @property
    def reader(self) -> OperatorReader:
        return OperatorReader(self.house.disk.content(self.path))

    def added(self) -> list[Json]:
        """Return the lines since the last call, and check that nothing before them changed."""
        content = self.house.disk.content(self.path)
        assert content.startswith(self.before)
        lines = [json.loads(line) for line in content[len(self.before) :].splitlines()]
        self.before = content
        return lines

    async def check(self) -> None:
        """Check that sessiond and Operator read the same out of the file."""
        reader = self.reader
        info = (await self.call("session/get"))["session"]
        assert (info["leaf_id"], info["problems"]) == (reader.leaf_id, 0)
        built = await self.call("build_context")
        messages = zip(built["sources"], built["messages"], strict=True)
        found = [(source, one["role"], one["contents"]) for source, one in messages]
        assert found == reader.context()
        assert (built["thinking_level"], built["model"]) == reader.settings()
        tree = await self.call("session/tree")
        labels = {one["id"]: one["label"] for one in tree["nodes"] if one.get("label")}
        assert labels == reader.labels


async def opened(house: House, wire: Wire, path: Path) -> Opened:
    session = (await wire.call("session/open", path=str(path)))["session"]
    return Opened(house, wire, path, session)


# -- reading -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["operator", "operator-doc-spelling"])
async def test_a_file_is_read_as_operator_reads_it(house: House, name: str) -> None:
    path = put_sample(house, name)
    async with house.daemon() as daemon, daemon.connect() as wire:
        file = await opened(house, wire, path)
        assert (file.session["dialect"], file.session["read_only"]) == ("operator", False)
        await file.check()
        for entry in file.reader.by_id.values():
            shown = await file.call("session/entry", entry_id=entry["id"])
            assert shown["entry"]["type"] == entry["type"]
        verified = await file.call("session/verify")
        assert (verified["ok"], verified["dialect"]) == (True, "operator")
    assert house.disk.content(path) == SAMPLE[name]


async def test_the_sample_gives_title_search_and_batched_results(house: House) -> None:
    path = put_sample(house, "operator")
    async with house.daemon() as daemon, daemon.connect() as wire:
        file = await opened(house, wire, path)
        assert file.session["title"] == "Release planning"
        assert file.session["first_message"] == "Plan the release"
        assert file.session["usage"]["input_tokens"] == 5 * 812
        entry = await file.call("session/entry", entry_id="aa000004")
        assert entry["entry"]["meta"]["channel_message_id"] == "m-77"
        shaped = await file.call("build_context", shape="openai")
        results = [one for one in shaped["messages"] if one["role"] == "tool"]
        assert [(one["tool_call_id"], one["content"]) for one in results] == [
            ("t1", "v1"),
            ("t2", "1.0"),
        ]
        at = await file.call("build_context", entry_id="aa00000d")
        assert [one[-2:] for one in at["sources"]] == ["0b", "09", "0a", "0c", "0d"]


# -- changes -----------------------------------------------------------------


async def test_each_change_is_written_as_operator_writes_it(house: House) -> None:
    path = put_sample(house, "operator")
    async with house.daemon() as daemon, daemon.connect() as wire:
        file = await opened(house, wire, path)
        first = (await file.call("append", message=said()))["leaf_id"]
        (line,) = file.added()
        assert list(line) == ["id", "timestamp", "parent_id", "type", "message"]
        assert (line["id"], line["parent_id"], line["message"]) == (first, "aa000013", said())
        await file.check()
        await file.call("branch", entry_id="aa000005")
        (line,) = file.added()
        assert (line["type"], line["parent_id"], line["target_id"]) == ("leaf", first, "aa000005")
        assert line.keys() == {"id", "timestamp", "parent_id", "type", "target_id"}
        await file.check()
        await file.call("session/label", entry_id="aa000007", label="good")
        (label,) = file.added()
        assert list(label) == ["id", "timestamp", "parent_id", "type", "label", "target_id"]
        assert label["parent_id"] == "aa000005"
        await file.check()
        await file.call("branch", entry_id="aa000007", summary="We tried A.")
        (line,) = file.added()
        assert (line["parent_id"], line["from_id"]) == ("aa000007", "aa000007")
        await file.check()
        await file.call("session/label", entry_id="aa000007", label=None)
        assert "label" not in file.added()[0]
        await file.check()
        await file.call("session/update", title="Other plans")
        (line,) = file.added()
        assert list(line) == ["id", "timestamp", "parent_id", "type", "name"]
        await file.check()
        await file.call("compact", summary="S", first_kept_entry_id="aa000005", tokens_before=7)
        (line,) = file.added()
        assert (line["first_kept_entry_id"], line["from_hook"]) == ("aa000005", False)
        await file.check()
        await file.call("append", message=said())
        await file.call("compact", summary="All", first_kept_entry_id=None)
        assert [source for source, _, _ in file.reader.context()] == [file.reader.leaf_id]
        await file.check()


async def test_who_goes_to_what_was_said_may_say_it_anew(house: House) -> None:
    path = put_sample(house, "operator")
    async with house.daemon() as daemon, daemon.connect() as wire:
        file = await opened(house, wire, path)
        moved = await file.call("session/navigate", entry_id="aa000012")
        assert (moved["leaf_id"], moved["editor_text"]) == ("aa000011", "Plan B please")
        await file.check()
        moved = await file.call("session/navigate", entry_id="aa000011")
        told = (moved["leaf_id"], moved["editor_text"])
        assert told == ("aa000010", "Reminder: freeze on Thursday")
        await file.check()


async def test_a_reset_and_a_rewind_survive_a_restart(house: House) -> None:
    """D6, D7: Operator keeps the first in memory alone, and the lines of the second in the file."""
    path = put_sample(house, "operator")
    async with house.daemon() as daemon, daemon.connect() as wire:
        file = await opened(house, wire, path)
        rewound = await file.call("session/rewind", to="aa000011")
        assert rewound["rewound"] == ["aa000012", "aa000013"]
        (line,) = file.added()
        assert (line["type"], line["target_id"]) == ("leaf", "aa000011")
        await file.check()
    async with house.daemon() as daemon, daemon.connect() as wire:
        file = await opened(house, wire, path)
        assert file.session["leaf_id"] == "aa000011"
        await file.call("session/reset")
        (line,) = file.added()
        assert (line["type"], "target_id" in line) == ("leaf", False)
        await file.check()
    async with house.daemon() as daemon, daemon.connect() as wire:
        file = await opened(house, wire, path)
        assert file.session["leaf_id"] is None
        await file.call("append", message=said())
        (line,) = file.added()
        assert "parent_id" not in line
        await file.check()


ASSISTANT = said("assistant", TEXT, {"type": "tool_call", "id": "t", "name": "read", "args": {}})
RESULTS = said("tool", {"type": "tool_result", "id": "t", "content": "x", "is_error": False})
ENTRIES: list[Json] = [
    {"type": "custom", "custom_type": "goal", "data": {"a": 1}},
    {"type": "custom", "custom_type": "goal"},
    {"type": "custom_message", "custom_type": "cron", "content": "now", "display": False},
    {"type": "custom_message", "custom_type": "cron", "content": [TEXT], "display": True},
    {"type": "thinking_level_change", "thinking_level": "low"},
    {"type": "model_change", "model_id": "m", "provider": "p"},
    {"type": "channel", "name": "telegram"},
    {"type": "reaction", "emoji": "x"},
    {"type": "compaction", "summary": "S", "first_kept_entry_id": None},
]


async def walk(file: Opened, chance: random.Random) -> None:
    """Make one change of any kind."""
    nodes = [one["id"] for one in file.reader.entries if one["type"] != "leaf"]
    path = [one["id"] for one in file.reader.branch(file.reader.leaf_id)]
    match chance.randrange(11):
        case 0 | 1 | 2:
            await file.call("append", message=chance.choice([said(), ASSISTANT, RESULTS]))
        case 3:
            entries = chance.sample(ENTRIES, 3)
            await file.call("append", entries=[*entries, {"type": "message", "message": said()}])
        case 4:
            await file.call("branch", entry_id=chance.choice([None, *nodes]))
        case 5:
            await file.call("branch", entry_id=chance.choice(nodes), summary="Tried it.")
        case 6:
            await file.call("session/rewind", to=chance.choice([None, *path]))
        case 7:
            label = chance.choice([None, "a", "b"])
            await file.call("session/label", entry_id=chance.choice(nodes), label=label)
        case 8:
            await file.call("session/update", title=chance.choice(["A", "B", None]))
        case 9:
            await file.call("session/navigate", entry_id=chance.choice([None, *nodes]))
        case _ if path and file.reader.by_id[path[-1]]["type"] != "compaction":
            users = [source for source, role, _ in file.reader.context() if role == "user"]
            kept = chance.choice([None, *users])
            await file.call("compact", summary="S", first_kept_entry_id=kept)
        case _:
            await file.call("session/reset")


@pytest.mark.parametrize("name", ["operator", "operator-doc-spelling"])
async def test_after_any_changes_operator_reads_what_sessiond_reads(
    house: House, name: str
) -> None:
    path = put_sample(house, name)
    chance = random.Random(name)
    for _ in range(3):
        async with house.daemon() as daemon, daemon.connect() as wire:
            file = await opened(house, wire, path)
            for _ in range(12):
                await walk(file, chance)
                await file.check()
    assert house.disk.content(path).startswith(SAMPLE[name])


# -- copies ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["operator", "operator-doc-spelling"])
async def test_an_import_has_the_lines_of_the_file(house: House, name: str) -> None:
    """D1: every message, id, parent and branch; the header only has another id."""
    content = SAMPLE[name].decode()
    path = put_sample(house, name)
    async with house.daemon() as daemon, daemon.connect() as wire:
        found = await wire.call("session/import", path=str(path))
        assert (found["report"]["format"], found["report"]["problems"]) == ("operator", [])
        made = found["session"]
        assert made["id"] != json.loads(content.splitlines()[0])["id"]
        there = await wire.call("session/export", session_id=made["id"], format="operator")
        assert there["content"].split("\n")[1:] == content.split("\n")[1:]
        header, old = (json.loads(one.split("\n")[0]) for one in (there["content"], content))
        assert header == old | {"id": made["id"]}
        file = await opened(house, wire, path)
        shown = "{sources,messages[].contents}"
        sources, contents = await call(wire, "build_context", shown, session_id=made["id"])
        assert len(sources) == len(contents)
        own = await call(wire, "build_context", shown, session_id=file.session["id"])
        assert own == (sources, contents)
        copy = Path(made["path"])
        assert OperatorReader(house.disk.content(copy)).leaf_id == made["leaf_id"]
    assert house.disk.content(path) == SAMPLE[name]


async def test_a_path_over_a_label_keeps_the_whole_context(house: House) -> None:
    """D8: Operator leaves out the labels of a path, and what stood below them hangs in the air."""
    path = put_sample(house, "operator")
    async with house.daemon() as daemon, daemon.connect() as wire:
        file = await opened(house, wire, path)
        fork = await file.call("session/fork", entries="path", at="aa00000d")
        made = fork["session"]
        assert made["dialect"] == "operator"
        copy = OperatorReader(house.disk.content(Path(made["path"])))
        assert copy.header["parent_session"] == str(path)
        sources = [source[-2:] for source, _, _ in copy.context()]
        assert sources == ["0b", "09", "0a", "0c", "0d"]
        chain = copy.branch("aa00000d")
        assert chain[0]["id"] == "aa000001"
        assert "aa000008" not in {one["id"] for one in chain}
        above = await file.call("build_context", entry_id="aa00000d")
        below = await wire.call("build_context", session_id=made["id"], entry_id="aa00000d")
        assert below["messages"] == above["messages"]


@pytest.mark.parametrize("more", [{"entries": "all"}, {"entries": "path"}, {"entries": "context"}])
async def test_a_fork_is_a_file_of_operators(house: House, more: Json) -> None:
    path = put_sample(house, "operator")
    async with house.daemon() as daemon, daemon.connect() as wire:
        file = await opened(house, wire, path)
        made = (await file.call("session/fork", cwd="/other", **more))["session"]
        assert (made["dialect"], made["cwd"], made["problems"]) == ("operator", "/other", 0)
        copy = await opened(house, wire, Path(made["path"]))
        await copy.check()
        own = file.session["id"]
        contents = await call(wire, "build_context", "messages[].contents", session_id=own)
        copied = await call(wire, "build_context", "messages[].contents", session_id=made["id"])
        assert copied == contents
        await copy.call("append", message=said())
        await copy.check()
    assert house.disk.content(path) == SAMPLE["operator"]


async def test_what_operator_appends_meanwhile_is_an_event(house: House) -> None:
    path = put_sample(house, "operator")
    more = {"id": "aa000017", "timestamp": 1784000050.5, "parent_id": "aa000013", "type": "message"}
    line = json.dumps(more | {"message": said()}).encode() + b"\n"
    async with house.daemon() as daemon, daemon.connect() as wire:
        file = await opened(house, wire, path)
        await file.call("subscribe")
        house.disk.put(path, SAMPLE["operator"] + line)
        answer = await file.call("append", message=said())
        told = (await wire.next_notification())["params"]
        assert (told["entry"]["id"], told["entry"]["timestamp"]) == (
            "aa000017",
            "2026-07-14T03:34:10.500Z",
        )
        assert answer["entries"][0]["seq"] == told["seq"] + 1


@pytest.mark.parametrize("name", ["every-type", "foreign-lines"])
async def test_no_copy_of_a_native_file_is_operators(house: House, name: str) -> None:
    content = (SAMPLES.parent / "native" / f"{name}.jsonl").read_text()
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = [(await wire.call("session/import", content=content))["session"]]
        session_id = made[0]["id"]
        for entries in ("all", "path", "context", "none"):
            fork = await wire.call("session/fork", session_id=session_id, entries=entries)
            made.append(fork["session"])
        exported = await wire.call("session/export", session_id=session_id)
        again = await wire.call("session/import", content=exported["content"])
        made.append(again["session"])
    async with house.daemon() as daemon, daemon.connect() as wire:
        listed = await wire.call("session/list")
        found = {one["id"]: one["dialect"] for one in listed["sessions"]}
    assert found == {one["id"]: "native" for one in made}
