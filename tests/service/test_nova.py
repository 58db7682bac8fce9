"""States of Nova: imported and exported with equal JSON values, and changed in between."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Wire
from tests.kit.calls import call, create, refused, say
from tests.kit.house import House
from tests.kit.sessions import SESSION

SAMPLE = Path(__file__).parents[1] / "samples" / "nova" / "state.json"


def sample(**changes: Any) -> dict[str, Any]:
    """Return the sample with changed members; UNSET ones are left out."""
    document = json.loads(SAMPLE.read_text()) | changes
    return {name: value for name, value in document.items() if value is not ...}


async def exported(wire: Wire, session_id: str) -> Any:
    return json.loads(
        await call(wire, "session/export", "content", session_id=session_id, format="nova")
    )


async def test_the_sample_comes_back_with_equal_values(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        text = SAMPLE.read_text()
        made = await wire.call("session/import", content=text, format="nova", cwd="/shop")
        assert (made["report"]["format"], made["report"]["problems"]) == ("nova", [])
        session = made["session"]
        assert (session["agent"], session["cwd"]) == ("implementer", "/shop")
        assert session["created_at"] == "2026-01-10T08:00:00.123Z"
        assert session["updated_at"] == "2026-01-10T08:05:00.000Z"
        assert session["lineage"]["parent_id"] == "11111111-aaaa-4bbb-8ccc-0123456789ab"
        assert await call(wire, "session/get", "state", session_id=session["id"]) == {
            "agent": "implementer",
            "model": "claude-sonnet-4-5-20250929",
            "plan": "Add registration, then e-mail verification",
            "tags": ["feature", "pr"],
            "decisions": [
                {
                    "decision": "Use async/await for I/O",
                    "rationale": "one event loop",
                    "timestamp": "2026-01-10T08:01:00.000Z",
                }
            ],
            "artifacts": {"feature-branch": "refs/heads/feat/register"},
            "tokens_used": 4200,
            "turn_count": 3,
            "metrics": {"decision_count": 1, "task_count": 3, "total_tokens": 4200},
            "pruned": False,
            "last_pruned_at": None,
        }
        assert await exported(wire, session["id"]) == sample()
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await exported(wire, session["id"]) == sample()


async def test_what_changed_is_told_and_everything_else_stays_as_it_was_spelled(
    house: House,
) -> None:
    before = sample(extra={"a": [1.50, None]}, agent_name=None)
    before["key_decisions"][0]["author"] = "ana"
    before["metrics"]["score"] = 0.5
    async with house.daemon() as daemon, daemon.connect() as wire:
        session_id = await call(wire, "session/import", "session.id", content=json.dumps(before))
        assert await exported(wire, session_id) == before
        await wire.call(
            "session/task",
            session_id=session_id,
            tokens_added=800,
            decision={"decision": "No ORM", "timestamp": "2026-01-11T00:00:00Z"},
        )
        await wire.call("session/fork", session_id=session_id, entries="none", state=True)
        after = await exported(wire, session_id)
        added = {"decision": "No ORM", "rationale": "", "timestamp": "2026-01-11T00:00:00.000"}
        assert after == before | {
            "last_updated": after["last_updated"],
            "key_decisions": [*before["key_decisions"], added],
            "tokens_used": 5000,
            "turn_count": 4,
            "fork_count": 1,
            "metrics": before["metrics"]
            | {"decision_count": 2, "total_tokens": 5000, "task_count": 4},
        }
        assert after["last_updated"] != before["last_updated"]


async def test_a_session_of_its_own_is_a_state_of_nova_without_its_conversation(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, agent="coder", model="m-1", tags=["x"], title="A title")
        await say(wire)
        await call(wire, "session/decide", decision="d", rationale="r")
        answer = await call(wire, "session/export", format="nova")
        assert len(answer["notes"]) == 2
        document = json.loads(answer["content"])
        assert (document["session_id"], document["model"]) == (SESSION, "m-1")
        assert [one["decision"] for one in document["key_decisions"]] == ["d"]
        assert not document["created_at"].endswith("Z")
        text = json.dumps(document)
        made = await call(wire, "session/import", "session.id", content=text)
        assert await exported(wire, made) == document


def drawn(dice: random.Random) -> dict[str, Any]:
    """Return a state of Nova, with what its documents promise, in any combination."""

    def moment() -> str:
        text = f"2026-0{dice.randint(1, 9)}-1{dice.randint(0, 9)}T08:0{dice.randint(0, 9)}:00"
        return text + dice.choice(["", ".123456", ".5", "+00:00", "Z"])

    def text() -> str:
        return dice.choice(["a", "ä\U0001f9e0", "two\nlines", '"', "\u2028", "x" * 500])

    def count() -> int:
        return dice.choice([0, 1, 7, 150_001, 2**53 - 1])

    document: dict[str, Any] = {
        "session_id": text(),
        "created_at": moment(),
        "tokens_used": count(),
    }
    optional: dict[str, Any] = {
        "last_updated": moment(),
        "model": text(),
        "agent_name": dice.choice([None, "", text()]),
        "current_plan": dice.choice([None, "", text()]),
        "key_decisions": [
            {
                "decision": f"{number} {text()}",
                "rationale": dice.choice(["", text()]),
                "timestamp": moment(),
            }
            for number in range(dice.choice([0, 1, 10, 13]))
        ],
        "latest_artifacts": {
            f"{number}{text()[:50]}": text() for number in range(dice.randint(0, 3))
        },
        "turn_count": count(),
        "tags": [text() for _ in range(dice.randint(0, 3))],
        "metrics": {"decision_count": count(), "total_tokens": count(), "more": {"x": 1.50}},
        "fork_parent_id": dice.choice([None, text(), "parent-session"]),
        "fork_count": dice.randint(0, 3),
        "pruned": dice.choice([True, False]),
        "last_pruned_at": dice.choice([None, moment()]),
        "unknown": dice.choice([None, [1, {"a": 1e3}], "x"]),
    }
    document |= {name: value for name, value in optional.items() if dice.random() < 0.7}
    return document


async def test_any_state_comes_back_with_equal_values(house: House) -> None:
    dice = random.Random(13)
    async with house.daemon() as daemon, daemon.connect() as wire:
        for _ in range(40):
            document = drawn(dice)
            text = json.dumps(document, indent=dice.choice([None, 1]))
            session_id = await call(wire, "session/import", "session.id", content=text)
            assert await exported(wire, session_id) == document


HOSTILE: dict[str, tuple[str, str]] = {
    "a number for a decision": (json.dumps(sample(key_decisions=[{"decision": 5}])), "decision"),
    "no time of creation": (json.dumps(sample(created_at=...)), "created_at is missing"),
    "a time that is none": (json.dumps(sample(created_at="now")), "created_at is no time"),
    "another time that is none": (
        json.dumps(sample(key_decisions=[{"decision": "d", "timestamp": "x"}])),
        "key_decisions[0].timestamp is no time",
    ),
    "an empty decision": (json.dumps(sample(key_decisions=[{"decision": ""}])), "key_decisions[0]"),
    "a decision too long": (
        json.dumps(sample(key_decisions=[{"decision": "x" * 20_000}])),
        "key_decisions[0].decision",
    ),
    "a negative count": (json.dumps(sample(tokens_used=-1)), "tokens_used"),
    "a count too large": (json.dumps(sample(turn_count=2**53)), "turn_count"),
    "artifacts that are a list": (json.dumps(sample(latest_artifacts=["x"])), "latest_artifacts"),
    "too many artifacts": (
        json.dumps(sample(latest_artifacts={f"{n}": "x" for n in range(1001)})),
        "at most 1000 artifacts",
    ),
    "half a document": (json.dumps(sample())[:-20], ""),
    "half a surrogate pair": ('{"session_id":"\\ud800","turn_count":1,"created_at":"2026"}', ""),
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_a_document_that_is_not_right_is_refused_by_name(house: House, case: str) -> None:
    text, said = HOSTILE[case]
    async with house.daemon() as daemon, daemon.connect() as wire:
        refusal = await wire.refusal("session/import", content=text)
        assert refusal.data["kind"] == "session_corrupt"
        assert said in str(refusal)
        assert house.session_files() == []


async def test_another_format_that_was_asked_for_is_refused(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        text = SAMPLE.read_text()
        assert await refused(wire, "session/import", "path", content=text, format="pi") == "format"
        asked = {"format": "nova", "redact": ["x"]}
        assert await refused(wire, "session/export", "path", **asked) == "redact"


async def test_a_state_of_its_four_first_members_is_a_session(house: House) -> None:
    least = {name: sample()[name] for name in ("session_id", "created_at", "last_updated", "model")}
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await wire.call("session/import", content=json.dumps(least), cwd="/shop")
        assert made["report"]["format"] == "nova"
        assert await exported(wire, made["session"]["id"]) == least


async def test_tags_are_a_set_and_can_be_left_out(house: House) -> None:
    document = sample(tags=["b", "a", "b"])
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await wire.call("session/import", content=json.dumps(document), cwd="/shop")
        session_id = made["session"]["id"]
        assert made["session"]["tags"] == ["b", "a"]
        assert await exported(wire, session_id) == document
        asked = {"session_id": session_id, "format": "nova"}
        bare = json.loads(await call(wire, "session/export", "content", include=[], **asked))
        assert bare == sample(tags=...)
        whole = await call(wire, "session/export", "content", include=["tags"], **asked)
        assert json.loads(whole) == document


async def test_a_time_without_an_offset_is_utc(house: House) -> None:
    naive, aware = "2026-01-10T08:00:00.123456", "2026-01-10T08:00:00.123Z"
    decision: dict[str, Any] = {"type": "custom", "custom_type": "sessiond.decision"}
    decision |= {"timestamp": naive, "data": {"decision": "a", "timestamp": naive}}
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire, SESSION)
        await wire.call("append", session_id=SESSION, entries=[decision])
        await wire.call("session/decide", session_id=SESSION, decision="b", timestamp=naive)
        task = {"decision": "c", "timestamp": naive}
        await wire.call("session/task", session_id=SESSION, decision=task)
        state = await call(wire, "session/get", "state", session_id=SESSION)
        assert [one["timestamp"] for one in state["decisions"]] == [aware] * 3
        stored = await call(
            wire, "session/entries", "entries[].entry.timestamp", session_id=SESSION
        )
        assert stored[0] == f"{naive}Z"
        listed = await call(
            wire, "session/list", "sessions[].id", created_after="2026-01-01T00:00:00"
        )
        assert listed == [SESSION]
        word = await refused(wire, "session/list", "path", created_after="2026-01-01")
        assert word == "created_after"
