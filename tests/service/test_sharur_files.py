"""sharur's files where they are: what reading them gives, and imports of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import call
from tests.kit.house import House, put_sample

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]

Json = Any
SAMPLES = Path(__file__).parent.parent / "samples" / "sharur"
HEADER = "3f8e2b7c-90d4-4c55-8a3e-b1c2d3e4f501"


def uid(number: int) -> str:
    """Return the id of an entry of the samples."""
    return f"00000000-0000-4000-8000-{number:012d}"


async def context(wire: Wire, session: Json, **at: Json) -> list[tuple[str, str, str]]:
    """Return source, role and text of each message of a context."""
    found = await wire.call("build_context", session_id=session["id"], **at)
    said = zip(found["sources"], found["messages"], strict=True)
    return [(source, one["role"], one["content"]) for source, one in said]


async def test_every_type_is_read_as_sharur_reads_it(house: House) -> None:
    path = put_sample(house, "sharur")
    async with house.daemon() as daemon, daemon.connect() as wire:
        session = await call(wire, "session/open", "session", path=str(path))
        assert session["dialect"] == "sharur"
        assert session["leaf_id"] == uid(20)
        assert session["title"] == "Fix the retry bug in client.go"
        assert session["thinking_level"] == "medium"
        assert (session["message_count"], session["message_total"]) == (8, 12)
        assert (session["problems"], session["read_only"], session["cwd"]) == (0, False, "")
        at_leaf = await context(wire, session)
        assert [source for source, _, _ in at_leaf] == [uid(n) for n in (*range(3, 10), 16)]
        compacted = await context(wire, session, entry_id=uid(15))
        wanted = [13, 7, 8, 9, 11, 12, 13, 14, 15]
        assert [source for source, _, _ in compacted] == [uid(n) for n in wanted]
        assert compacted[0][1] == "success"
        assert compacted[0][2].startswith("<!-- sharur-summary -->\n## Goal")
        assert compacted[6][1:] == ("compaction", "Context compacted. Freed 24800 tokens.")
        assert (await wire.call("session/get", session_id=session["id"]))["session"] == session
        labelled = await wire.call("session/entry", session_id=session["id"], entry_id=uid(9))
        assert labelled["label"] == "before-docs"
        custom = await wire.call("session/entry", session_id=session["id"], entry_id=uid(19))
        assert custom["entry"] == {
            "type": "custom_message",
            "id": uid(19),
            "parent_id": uid(18),
            "timestamp": "2026-04-27T14:01:03.250Z",
            "custom_type": "demo",
            "content": "injected by an extension",
            "display": True,
        }
    assert house.disk.content(path) == (SAMPLES / path.name).read_bytes()


async def test_the_header_of_a_branchs_source_is_an_entry(house: House) -> None:
    path = put_sample(house, "sharur-branch")
    async with house.daemon() as daemon, daemon.connect() as wire:
        session = await call(wire, "session/open", "session", path=str(path))
        assert session["leaf_id"] == uid(90)
        assert session["lineage"] == {"parent_id": HEADER}
        assert session["problems"] == 0
        texts = [text for _, _, text in await context(wire, session)]
        assert texts == ["Fix the retry bug in client.go", "branch 1"]
        path_ids = await wire.call("session/path", session_id=session["id"])
        assert [row["entry"]["id"] for row in path_ids["entries"]][:2] == [HEADER, uid(1)]


@pytest.mark.parametrize(
    ("name", "texts", "version"),
    [
        ("sharur-export", ["Fix the retry bug in client.go", "Done."], 3),
        ("sharur-legacy-kind", ["hello", "hi"], 1),
    ],
)
async def test_older_forms_are_read_in_place_and_imported(
    house: House, name: str, texts: list[str], version: int
) -> None:
    path = put_sample(house, name)
    async with house.daemon() as daemon, daemon.connect() as wire:
        session = await call(wire, "session/open", "session", path=str(path))
        is_export = name == "sharur-export"
        assert session["read_only_reason"] == ("older_version" if is_export else None)
        first = await context(wire, session)
        assert [text for _, _, text in first] == texts
        with pytest.raises(Refusal, match="session_read_only"):
            await wire.call(
                "session/label", session_id=session["id"], entry_id=first[0][0], label="x"
            )
        found = await wire.call("session/import", content=(SAMPLES / path.name).read_text())
        assert found["report"]["migrated_from"] == version
        assert found["session"]["message_count"] == 2
        assert await context(wire, found["session"]) == first
        assert not found["session"]["read_only"]
        if name == "sharur-legacy-kind":
            wanted = {"title": "old one", "model": "llama3", "provider": "ollama"}
            wanted |= {"thinking_level": "medium"}
            for one in (session, found["session"]):
                assert {fact: one[fact] for fact in wanted} == wanted
    async with house.daemon() as daemon, daemon.connect() as wire:
        again = await call(wire, "session/open", "session", path=str(path))
        assert await context(wire, again) == first
    assert house.disk.content(path) == (SAMPLES / path.name).read_bytes()


@pytest.mark.parametrize("name", ["sharur", "sharur-branch"])
async def test_an_import_keeps_every_line(house: House, name: str) -> None:
    content = (SAMPLES / f"{name}.jsonl").read_text()
    async with house.daemon() as daemon, daemon.connect() as wire:
        first = await wire.call("session/import", content=content, cwd="/home/ana/shop")
        exported = await wire.call(
            "session/export", session_id=first["session"]["id"], format="sharur"
        )
        assert exported["content"].splitlines()[1:] == content.splitlines()[1:]
        header = json.loads(exported["content"].splitlines()[0])
        assert "cwd" not in header
        assert (header["id"], header["version"]) == (first["session"]["id"], 3)
        # The copy of a copy still knows the id that the first lines name.
        again = await wire.call("session/import", content=exported["content"])
        assert again["session"]["cwd"] == "/home/ana/shop"
        assert again["session"]["problems"] == 0
        assert await context(wire, again["session"]) == await context(wire, first["session"])
