"""Rebase and merge: chosen entries as a new session, and two sessions as one."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sessiond.testing.daemon import Wire
from tests.kit.calls import append, call, create, create_with, refused, say, session_info
from tests.kit.house import House
from tests.kit.sessions import SESSION, TIME, stored_entry, stored_message

SAMPLES = Path(__file__).parent.parent / "samples"
OTHER = "session-b"
ANNOTATION = "sessiond.annotation"
# What is asked is refused or it is not, whichever loop runs.
one_backend = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")


SOURCE = [
    stored_message("m1", None),
    stored_message("m2", "m1", "assistant"),
    {"type": "label", "id": "l1", "parent_id": "m2", "timestamp": TIME, "target_id": "m2", "label": "good"},
    stored_message("x1", "m2") | {"head": "tried"},
    stored_message("m3", "m2"),
    {
        "type": "compaction",
        "id": "c1",
        "parent_id": "m3",
        "timestamp": TIME,
        "summary": "so far",
        "first_kept_entry_id": "m2",
    },
    stored_message("m4", "c1", "assistant"),
]  # fmt: skip
SQUASH = {"summary": "all of it"}
MERGED = {"other_session_id": OTHER, "text": "both"}
"""Members of a merge of the other session."""
OTHERS = [stored_message("o1", None), stored_message("o2", "o1", "assistant")]


# -- rebase --------------------------------------------------------------------------------


async def test_chosen_entries_stand_below_each_other_in_the_order_they_were_given(
    house: House,
) -> None:
    path = house.put(SOURCE)
    before = house.disk.content(path)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, "session/rebase", "session", entry_ids=["m3", "x1", "m2"])
        assert await call(wire, "build_context", "sources", session_id=made["id"]) == [
            "m3",
            "x1",
            "m2",
        ]
        assert made["lineage"] == {
            "parent_id": SESSION,
            "parent_path": str(path),
            "rebased_from": SESSION,
        }
        assert (made["problems"], [head["name"] for head in made["heads"]]) == (0, ["main"])
        named = "labels[].{entry_id,label}"
        labels = await call(wire, "session/labels", named, session_id=made["id"])
        assert labels == [("m2", "good")]
        counted = await call(wire, "session/rebase", "session", indices=[2, 0], link="none")
        assert await call(wire, "build_context", "sources", session_id=counted["id"]) == [
            "m3",
            "m1",
        ]
        assert counted["lineage"] == {"rebased_from": SESSION, "detached": True}
    assert house.disk.content(path) == before
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "build_context", "sources", session_id=made["id"]) == [
            "m3",
            "x1",
            "m2",
        ]


async def test_chosen_entries_keep_their_annotations_of_every_branch(house: House) -> None:
    def about(entry_id: str, parent_id: str, target: str, **data: Any) -> dict[str, Any]:
        said = {"entry_id": target, "data": data}
        return stored_entry("custom", entry_id, parent_id, custom_type=ANNOTATION, data=said)

    added = [
        about("n1", "m4", "m2", files=["a.png"], seen=True),
        about("n2", "x1", "m2", seen=None, stars=1) | {"head": "tried"},
        about("n3", "n1", "m1", stars=5),
        about("n4", "n3", "n2", checked=True),
        about("n5", "n4", "x1", stars=9),
    ]
    house.put([*SOURCE, *added])

    async def known(wire: Wire, session_id: str, entry_id: str) -> Any:
        asked = {"session_id": session_id, "entry_id": entry_id}
        return (await wire.call("session/entry", **asked)).get("annotations")

    async with house.daemon() as daemon, daemon.connect() as wire:
        plain = await call(wire, "session/rebase", "session", entry_ids=["m3", "m2"])
        named = await call(wire, "session/rebase", "session", entry_ids=["m2", "n2", "m1"])
        squashed = await call(wire, "session/rebase", "session", indices=[1], squash=SQUASH)
    async with house.daemon() as daemon, daemon.connect() as wire:
        # An annotation that was chosen comes where it was chosen, so before those that follow.
        for made, more in ((plain, {}), (named, {"seen": True}), (squashed, {})):
            assert made["problems"] == 0
            assert await known(wire, made["id"], "m2") == {"files": ["a.png"], "stars": 1, **more}
            assert await known(wire, made["id"], "n2") == {"checked": True}
        assert (plain["entry_count"], plain["leaf_id"]) == (6, "n4")
        assert await call(wire, "build_context", "sources", session_id=plain["id"]) == ["m3", "m2"]
        assert await known(wire, named["id"], "m1") == {"stars": 5}
        left_out = {"session_id": plain["id"], "entry_id": "n5"}
        assert await refused(wire, "session/entry", **left_out) == "entry_not_found"
        (message,) = await call(wire, "build_context", "messages", session_id=squashed["id"])
        assert message["summary"] == "all of it"


@pytest.mark.parametrize(
    ("chosen", "sources"),
    [
        (["m2", "m3", "c1", "m4"], ["c1", "m2", "m3", "m4"]),
        (["m3", "c1", "m4"], ["c1", "m3", "m4"]),
        (["m1", "c1", "m4"], ["c1", "m4"]),
        (["c1", "m2"], ["c1", "m2"]),
    ],
)
async def test_a_compaction_keeps_what_is_left_of_what_it_kept(
    house: House, chosen: list[str], sources: list[str]
) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, "session/rebase", "session", entry_ids=chosen)
        assert made["problems"] == 0
        assert await call(wire, "build_context", "sources", session_id=made["id"]) == sources


async def test_squashed_the_model_sees_the_summary_and_the_entries_are_there(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(wire, "session/rebase", "session", indices=[0, 1], squash=SQUASH)
        (message,) = await call(wire, "build_context", "messages", session_id=made["id"])
        assert (message["role"], message["summary"]) == ("compaction_summary", "all of it")
        assert (made["message_count"], made["problems"]) == (2, 0)


async def test_pis_entries_are_rebased_into_pis_file(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        sample = str(SAMPLES / "pi" / "pi.jsonl")
        own = await call(wire, "session/import", "session.id", path=sample)
        squashed = {"session_id": own, "indices": [1, 0], "squash": SQUASH}
        made = await call(wire, "session/rebase", "session", **squashed)
        assert (made["dialect"], made["problems"]) == ("pi", 0)
        assert made["lineage"]["rebased_from"] == own
        (message,) = await call(wire, "build_context", "messages", session_id=made["id"])
        assert (message["role"], message["summary"]) == ("compactionSummary", "all of it")


BAD_REBASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "neither": ({}, "invalid_params", "entry_ids"),
    "both": ({"entry_ids": ["m1"], "indices": [0]}, "invalid_params", "entry_ids"),
    "none of them": ({"entry_ids": []}, "invalid_params", "entry_ids"),
    "no index": ({"indices": []}, "invalid_params", "indices"),
    "an unknown entry": ({"entry_ids": ["m1", "x"]}, "entry_not_found", "entry_ids[1]"),
    "a label": ({"entry_ids": ["l1"]}, "entry_not_found", "entry_ids[0]"),
    "an entry twice": ({"entry_ids": ["m1", "m1"]}, "invalid_params", "entry_ids[1]"),
    "past the end": ({"indices": [0, 4]}, "invalid_params", "indices[1]"),
    "below the first": ({"indices": [-1]}, "invalid_params", "indices[0]"),
    "an index twice": ({"indices": [1, 1]}, "invalid_params", "indices[1]"),
    "an empty summary": (
        {"indices": [0], "squash": {"summary": " "}},
        "entry_invalid",
        "squash.summary",
    ),
}


@one_backend
@pytest.mark.parametrize("case", BAD_REBASES)
async def test_a_rebase_of_what_is_not_there_is_refused(house: House, case: str) -> None:
    params, kind, path = BAD_REBASES[case]
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        before = list(house.contents())
        assert await refused(wire, "session/rebase", "{kind,path}", **params) == (kind, path)
        assert list(house.contents()) == before


async def test_a_dry_rebase_leaves_nothing(house: House) -> None:
    house.put(SOURCE)
    async with house.daemon() as daemon, daemon.connect() as wire:
        before = list(house.contents())
        told = await call(wire, "session/rebase", "session", indices=[3, 1], dry_run=True)
        assert (told["path"], told["message_count"], told["leaf_id"]) == (None, 2, "m2")
        assert list(house.contents()) == before


# -- merge ---------------------------------------------------------------------------------


async def test_a_plan_has_both_sessions_and_changes_neither(house: House) -> None:
    house.put(SOURCE)
    house.put(OTHERS, OTHER)
    async with house.daemon() as daemon, daemon.connect() as wire:
        plan = await call(wire, "session/plan_merge", other_session_id=OTHER)
        assert plan["sources"] == [
            {"session_id": SESSION, "leaf_id": "m4", "entry_ids": ["c1", "m2", "m3", "m4"]},
            {"session_id": OTHER, "leaf_id": "o2", "entry_ids": ["o1", "o2"]},
        ]
        for text in ("so far", "text of m4", "text of o1"):
            assert text in plan["prompt"]
        assert "text of x1" not in plan["prompt"]


async def test_a_long_session_is_quoted_from_its_end_and_each_message_from_its_beginning(
    house: House,
) -> None:
    many = [stored_message(f"n{n}", f"n{n - 1}" if n else None) for n in range(100)]
    many[-1]["message"]["content"] = "begin " + "x" * 100_000
    house.put(many)
    house.put(OTHERS, OTHER)
    async with house.daemon() as daemon, daemon.connect() as wire:
        plan = await call(wire, "session/plan_merge", other_session_id=OTHER)
        assert plan["sources"][0]["entry_ids"] == [f"n{n}" for n in range(60, 100)]
        assert "begin x" in plan["prompt"]
        assert len(plan["prompt"]) < 10_000


async def test_a_turn_is_appended_here_and_says_what_was_merged(house: House) -> None:
    house.put(SOURCE)
    other = house.put(OTHERS, OTHER)
    before = house.disk.content(other)
    async with house.daemon() as daemon, daemon.connect() as wire:
        told = await call(wire, "session/merge", "session", dry_run=True, **MERGED)
        merged = await call(wire, "session/merge", expected={"leaf_id": "m4"}, **MERGED)
        assert merged["leaf_id"] == merged["entry"]["id"]
        info = await session_info(wire)
        for name in ("seq", "message_count", "entry_count", "title", "lineage"):
            assert told[name] == info[name]
        assert (told["path"], info["message_count"]) == (None, 6)
        *_, asked, answer = await call(wire, "build_context", "messages")
        assert asked["role"] == "user"
        assert SESSION in asked["content"]
        assert OTHER in asked["content"]
        assert answer == {"role": "assistant", "content": [{"type": "text", "text": "both"}]}
        (stored,) = [one for one in house.session_files() if one.name.endswith(f"{SESSION}.jsonl")]
        lines = map(json.loads, house.disk.content(stored).splitlines())
        (note_id,) = [one["id"] for one in lines if one.get("custom_type") == "sessiond.merge"]
        note = await call(wire, "session/entry", "entry.data", entry_id=note_id)
        assert note == {"session_id": OTHER, "leaf_id": "o2"}
    assert house.disk.content(other) == before


async def test_a_merge_into_a_new_session_begins_with_the_turn(house: House) -> None:
    path = house.put(SOURCE)
    house.put(OTHERS, OTHER)
    before = house.disk.content(path)
    async with house.daemon() as daemon, daemon.connect() as wire:
        files = list(house.contents())
        told = await call(wire, "session/merge", "session", into="new", dry_run=True, **MERGED)
        assert list(house.contents()) == files
        made = await call(wire, "session/merge", "session", into="new", **MERGED)
        assert made["lineage"] == {
            "parent_id": SESSION,
            "parent_path": str(path),
            "at_entry": "m4",
            "merge_source": OTHER,
        }
        assert (told["lineage"], told["message_count"]) == (made["lineage"], 2)
        messages = await call(wire, "build_context", "messages", session_id=made["id"])
        assert [message["role"] for message in messages] == ["user", "assistant"]
    assert house.disk.content(path) == before
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "build_context", "messages", session_id=made["id"]) == messages


async def test_a_merge_in_a_file_of_pis_is_what_pi_can_read(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        sample = str(SAMPLES / "pi" / "pi.jsonl")
        own = await call(wire, "session/import", "session.id", path=sample)
        await create(wire, OTHER)
        for into in ("this", "new"):
            merged = await wire.call("session/merge", session_id=own, into=into, **MERGED)
            session_id = merged["session"]["id"] if into == "new" else own
            *_, last = await call(wire, "build_context", "messages", session_id=session_id)
            assert (last["role"], last["content"].endswith("\n\nboth")) == ("custom", True)
            info = await session_info(wire, session_id)
            assert (info["dialect"], info["problems"]) == ("pi", 0)


BAD_MERGES: dict[str, tuple[dict[str, Any], str]] = {
    "itself": ({"other_session_id": SESSION}, "invalid_params"),
    "an unknown session": ({"other_session_id": "no-such-session"}, "session_not_found"),
    "no text": ({"text": " "}, "entry_invalid"),
    "elsewhere": ({"into": "there"}, "invalid_params"),
    "behind the caller's back": ({"expected": {"leaf_id": "m1"}}, "precondition_failed"),
    "a head that is not there": ({"head": "nobody"}, "head_not_found"),
    "a lease that is over": ({"lease_id": "lease"}, "lease_lost"),
    "a head of a new session": ({"into": "new", "head": "tried"}, "invalid_params"),
    "a guard of a new session": ({"into": "new", "expected": {"seq": 7}}, "invalid_params"),
    "a key of a new session": ({"into": "new", "idempotency_key": "k"}, "invalid_params"),
    "a lease of a new session": ({"into": "new", "lease_id": "lease"}, "invalid_params"),
}


@one_backend
@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("case", BAD_MERGES)
async def test_a_merge_that_cannot_be_is_refused(house: House, case: str, dry_run: bool) -> None:
    more, kind = BAD_MERGES[case]
    path = house.put(SOURCE)
    house.put(OTHERS, OTHER)
    before = house.disk.content(path)
    async with house.daemon() as daemon, daemon.connect() as wire:
        files = list(house.contents())
        params = {"dry_run": dry_run, **MERGED, **more}
        assert await refused(wire, "session/merge", **params) == kind
        assert list(house.contents()) == files
    assert house.disk.content(path) == before


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_a_merge_under_a_key_is_stored_once(house: House, persist: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        for session_id in (SESSION, OTHER):
            await create(wire, session_id, persist=persist)
            await append(wire, "m1", session_id=session_id)
        keyed = {"idempotency_key": "k", "expected": {"leaf_id": "m1"}, **MERGED}
        first = await call(wire, "session/merge", **keyed)
        # Neither what came meanwhile nor where the other session is makes it another merge.
        await append(wire, "o2", session_id=OTHER)
        later = await append(wire, "m2")
        assert await call(wire, "session/merge", **keyed) == first | {"leaf_id": "m2"}
        assert (await session_info(wire))["seq"] == later["seq"] == first["seq"] + 1
        other = await call(wire, "session/merge", "seq", idempotency_key="k2", **MERGED)
        assert other == later["seq"] + 3
        for more in ({"text": "else"}, {"other_session_id": "session-c"}):
            params = {**MERGED, **more, "idempotency_key": "k"}
            assert await refused(wire, "session/merge", **params) == "idempotency_conflict"
        await say(wire, idempotency_key="k3")
        params = {**MERGED, "idempotency_key": "k3"}
        assert await refused(wire, "session/merge", **params) == "idempotency_conflict"


async def test_a_merge_is_repeated_after_a_restart_and_without_the_other_session(
    house: House,
) -> None:
    house.put(SOURCE)
    house.put(OTHERS, OTHER)
    async with house.daemon() as daemon, daemon.connect() as wire:
        first = await call(wire, "session/merge", idempotency_key="k", head="tried", **MERGED)
        await wire.call("session/delete", session_id=OTHER)
        assert (
            await call(wire, "session/merge", idempotency_key="k", head="tried", **MERGED) == first
        )
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert (
            await call(wire, "session/merge", idempotency_key="k", head="tried", **MERGED) == first
        )
        without_text = {"other_session_id": OTHER, "idempotency_key": "k"}
        assert await call(wire, "session/merge", **without_text) == first
        assert (await session_info(wire))["seq"] == first["seq"]


@pytest.mark.parametrize("dialect", ["native", "pi", "operator", "piglet", "sharur"])
async def test_a_merge_under_a_key_is_stored_once_in_a_file_of_any_program(
    real_house: House, dialect: str
) -> None:
    times = count(1)
    ticking = replace(real_house.environment, now=lambda: f"2026-01-15T10:30:00.{next(times):03}Z")
    real_house.environment = ticking
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "m1", session_id=OTHER, persist="immediate")
        own = await call(wire, "session/fork", "session.id", session_id=OTHER, dialect=dialect)
        params = {"session_id": own, "idempotency_key": "k", **MERGED}
        first = await wire.call("session/merge", **params)
        await append(wire, "m2-of-the-other-one", session_id=OTHER)
        assert await wire.call("session/merge", **params) == first
        assert (await session_info(wire, own))["seq"] == first["seq"]
        params["text"] = "else"
        assert await refused(wire, "session/merge", **params) == "idempotency_conflict"


async def test_a_leased_head_is_merged_into_under_its_lease_only(house: House) -> None:
    house.put(SOURCE)
    house.put(OTHERS, OTHER)
    async with house.daemon() as daemon, daemon.connect() as wire:
        lease_id = await call(wire, "session/acquire", "lease_id", ttl_ms=60_000)
        for dry_run in (True, False):
            assert await refused(wire, "session/merge", dry_run=dry_run, **MERGED) == "lease_held"
        assert await call(wire, "session/merge", "seq", lease_id=lease_id, **MERGED) == 10
        # Another head is nobody's.
        there = {"head": "tried", **MERGED}
        assert await call(wire, "session/merge", "session.seq", dry_run=True, **there) == 13
        assert await call(wire, "session/merge", "seq", **there) == 13
