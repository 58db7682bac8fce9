"""Merges, squashes and left branches whose text a client or the command writes: who is asked, and what is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Wire
from tests.kit.calls import (
    append,
    append_all,
    call,
    cancel,
    create,
    create_with,
    refused_answer,
)
from tests.kit.house import House, arrived
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION, entry, stored_message
from tests.service.compacting import SAID, Command, serving

SAMPLES = Path(__file__).parent.parent / "samples"
OTHER = "session-b"
PURPOSES = ["compaction", "merge", "squash", "branch"]
one_backend = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")

# Each call for which the daemon has a text written, and the purpose that it is asked for.
CALLS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a merge here": ("session/merge", {"other_session_id": OTHER}, "merge"),
    "a merge into a new session": (
        "session/merge",
        {"other_session_id": OTHER, "into": "new"},
        "merge",
    ),
    "a squash": ("session/rebase", {"entry_ids": ["u2", "u1"], "squash": {}}, "squash"),
    "a left branch": ("session/navigate", {"entry_id": "u1", "summarize": True}, "branch"),
}
# What a caller sends that writes the text itself.
OWN: dict[str, dict[str, Any]] = {
    "merge": {"text": SAID},
    "squash": {"squash": {"summary": SAID}},
    "branch": {"summary": SAID, "summarize": False},
}
every_call = pytest.mark.parametrize("case", CALLS)


async def two_sessions(wire: Wire, persist: str = "immediate") -> None:
    await create_with(wire, "u1", "u2", persist=persist)
    await create_with(wire, "o1", "o2", session_id=OTHER, persist=persist)


async def begin(wire: Wire, case: str, **more: Any) -> int:
    method, params, _ = CALLS[case]
    return await wire.request(method, session_id=SESSION, **params, **more)


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_a_merge_is_written_by_the_caller_and_appended_as_a_turn(
    house: House, persist: str
) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": ["merge"]})
        await two_sessions(wire, persist)
        plan = await wire.call("session/plan_merge", session_id=SESSION, other_session_id=OTHER)
        number = await begin(wire, "a merge here", expected={"leaf_id": "u2"})
        asked = await wire.next_request()
        assert asked["method"] == "client/summarize"
        assert asked["params"] == {
            "session_id": SESSION,
            "head": "main",
            "purpose": "merge",
            "plan": None,
            **plan,
        }
        await wire.reply(asked, {"summary": SAID})
        done = await wire.answer(number)
        context = await call(wire, "build_context")
        assert context["sources"][-1] == done["entry"]["id"] == done["leaf_id"]
        assert context["messages"][-1]["content"] == [{"type": "text", "text": SAID}]
        assert len(context["messages"]) == 4


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_a_merge_that_is_written_twice_under_one_key_is_stored_once(
    house: House, persist: str
) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": ["merge"]})
        await two_sessions(wire, persist)
        numbers = [await begin(wire, "a merge here", idempotency_key="k") for _ in range(2)]
        asked = [await wire.next_request() for _ in numbers]
        for request, text in zip(asked, ("first", "second"), strict=True):
            await wire.reply(request, {"summary": text})
        first, second = [await wire.answer(number) for number in numbers]
        assert first == second
        # A merge that is stored asks no writer.
        assert await wire.answer(await begin(wire, "a merge here", idempotency_key="k")) == first
        assert len(await call(wire, "build_context", "messages")) == 4


async def test_a_written_merge_begins_a_new_session(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": ["merge"]})
        await two_sessions(wire)
        number = await begin(wire, "a merge into a new session")
        await append(wire, "later")
        await wire.reply(await wire.next_request(), {"summary": SAID})
        made = (await wire.answer(number))["session"]
        # The session is what both were when the call was made.
        assert (made["lineage"]["at_entry"], made["lineage"]["merge_source"]) == ("u2", OTHER)
        context = await call(wire, "build_context", session_id=made["id"])
        assert context["messages"][1]["content"][0]["text"] == SAID


async def test_a_written_squash_stands_for_the_chosen_entries_in_their_order(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": ["squash"]})
        await create_with(wire, "u1", persist="immediate")
        writes = {"type": "toolCall", "id": "c", "name": "write", "arguments": {"path": "clock.py"}}
        await append_all(
            wire,
            entry("a1", [writes], "assistant"),
            {"type": "custom", "id": "note", "custom_type": "note", "data": 1},
            entry("u2"),
        )
        chosen = ["u2", "note", "a1"]
        number = await wire.request(
            "session/rebase", session_id=SESSION, entry_ids=chosen, squash={"summary": None}
        )
        asked = await wire.next_request()
        params = asked["params"]
        assert (params["purpose"], params["plan"], params["head"]) == ("squash", None, "main")
        # An entry without a message is taken along and not summarised.
        assert params["entry_ids"] == ["u2", "a1"]
        assert "sources" not in params
        prompt = params["prompt"]
        assert prompt.index("[User]: u2") < prompt.index("clock.py")
        assert "[User]: u1" not in prompt
        await wire.reply(asked, {"summary": SAID})
        made = (await wire.answer(number))["session"]
        (message,) = await call(wire, "build_context", "messages", session_id=made["id"])
        assert message["summary"].startswith(SAID)
        assert message["details"] == {"read_files": [], "modified_files": ["clock.py"]}
        assert (made["message_count"], made["problems"]) == (2, 0)
        assert made["lineage"]["rebased_from"] == SESSION


async def test_each_client_is_asked_only_for_what_it_offered(house: House) -> None:
    async with (
        serving(house) as daemon,
        daemon.connect() as wire,
        daemon.connect() as compacts,
        daemon.connect() as squashes,
        daemon.connect() as merges,
    ):
        # What clients offered before there were purposes are compactions.
        await compacts.call("initialize", capabilities={"summarize": True})
        await squashes.call("initialize", capabilities={"summarize": ["squash", "poems"]})
        await merges.call("initialize", capabilities={"summarize": ["merge"]})
        answer = await wire.call("initialize", capabilities={"summarize": ["poems"]})
        assert answer["capabilities"]["summarize_purposes"] == PURPOSES
        await create_with(
            wire, "u1", "u2", compaction={"keep_recent_tokens": 1}, persist="immediate"
        )
        await create_with(wire, "o1", session_id=OTHER)
        for case, writer in (("a merge here", merges), ("a squash", squashes)):
            number = await begin(wire, case)
            await writer.reply(await writer.next_request(), {"summary": SAID})
            await wire.answer(number)
        number = await wire.request("compact", session_id=SESSION)
        asked = await compacts.next_request()
        assert asked["params"]["purpose"] == "compaction"
        assert set(asked["params"]) == {"session_id", "head", "purpose", "plan", "prompt"}
        await compacts.reply(asked, {"summary": SAID})
        await wire.answer(number)
        for each in (wire, compacts, squashes, merges):
            assert each.requests == []


@one_backend
@pytest.mark.parametrize(
    ("offered", "access", "kind"),
    [
        (["merge"], "read", "permission_denied"),
        ("merge", "write", "invalid_params"),
        ([1], "write", "invalid_params"),
    ],
)
async def test_an_offer_that_cannot_be_is_refused(
    house: House, offered: Any, access: str, kind: str
) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        capabilities = {"summarize": offered}
        refused = await wire.refusal("initialize", capabilities=capabilities, access=access)
        assert refused.data["kind"] == kind


@every_call
async def test_if_no_writer_is_there_the_caller_gets_the_prompt(house: House, case: str) -> None:
    command = Command()
    method, params, purpose = CALLS[case]
    async with serving(house, command) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": [purpose]}, client_id="agent")
        await two_sessions(wire)
        before = house.contents()
        number = await begin(wire, case)
        asked = await wire.next_request()
        await wire.send({"id": asked["id"], "error": {"code": 1, "message": "no"}})
        data = await refused_answer(wire, number, "")
        assert (data["kind"], data["purpose"]) == ("summarizer_unavailable", purpose)
        assert data["plan"]["prompt"] == asked["params"]["prompt"]
        assert data["tried"] == [
            {"by": "agent", "reason": "refused"},
            {"by": "command", "reason": "exit status 1"},
        ]
        assert command.purposes == [purpose]
        assert house.contents() == before
        # With the prompt the caller goes on by itself.
        await wire.call(method, session_id=SESSION, **{**params, **OWN[purpose]})


@every_call
async def test_without_a_client_the_command_writes_the_text(house: House, case: str) -> None:
    command = Command(SAID)
    async with serving(house, command) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": True})
        await two_sessions(wire)
        done = await wire.answer(await begin(wire, case))
        session_id = done["session"]["id"] if "session" in done else SESSION
        context = await call(wire, "build_context", session_id=session_id)
        assert SAID in json.dumps(context["messages"][-1], ensure_ascii=False)
        assert command.purposes == [CALLS[case][2]]
        assert wire.requests == []


@pytest.mark.parametrize("persist", ["immediate", "never"])
async def test_a_written_summary_of_a_branch_stands_where_the_head_went(
    house: House, persist: str
) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": ["branch"]})
        await create_with(wire, "u1", persist=persist)
        writes = {"type": "toolCall", "id": "c", "name": "write", "arguments": {"path": "clock.py"}}
        await append_all(wire, entry("a1", [writes], "assistant"), entry("u2"))
        asks = {"instructions": "Name the file.", "label": "tried"}
        plan = await call(
            wire, "session/plan_branch_summary", entry_id="u1", instructions=asks["instructions"]
        )
        number = await begin(wire, "a left branch", **asks)
        asked = await wire.next_request()
        assert asked["params"] == {
            "session_id": SESSION,
            "head": "main",
            "purpose": "branch",
            "plan": None,
            "prompt": plan["prompt"],
            "entry_ids": ["a1", "u2"],
        }
        await wire.reply(asked, {"summary": SAID})
        moved = await wire.answer(number)
        assert (moved["moved"], moved["editor_text"]) == (True, "u1")
        stored = await call(wire, "session/entry", "entry", entry_id=moved["leaf_id"])
        assert (stored["parent_id"], stored["from_id"]) == (None, "u2")
        # The files stand behind the text, also where the writer did not name them.
        lists = "\n\n<modified-files>\nclock.py\n</modified-files>"
        assert (stored["summary"], stored["details"]) == (SAID + lists, plan["details"])
        labels = await call(wire, "session/labels", "labels")
        assert [(one["entry_id"], one["label"]) for one in labels] == [(stored["id"], "tried")]
        # Sent again with what the caller expected, the call asks no writer.
        refusal = await wire.refusal(
            "session/navigate",
            session_id=SESSION,
            entry_id="u1",
            summarize=True,
            expected={"leaf_id": "u2"},
        )
        assert refusal.data["actual"]["leaf_id"] == stored["id"]
        assert wire.requests == []


@pytest.mark.parametrize("program", ["pi", "operator", "piglet", "sharur"])
async def test_a_written_summary_of_a_branch_is_what_the_program_of_the_file_reads(
    real_house: House, program: str
) -> None:
    command = Command(SAID)
    async with serving(real_house, command) as daemon, daemon.connect() as wire:
        sample = SAMPLES / program / f"{program}.jsonl"
        own = {"session_id": (await wire.call("session/import", path=str(sample)))["session"]["id"]}
        first = (await call(wire, "session/path", "entries[].entry.id", **own))[0]
        plan = await call(wire, "session/plan_branch_summary", entry_id=first, **own)
        moved = await call(wire, "session/navigate", entry_id=first, summarize=True, **own)
        stored = await call(wire, "session/entry", "entry", entry_id=moved["leaf_id"], **own)
        assert stored["type"] == "branch_summary"
        assert stored["summary"].startswith(SAID)
        for name in (*plan["files"]["read"], *plan["files"]["modified"]):
            assert name in stored["summary"]
        # Where a move is an entry, a head that leaves the move alone leaves nothing to tell.
        await call(wire, "session/reset", **own)
        await call(wire, "session/navigate", entry_id=first, summarize=True, **own)
        assert len(command.prompts) == 1
        info = (await call(wire, "session/get", **own))["session"]
        assert (info["dialect"], info["problems"]) == (program, 0)


@pytest.mark.parametrize(
    ("entry_id", "moved", "editor"),
    [("a1", False, None), ("u2", True, "u2"), ("down", True, None)],
)
async def test_a_head_that_leaves_nothing_to_tell_moves_without_a_writer(
    house: House, entry_id: str, moved: bool, editor: str | None
) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": ["branch"]})
        await create_with(wire, "u1", "u2", persist="immediate")
        await append_all(wire, entry("a1", "yes", "assistant"), entry("down", "x", "assistant"))
        # What is left is the target itself, nothing, or a note that no model reads.
        leaf = {"u2": "u2", "a1": "a1", "down": "a1"}[entry_id]
        await call(wire, "branch", entry_id=leaf)
        if entry_id == "down":
            await append_all(wire, {"type": "custom", "custom_type": "note", "data": 1})
        went = await call(wire, "session/navigate", entry_id=entry_id, summarize=True)
        assert (went["moved"], went["editor_text"]) == (moved, editor)
        kinds = await call(wire, "session/path", "entries[].entry.type")
        assert "branch_summary" not in kinds
        assert wire.requests == []


async def test_a_summary_of_a_hook_comes_before_a_written_one(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as writer:
        await wire.call("initialize", capabilities={"hooks": ["before_branch"]})
        await writer.call("initialize", capabilities={"summarize": ["branch"]})
        await two_sessions(wire)
        number = await begin(wire, "a left branch")
        await wire.reply(await wire.next_request(), {"veto": "not now"})
        assert await refused_answer(wire, number) == "vetoed"
        number = await begin(wire, "a left branch")
        await wire.reply(await wire.next_request(), {"summary": "of the hook"})
        leaf = (await wire.answer(number))["leaf_id"]
        assert await call(wire, "session/entry", "entry.summary", entry_id=leaf) == "of the hook"
        assert writer.requests == []
        await call(wire, "branch", entry_id="u2")
        number = await begin(wire, "a left branch")
        await wire.reply(await wire.next_request(), {})
        await writer.reply(await writer.next_request(), {"summary": SAID})
        leaf = (await wire.answer(number))["leaf_id"]
        assert await call(wire, "session/entry", "entry.summary", entry_id=leaf) == SAID


@every_call
async def test_a_cancelled_call_stores_nothing_and_its_writer_hears_of_it(
    house: House, case: str
) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as writer:
        await writer.call("initialize", capabilities={"summarize": PURPOSES})
        await two_sessions(wire)
        before = house.contents()
        number = await begin(wire, case)
        asked = await writer.next_request()
        await cancel(wire, number)
        assert await refused_answer(wire, number) == "cancelled"
        told = await writer.next_notification()
        assert (told["method"], told["params"]) == ("$/cancelRequest", {"id": asked["id"]})
        await writer.reply(asked, {"summary": SAID})
        await writer.call("server/ping")
        assert house.contents() == before
        assert len(daemon.service.runs) == 0


@every_call
async def test_the_text_and_its_cancellation_in_one_step_store_nothing(
    house: House, case: str
) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": PURPOSES})
        await two_sessions(wire)
        before = house.contents()
        number = await begin(wire, case)
        asked = await wire.next_request()
        await wire.send(
            {"id": asked["id"], "result": {"summary": SAID}},
            {"method": "$/cancelRequest", "params": {"id": number}},
        )
        assert await refused_answer(wire, number) == "cancelled"
        assert house.contents() == before


async def test_a_head_that_grew_gets_the_turn_below_what_it_gained(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", capabilities={"summarize": ["merge"]})
        await two_sessions(wire)
        number = await begin(wire, "a merge here")
        asked = await wire.next_request()
        await append(other, "u3")
        await append(other, "o3", session_id=OTHER)
        await wire.reply(asked, {"summary": SAID})
        done = await wire.answer(number)
        sources = await call(wire, "build_context", "sources")
        assert sources[:3] == ["u1", "u2", "u3"]
        assert sources[-1] == done["entry"]["id"]
        page = await wire.call("session/entries", session_id=SESSION, types=["custom"])
        # The note names what the text is about, and no later entry of the other session.
        notes = [each["entry"]["data"] for each in page["entries"]]
        assert notes == [{"session_id": OTHER, "leaf_id": "o2"}]


@pytest.mark.parametrize(
    ("method", "params", "kind"),
    [
        ("session/rewind", {"to": "u1"}, "plan_stale"),
        ("branch", {"entry_id": None}, "plan_stale"),
        ("session/archive", {}, "session_archived"),
        ("session/acquire", {"ttl_ms": 60_000}, "lease_held"),
        ("session/delete", {}, "cancelled"),
    ],
)
@pytest.mark.parametrize("case", ["a merge here", "a left branch"])
async def test_a_head_that_left_what_the_text_is_about_gets_no_text(
    house: House, case: str, method: str, params: dict[str, Any], kind: str
) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", capabilities={"summarize": PURPOSES})
        await two_sessions(wire)
        number = await begin(wire, case)
        asked = await wire.next_request()
        await other.call(method, session_id=SESSION, **params)
        before = house.contents()
        await wire.reply(asked, {"summary": SAID})
        assert await refused_answer(wire, number) == kind
        assert house.contents() == before


async def test_a_head_that_grew_while_its_branch_was_summarised_stays(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", capabilities={"summarize": ["branch"]})
        await two_sessions(wire)
        number = await begin(wire, "a left branch")
        asked = await wire.next_request()
        # A label moves no head.
        await call(other, "session/label", entry_id="u2", label="here")
        await wire.reply(asked, {"summary": SAID})
        await wire.answer(number)
        await call(wire, "branch", entry_id="u2")
        number = await begin(wire, "a left branch")
        asked = await wire.next_request()
        # The text does not tell of this entry, which would be left too.
        await append(other, "u3")
        before = house.contents()
        await wire.reply(asked, {"summary": SAID})
        data = await refused_answer(wire, number, "")
        assert (data["kind"], data["plan_leaf_id"], data["leaf_id"]) == ("plan_stale", "u2", "u3")
        assert house.contents() == before


@pytest.mark.parametrize("case", ["a merge into a new session", "a squash", "a left branch"])
async def test_a_file_that_was_replaced_meanwhile_makes_the_plan_stale(
    house: House, case: str
) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", capabilities={"summarize": PURPOSES})
        await create(wire, OTHER)
        path = house.put([stored_message("u1", None), stored_message("u2", "u1")])
        number = await begin(wire, case)
        asked = await wire.next_request()
        content = house.disk.content(path)
        house.disk.put(path, content.replace(b"text of u1", b"another text"))
        await append(other, "u3")
        before = house.contents()
        await wire.reply(asked, {"summary": SAID})
        assert await refused_answer(wire, number) == "plan_stale"
        assert house.contents() == before


@one_backend
@pytest.mark.parametrize(
    ("case", "more", "kind"),
    [
        ("a merge here", {"expected": {"leaf_id": "u1"}}, "precondition_failed"),
        ("a merge here", {"head": "nobody"}, "head_not_found"),
        ("a merge here", {"lease_id": "lost"}, "lease_lost"),
        ("a merge into a new session", {"head": "side"}, "invalid_params"),
        ("a squash", {"entry_ids": ["u1", "nowhere"]}, "entry_not_found"),
        ("a squash", {"entry_ids": ["u1", "u1"]}, "invalid_params"),
        ("a squash", {"entry_ids": ["note"]}, "invalid_params"),
        ("a merge here", {"dry_run": True}, None),
        ("a merge into a new session", {"dry_run": True}, None),
        ("a squash", {"dry_run": True}, None),
        ("a left branch", {"expected": {"leaf_id": "u1"}}, "precondition_failed"),
        ("a left branch", {"head": "nobody"}, "head_not_found"),
        ("a left branch", {"lease_id": "lost"}, "lease_lost"),
        ("a left branch", {"entry_id": "nowhere"}, "entry_not_found"),
        ("a left branch", {"summary": "S"}, "invalid_params"),
        ("a left branch", {"details": {}}, "invalid_params"),
        ("a left branch", {"instructions": "x", "summarize": False}, "invalid_params"),
        ("a left branch", {"instructions": "x" * 100_001}, "invalid_params"),
    ],
)
async def test_no_text_is_written_in_vain(
    house: House, case: str, more: dict[str, Any], kind: str | None
) -> None:
    method, params, _ = CALLS[case]
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": PURPOSES})
        await two_sessions(wire)
        note = {"type": "custom", "id": "note", "custom_type": "note", "data": 1}
        await append_all(wire, note)
        before = house.contents()
        asked = {"session_id": SESSION, **params, **more}
        if kind is None:
            assert (await wire.call(method, **asked))["session"]["message_count"] >= 2
        else:
            assert (await wire.refusal(method, **asked)).data["kind"] == kind
        assert wire.requests == []
        assert house.contents() == before


async def test_a_veto_comes_before_the_text_is_written(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as writer:
        await wire.call("initialize", capabilities={"hooks": ["before_fork"]})
        await writer.call("initialize", capabilities={"summarize": ["squash"]})
        await two_sessions(wire)
        number = await begin(wire, "a squash")
        await wire.reply(await wire.next_request(), {"veto": "not now"})
        assert await refused_answer(wire, number) == "vetoed"
        number = await begin(wire, "a squash")
        await wire.reply(await wire.next_request(), {})
        await writer.reply(await writer.next_request(), {"summary": SAID})
        assert (await wire.answer(number))["session"]["message_count"] == 2
        assert writer.requests == []


async def test_a_disk_that_fails_the_turn_leaves_nothing(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": ["merge"]})
        await two_sessions(wire)
        number = await begin(wire, "a merge here")
        asked = await wire.next_request()
        house.disk.fail("fdatasync")
        await wire.reply(asked, {"summary": SAID})
        assert await refused_answer(wire, number) == "storage_error"
        assert await call(wire, "build_context", "sources") == ["u1", "u2"]


async def test_a_turn_past_its_write_is_stored_and_answered(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": ["merge"]})
        await two_sessions(wire)
        number = await begin(wire, "a merge here")
        asked = await wire.next_request()
        with house.disk.hold("fdatasync") as gate:
            await wire.reply(asked, {"summary": SAID})
            await arrived(gate)
            await cancel(wire, number)
            await wire.call("server/ping")
        done = await wire.answer(number)
        assert (await call(wire, "build_context", "sources"))[-1] == done["entry"]["id"]


async def test_all_that_waits_for_a_text_counts_to_one_limit(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, RUNS_MAX=1)
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": PURPOSES})
        await two_sessions(wire)
        number = await begin(wire, "a squash")
        asked = await wire.next_request()
        refused = await begin(wire, "a merge here")
        assert await refused_answer(wire, refused, "{kind,limit}") == ("overloaded", 1)
        await wire.reply(asked, {"summary": SAID})
        await wire.answer(number)


async def test_a_writer_that_is_silent_is_followed_by_the_command(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, SUMMARIZE_SECONDS=0.05)
    async with serving(house, Command(SAID)) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"summarize": ["merge"]})
        await two_sessions(wire)
        number = await begin(wire, "a merge here")
        await wire.next_request()
        assert (await wire.answer(number))["seq"] == 5


@pytest.mark.parametrize(
    ("method", "params"),
    [("compact", {}), *((method, params) for method, params, _ in CALLS.values())],
)
async def test_the_wait_for_a_text_is_told_as_progress(
    house: House, method: str, params: dict[str, Any]
) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as writer:
        await writer.call("initialize", capabilities={"summarize": PURPOSES})
        await two_sessions(wire)
        compaction = {"keep_recent_tokens": 1}
        await wire.call("session/update", session_id=SESSION, compaction=compaction)
        meta = {"progress_token": "t"}
        number = await wire.request(method, session_id=SESSION, **params, _meta=meta)
        asked = await writer.next_request()
        begun = (await wire.next_notification())["params"]
        value = {"kind": "begin", "done": 0, "total": 1, "unit": "summaries"}
        assert begun == {"token": "t", "value": value}
        await writer.reply(asked, {"summary": SAID})
        await wire.answer(number)
        last = wire.notifications[-1]["params"]["value"]
        assert (last["kind"], last["done"]) == ("end", last["total"])


async def test_a_squash_in_a_file_of_pis_ends_with_the_files_as_pi_writes_them(
    real_house: House,
) -> None:
    async with serving(real_house, Command(SAID)) as daemon, daemon.connect() as wire:
        sample = SAMPLES / "pi" / "pi.jsonl"
        own = (await wire.call("session/import", path=str(sample)))["session"]
        message = {
            "role": "assistant",
            "content": [
                {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a.py"}}
            ],
            "timestamp": 1,
        }
        stored = await wire.call("append", session_id=own["id"], message=message)
        chosen = [stored["leaf_id"]]
        squash = {"session_id": own["id"], "entry_ids": chosen, "squash": {}}
        made = (await wire.call("session/rebase", **squash))["session"]
        assert (made["dialect"], made["problems"]) == ("pi", 0)
        (message,) = await call(wire, "build_context", "messages", session_id=made["id"])
        assert message["summary"] == f"{SAID}\n\n<read-files>\na.py\n</read-files>"
