"""Sessions of Construct come in and go out as equal JSON values; what is no session is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.cli.offline.found_files import found_files
from tests.kit.calls import call, create, say
from tests.kit.house import House

SAMPLES = Path(__file__).parent.parent / "samples" / "construct"
SAMPLE: dict[str, Any] = json.loads((SAMPLES / "session.json").read_bytes())
RUN: dict[str, Any] = {
    "id": "run-0001",
    "agent_id": "coder",
    "started_at": "2026-03-29T10:00:00Z",
    "ended_at": "2026-03-29T10:09:00Z",
    "status": "error",
    "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    "turns": [{"id": "t", "request": [{"type": "text", "content": "go"}], "status": "done"}],
}
ODD: list[dict[str, Any]] = [
    {"turns": []},
    {"turns": [{}]},
    {"id": 7, "new": {"n": 1.50, "deep": [None]}, "turns": [{"response": None, "x": [1]}]},
    {"id": "é ü", "turns": [{"id": "a b", "status": "waiting", "request": [1, {"a": 1}, "x"]}]},
    {"id": "s", "turns": [{"id": "t", "status": 3}, {"id": "t", "status": "streaming"}]},
    {"id": "s", "turns": [{"status": "pending", "request": [], "response": [], "timestamp": "?"}]},
    {"ID": "s", "AgentID": "a", "Turns": [], "turns": [{"timestamp": "2026-03-29T10:00:01+02:00"}]},
    {"id": "s", "turns": [{"status": "done", "response": [{"type": "hologram", "meta": {}}]}]},
]


@pytest.mark.parametrize("document", [SAMPLE, RUN, *ODD])
@pytest.mark.parametrize("indent", [None, 1])
async def test_a_document_goes_out_as_it_came_in(
    house: House, document: dict[str, Any], indent: int | None
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        text = json.dumps(document, indent=indent)
        made = await wire.call("session/import", content=text)
        assert made["report"]["format"] == "construct"
        session_id = made["session"]["id"]
        assert (
            json.loads(
                await call(
                    wire, "session/export", "content", session_id=session_id, format="construct"
                )
            )
            == document
        )
        assert (await wire.call("session/verify", session_id=session_id))["ok"]
        shown = await wire.call("session/turns", session_id=session_id)
        assert len(shown["turns"]) == len(document["turns"])
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (
            json.loads(
                await call(
                    wire, "session/export", "content", session_id=session_id, format="construct"
                )
            )
            == document
        )


async def test_the_sample_is_a_session_with_its_agent_times_turns_and_title(
    real_house: House, tmp_path: Path
) -> None:
    for name, file in (("index.json", "index.json"), ("abc123.json", "session.json")):
        (tmp_path / name).write_bytes((SAMPLES / file).read_bytes())
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        path = str(tmp_path / "abc123.json")
        made = await wire.call("session/import", path=path, cwd="/p", format="construct")
        info = made["session"]
        assert (info["agent"], info["title"], info["cwd"]) == (
            "general",
            "Build a login page",
            "/p",
        )
        assert (info["created_at"], info["turn_count"]) == ("2026-03-29T10:00:00.000Z", 1)
        assert (info["status"], info["lineage"]["header_id"]) == ("done", "abc123")
        (turn,) = (await wire.call("session/turns", session_id=info["id"]))["turns"]
        (was,) = SAMPLE["turns"]
        assert turn["id"] == was["id"]
        assert turn["timestamp"] == "2026-03-29T10:00:01.000Z"
        for name in ("request", "response", "status"):
            assert turn[name] == was[name]
        context = await wire.call("build_context", session_id=info["id"])
        assert [one["content"] for one in context["messages"]] == [
            "Build a login page",
            "<template/>\nDone.",
        ]


async def test_a_run_keeps_its_status_end_and_usage(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        info = await call(wire, "session/import", "session", content=json.dumps(RUN))
        assert info["status"] == "error"
        assert info["ended_at"] == RUN["ended_at"]
        params = {"session_id": info["id"], "view": "agent"}
        (turn,) = (await wire.call("session/turns", **params))["turns"]
        assert turn["usage"]["total_tokens"] == 15
        assert turn["ended_at"] == RUN["ended_at"]


async def test_what_was_added_since_goes_out_too(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        session_id = await call(wire, "session/import", "session.id", content=json.dumps(SAMPLE))
        await say(wire, "More.", session_id=session_id)
        now = json.loads(
            await call(wire, "session/export", "content", session_id=session_id, format="construct")
        )
        assert now["turns"][0] == SAMPLE["turns"][0]
        added = now["turns"][1]
        assert (added["status"], added["response"]) == ("pending", [])
        assert added["request"] == [{"type": "text", "content": "More."}]
        # The clock of the test is behind the document's time.
        assert now["updated_at"] == "2026-03-29T10:05:00.000Z"
        again = await call(wire, "session/import", "session.id", content=json.dumps(now))
        assert (
            json.loads(
                await call(wire, "session/export", "content", session_id=again, format="construct")
            )
            == now
        )


async def test_any_session_goes_out_with_notes_of_what_is_lost(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, title="A title", agent="coder")
        await say(wire, "one")
        first = (await call(wire, "session/get"))["session"]["leaf_id"]
        await say(wire, "two", role="assistant")
        await call(wire, "branch", entry_id=first)
        await say(wire, "three", role="assistant")
        made = await call(wire, "session/export", format="construct")
        document = json.loads(made["content"])
        assert document["agent_id"] == "coder"
        (turn,) = document["turns"]
        assert turn["response"] == [{"type": "text", "content": "three"}]
        assert [note.partition(" (")[0] for note in made["notes"]] == [
            "the title was left out: in Construct it stands in index.json, not in the session",
            "entries outside main's path were left out",
            "turns without stored blocks were made of messages",
        ]
        back = await call(wire, "session/import", "session", content=json.dumps(document))
        assert back["turn_count"] == 1


@pytest.mark.parametrize(
    ("content", "kind", "says"),
    [
        ((SAMPLES / "index.json").read_text(), "session_corrupt", "an index of Construct's"),
        ('{"turns":[1]}', "session_corrupt", "a turn"),
        ('{"turns":[{}]', "session_corrupt", "header"),
        ('{"turns":{}}', "session_corrupt", "header"),
        ("[]", "session_corrupt", ""),
        ('{"turns":[]}\n{"turns":[]}', "session_corrupt", ""),
    ],
)
async def test_what_is_no_session_is_named(
    house: House, content: str, kind: str, says: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        refused = await wire.refusal("session/import", content=content)
        assert refused.data["kind"] == kind
        assert says in refused.message
        assert (await wire.call("session/list"))["sessions"] == []


async def test_a_format_that_the_content_has_not_is_named(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for content, wanted, has in (
            (json.dumps(SAMPLE), "pi", "construct"),
            (
                '{"type":"session_header","version":1,"id":"session-x","cwd":"/"}',
                "construct",
                "native",
            ),
        ):
            refused = await wire.refusal("session/import", content=content, format=wanted)
            assert refused.data["path"] == "format"
            assert has in refused.message


def test_a_folder_stands_for_the_sessions_beside_an_index(tmp_path: Path) -> None:
    for name in ("a/index.json", "a/one.json", "a/two.json", "b/other.json", "b/three.jsonl"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("{}")
    found = sorted(Path(one.name).name for one in found_files([str(tmp_path)]))
    assert found == ["one.json", "three.jsonl", "two.json"]


def test_a_folder_without_an_index_stands_for_its_documents(tmp_path: Path) -> None:
    nova = SAMPLES.parent / "nova" / "state.json"
    for name, content in (
        ("4f1d.json", nova.read_bytes()),
        ("abc123.json", (SAMPLES / "session.json").read_bytes()),
        ("package.json", b'{"name":"x","version":"1"}'),
        ("settings.json", b"[]"),
    ):
        (tmp_path / name).write_bytes(content)
    found = sorted(Path(one.name).name for one in found_files([str(tmp_path)]))
    assert found == ["4f1d.json", "abc123.json"]
