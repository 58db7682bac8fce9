"""Exports to every format: a session in another program's file, and back.

The context of a model survives, with ids, parents and branches; the notes of the export name the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sessiond.dialects import DIALECTS
from sessiond.model.entries import ENTRY_TYPES
from sessiond.model.formats import FORMATS
from sessiond.testing.wire import Wire
from tests.kit.calls import call, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION, TIME, stored_message

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]
SAMPLES = Path(__file__).parent.parent / "samples"
IDS = ("00000001", "00000002", "00000003", "00000004")
ENTRIES = "entries[].entry"
PARENTS = "entries[].entry.{id,parent_id}"
# Nothing can be shown below such a compaction in a file of sharur.
LEFT_OUT = "entries were left out: a sharur file cannot hold replacement messages"
EXTENSION = "messages of an extension for the assistant became messages for the user"
SPEAKER = "messages of a role that the format lacks became the user's text"
# What the samples lose somewhere, each time off the path to the leaf or unseen by a model.
ALLOWED = {
    "compactions by messages became compactions by a first kept entry",
    LEFT_OUT,
    "compactions by a first kept entry became compactions by the messages they give",
    SPEAKER,
    "entries of an unknown type became data of an extension",
    "compactions by messages became a summary with the text of these messages",
    EXTENSION,
    "1 entry stood below a label or name and now stands above it",
    "2 entries stood below a label or name and now stand above it",
    "entries of named heads became branches without a name",
    "facts of the session besides its title were left out",
    "facts of the header were left out",
    "messages with several tool results became one message for each result",
    "sizes of contexts after a compaction were left out",
    "messages that no model sees, of a role that the format lacks, became data of an extension",
}
VISIBILITY = {
    SPEAKER,
    "entries that no model saw are shown to a model in this format",
    "entries that a model saw are shown to no model in this format",
}
# One file of each program with all that its format has.
SOURCES = {
    "native": "native/every-type.jsonl",
    "pi": "pi/pi.jsonl",
    "operator": "operator/operator.jsonl",
    "piglet": "piglet/piglet.jsonl",
    "sharur": "sharur/sharur.jsonl",
}


# Files of today's versions: an import changes none of their lines but the header.
OWN = [
    *SOURCES.values(),
    "operator/operator-doc-spelling.jsonl",
    "pi/pi-1.5-fields.jsonl",
    "piglet/piglet-fork.jsonl",
    "sharur/sharur-branch.jsonl",
]


async def exported(wire: Wire, session_id: str, form: str) -> tuple[str, list[str]]:
    found = await wire.call("session/export", session_id=session_id, format=form)
    return found["content"], found.get("notes", [])


def losses(notes: list[str]) -> set[str]:
    """Return the notes of an export about what the format could not carry."""
    return {note.split(" (")[0] for note in notes if not note.startswith("converted from")}


def skeleton(
    entries: list[dict[str, Any]], gone: Iterable[str] = ()
) -> dict[str, tuple[str, str | None]]:
    """The type and the parent of each entry, by id; labels and names are no parents everywhere.

    An entry below one that is gone stands below the next one up.
    """
    above = {entry["id"]: entry["parent_id"] for entry in entries}
    aside = {entry["id"] for entry in entries if entry["type"] in {"leaf", "session_info", "label"}}
    aside |= set(gone)

    def parent(entry_id: str) -> str | None:
        found = above[entry_id]
        return parent(found) if found in aside else found

    return {
        entry["id"]: (
            entry["type"] if entry["type"] in ENTRY_TYPES else "custom",
            parent(entry["id"]),
        )
        for entry in entries
        if entry["id"] not in aside
    }


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("source", SOURCES)
async def test_a_session_comes_through_every_format(house: House, source: str, form: str) -> None:
    sample = (SAMPLES / SOURCES[source]).read_text()
    async with house.daemon() as daemon, daemon.connect() as wire:
        first = await call(wire, "session/import", "session.id", content=sample)
        there, notes = await exported(wire, first, form)
        second = await call(wire, "session/import", "session.id", content=there)
        assert (await session_info(wire, second))["dialect"] == form
        back, more = await exported(wire, second, source)
        third = await call(wire, "session/import", "session.id", content=back)
        assert losses(notes) | losses(more) <= ALLOWED | VISIBILITY
        if VISIBILITY.isdisjoint(losses(notes)):
            assert await call(
                wire, "build_context", "messages", session_id=second, shape="openai"
            ) == await call(wire, "build_context", "messages", session_id=first, shape="openai")
        # sharur tells its model of a compaction, also in what the compaction gives back.
        is_told = (source, form) == ("piglet", "sharur")
        if losses(notes).isdisjoint({SPEAKER, EXTENSION}) and not is_told:
            assert await call(
                wire, "build_context", "messages", session_id=third, shape="openai"
            ) == await call(wire, "build_context", "messages", session_id=first, shape="openai")
        after = skeleton(await call(wire, "session/entries", ENTRIES, session_id=third))
        entries = await call(wire, "session/entries", ENTRIES, session_id=first)
        before = skeleton(entries)
        gone = before.keys() - after.keys()
        assert not gone or LEFT_OUT in losses(notes) | losses(more)
        before = skeleton(entries, gone)
        assert {one: after.get(one) for one in before} == before


@pytest.mark.parametrize("name", OWN)
async def test_the_own_format_gives_the_lines_of_the_file(house: House, name: str) -> None:
    sample = (SAMPLES / name).read_text()
    async with house.daemon() as daemon, daemon.connect() as wire:
        session_id = await call(wire, "session/import", "session.id", content=sample)
        content, notes = await exported(wire, session_id, Path(name).parent.name)
        assert notes == []
        # Each `meta` line of piglet is a whole header, and so has the id of the copy.
        own_id = json.loads(sample.split("\n")[0]).get("data", {}).get("id", session_id)
        lines = content.replace(session_id, own_id).split("\n")[1:-1]
        assert [json.loads(line) for line in lines] == [
            json.loads(line) for line in sample.split("\n")[1:-1]
        ]


CONVERSATION = [
    stored_message("m1", None),
    stored_message("m2", "m1", "assistant"),
    stored_message("m3", "m2"),
    stored_message("x1", "m2"),
    {"type": "leaf", "id": "l1", "parent_id": "x1", "target_id": "m2", "reason": "branch"},
]
"""Two branches; main stands in the middle of the first one."""


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "native"])
async def test_main_stands_where_it_stood(house: House, form: str) -> None:
    house.put(CONVERSATION)
    async with house.daemon() as daemon, daemon.connect() as wire:
        there, _ = await exported(wire, SESSION, form)
        second = await call(wire, "session/import", "session.id", content=there)
        assert await call(
            wire, "build_context", "messages", session_id=second, shape="openai"
        ) == await call(wire, "build_context", "messages", session_id=SESSION, shape="openai")
        await wire.call("session/reset", session_id=SESSION)
        there, _ = await exported(wire, SESSION, form)
        empty = await call(wire, "session/import", "session.id", content=there)
        assert await call(wire, "build_context", "messages", session_id=empty, shape="openai") == []


@pytest.mark.parametrize("form", FORMATS)
async def test_a_title_survives(house: House, form: str) -> None:
    house.put(CONVERSATION)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("session/update", session_id=SESSION, title="Fix the clock")
        there, _ = await exported(wire, SESSION, form)
        second = await call(wire, "session/import", "session.id", content=there)
        assert (await session_info(wire, second))["title"] == "Fix the clock"
        assert await call(
            wire, "build_context", "messages", session_id=second, shape="openai"
        ) == await call(wire, "build_context", "messages", session_id=SESSION, shape="openai")


async def test_a_message_with_two_results_becomes_two(house: House) -> None:
    def used(name: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": name, "name": "read", "input": {"path": name}}

    def result(name: str) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": name, "content": f"text of {name}"}

    house.put(
        [
            stored_message("m1", None),
            stored_message("m2", "m1", "assistant", [used("a"), used("b")]),
            stored_message("m3", "m2", "user", [result("a"), result("b")]),
            stored_message("m4", "m3", "assistant"),
        ]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        there, notes = await exported(wire, SESSION, "pi")
        assert losses(notes) == {
            "messages with several tool results became one message for each result"
        }
        second = await call(wire, "session/import", "session.id", content=there)
        found = await call(wire, "session/entries", PARENTS, session_id=second)
        assert found == [("m1", None), ("m2", "m1"), ("m3", "m2"), ("m3.2", "m3"), ("m4", "m3.2")]
        assert await call(
            wire, "build_context", "messages", session_id=second, shape="openai"
        ) == await call(wire, "build_context", "messages", session_id=SESSION, shape="openai")


async def test_what_a_format_lacks_is_left_out_and_said(house: House) -> None:
    secret = {"type": "message", "id": "m2", "parent_id": "m1", "message": {"role": "note", "x": 1}}
    nameless = {"type": "custom", "id": "c1", "parent_id": "m3", "data": 1}
    above = [stored_message("m1", None), secret, stored_message("m3", "m2"), nameless]
    house.put([*above, stored_message("m4", "c1")])
    async with house.daemon() as daemon, daemon.connect() as wire:
        there, notes = await exported(wire, SESSION, "pi")
        assert losses(notes) == {
            "messages that no model sees, of a role that the format lacks, became data of an extension",
            "entries without the form of custom were left out",
        }
        second = await call(wire, "session/import", "session.id", content=there)
        assert await call(wire, "session/entries", PARENTS, session_id=second) == [
            ("m1", None),
            ("m2", "m1"),
            ("m3", "m2"),
            ("m4", "m3"),
        ]


async def test_an_edit_of_a_message_that_another_program_made_is_said(house: House) -> None:
    sample = (SAMPLES / "pi" / "pi.jsonl").read_text()
    async with house.daemon() as daemon, daemon.connect() as wire:
        first = await call(wire, "session/import", "session.id", content=sample)
        *kept, edited = await call(wire, "build_context", "sources", session_id=first)
        edit = {"type": "context_edit", "target_id": edited, "replacement": None}
        await call(wire, "append", session_id=first, entry=edit)
        there, notes = await exported(wire, first, "native")
        assert "edits of earlier messages apply in their own format only" in losses(notes)
        second = await call(wire, "session/import", "session.id", content=there)
        assert await call(wire, "build_context", "sources", session_id=first) == kept
        assert await call(wire, "build_context", "sources", session_id=second) == [*kept, edited]


async def test_an_import_skips_a_session_that_is_here(house: House) -> None:
    house.put(CONVERSATION)
    async with house.daemon() as daemon, daemon.connect() as wire:
        content, _ = await exported(wire, SESSION, "pi")
        for wanted in ({"if_exists": "skip"}, {"dry_run": True}):
            found = await wire.call("session/import", content=content, **wanted)
            assert (found["imported"], found["twins"]) == (False, [SESSION])
            assert (found["same_as"], found["same_by"]) == ([SESSION], "id")
            assert found["session"]["path"] is None
        assert await call(wire, "session/list", "sessions[].id") == [SESSION]
        found = await wire.call("session/import", content=content)
        assert (found["imported"], found["twins"]) == (True, [SESSION])
        other = content.replace("text of m1", "text of another session").replace(SESSION, "another")
        found = await wire.call("session/import", content=other, if_exists="skip")
        assert (found["imported"], found["twins"]) == (True, [])


async def test_every_dialect_is_a_format() -> None:
    assert [dialect.name for dialect in DIALECTS] == list(FORMATS)


async def test_a_second_header_becomes_data_in_a_native_file(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        sample = (SAMPLES / "sharur" / "sharur-branch.jsonl").read_text()
        first = await call(wire, "session/import", "session.id", content=sample)
        there, notes = await exported(wire, first, "native")
        assert "entries of an unknown type became data of an extension" in losses(notes)
        second = await call(wire, "session/import", "session.id", content=there)
        before = await call(wire, "session/entries", ENTRIES, session_id=first)
        after = await call(wire, "session/entries", ENTRIES, session_id=second)
        assert skeleton(after) == skeleton(before)
        assert await call(
            wire, "build_context", "messages", session_id=second, shape="openai"
        ) == await call(wire, "build_context", "messages", session_id=first, shape="openai")


async def test_messages_that_end_as_the_path_did_become_kept_entries(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        sample = (SAMPLES / "piglet" / "piglet.jsonl").read_text()
        first = await call(wire, "session/import", "session.id", content=sample)
        there, _ = await exported(wire, first, "pi")
    (compaction,) = (
        entry
        for line in there.split("\n")[:-1]
        if (entry := json.loads(line))["type"] == "compaction"
    )
    assert compaction["summary"] == "Summary: auth explained; JWT dropped; OAuth chosen"
    (kept,) = (
        entry
        for line in there.split("\n")[:-1]
        if (entry := json.loads(line))["id"] == compaction["firstKeptEntryId"]
    )
    assert kept["message"]["content"] == [{"type": "text", "text": "OAuth it is."}]


@pytest.mark.parametrize("target", ["pi", "operator", "piglet", "sharur"])
async def test_a_message_is_kept_whatever_its_time(house: House, target: str) -> None:
    """A time that is none is no reason to leave a message out, and a number is a time."""
    times: dict[str, Any] = dict(zip(IDS, (TIME, "yesterday", 1736937000000, ""), strict=True))
    house.put([stored_message(one, None, timestamp=time) for one, time in times.items()])
    async with house.daemon() as daemon, daemon.connect() as wire:
        exported = await call(wire, "session/export", format=target)
        assert exported["notes"] == ["converted from native"]
        copied = await wire.call("session/import", content=exported["content"])
        rows = (await wire.call("session/entries", session_id=copied["session"]["id"]))["entries"]
    known = {one["entry"]["id"]: one["entry"]["timestamp"] for one in rows}
    assert known.keys() == times.keys()
    assert known[IDS[2]] == "2025-01-15T10:30:00.000Z"
