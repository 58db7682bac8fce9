"""Compactions that the daemon carries out: summarizers, waiting clients, and stored entries."""

from __future__ import annotations

import anyio
import pytest

from sessiond import limits
from sessiond.service.actor.actor import SessionActor
from sessiond.service.compaction import runner
from sessiond.testing.daemon import Refusal
from tests.kit.calls import append, call, create_to_compact
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.sessions import SESSION
from tests.service.compacting import OFFER, SAID, Command, serving

pytestmark = [pytest.mark.recommends, pytest.mark.both_loops]


@pytest.mark.parametrize("persist", ["on_assistant", "never"])
async def test_who_asks_is_asked_and_gets_what_it_wrote(house: House, persist: str) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        await other.call("initialize", capabilities=OFFER)
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2", persist=persist)
        number = await wire.request("compact", session_id=SESSION, instructions="Mind the clock.")
        asked = await wire.next_request()
        assert asked["method"] == "client/summarize"
        assert asked["params"]["session_id"] == SESSION
        assert asked["params"]["head"] == "main"
        assert asked["params"]["plan"]["summarize"] == ["u1"]
        assert "prompt" not in asked["params"]["plan"]
        assert "Mind the clock." in asked["params"]["prompt"]
        await wire.reply(asked, {"summary": SAID, "more": 1})
        done = await wire.answer(number)
        context = await wire.call("build_context", session_id=SESSION)
        assert context["sources"] == [done["entry"]["id"], "u2"]
        assert context["messages"][0]["summary"] == SAID
        assert (context["tokens"], context["leaf_id"]) == (done["tokens_after"], done["leaf_id"])
        assert asked["params"]["plan"]["tokens_before"] == done["tokens_before"]
        assert other.requests == []


async def test_a_run_keeps_from_the_entry_that_its_caller_names(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2", "u3")
        await append(wire, "a3", role="assistant")
        await append(wire, "t3", role="tool")
        for entry_id, kind in (("nowhere", "entry_not_found"), ("t3", "entry_invalid")):
            with pytest.raises(Refusal) as refused:
                await wire.call("compact", session_id=SESSION, first_kept_entry_id=entry_id)
            assert refused.value.data["kind"] == kind
            assert refused.value.data["path"] == "first_kept_entry_id"
        with pytest.raises(Refusal) as refused:
            await wire.call("compact", session_id=SESSION, first_kept_entry_id="u1")
        assert refused.value.data["reason"] == "fits"
        assert wire.requests == []
        # The plan by itself would keep u3 or what follows.
        number = await wire.request("compact", session_id=SESSION, first_kept_entry_id="u2")
        asked = await wire.next_request()
        assert asked["params"]["plan"]["summarize"] == ["u1"]
        await wire.reply(asked, {"summary": SAID})
        done = await wire.answer(number)
        context = await wire.call("build_context", session_id=SESSION)
        assert context["sources"] == [done["entry"]["id"], "u2", "u3", "a3", "t3"]


async def test_two_agents_reach_the_limit_at_once(house: House) -> None:
    async with (
        serving(house) as daemon,
        daemon.connect() as one,
        daemon.connect() as two,
        daemon.connect() as watcher,
    ):
        await one.call("initialize", capabilities=OFFER)
        await two.call("initialize", capabilities=OFFER)
        await create_to_compact(one, "u1", "u2")
        await watcher.call("subscribe", session_id=SESSION)
        first = await one.request("compact", session_id=SESSION)
        asked = await one.next_request()
        second = await two.request("compact", session_id=SESSION, instructions="Other words.")
        await two.call("server/ping")
        await one.reply(asked, {"summary": SAID})
        done = await one.answer(first)
        assert await two.answer(second) == done
        assert two.requests == []
        assert (await call(one, "session/entries", "entries[].entry.type")).count("compaction") == 1
        for wire, name in ((one, "more1"), (two, "more2")):
            await append(wire, name)
        context = await two.call("build_context", session_id=SESSION)
        assert context["sources"] == [done["entry"]["id"], "u2", "more1", "more2"]
        told = [await watcher.next_notification() for _ in range(3)]
        methods = [each["method"] for each in told]
        assert methods == ["session/compaction", "session/event", "session/compaction"]
        before = done["tokens_before"]
        state = {"session_id": SESSION, "head": "main", "tokens_before": before}
        assert told[0]["params"] == {**state, "state": "started"}
        after = done["tokens_after"]
        assert told[2]["params"] == {**state, "state": "completed", "tokens_after": after}


@pytest.mark.parametrize("end", ["close", "end_input"])
async def test_when_the_writer_leaves_half_way_the_next_one_is_asked(
    house: House, end: str
) -> None:
    async with (
        serving(house) as daemon,
        daemon.connect() as wire,
        daemon.connect() as first,
        daemon.connect() as second,
    ):
        await first.call("initialize", capabilities=OFFER, client_id="first")
        await second.call("initialize", capabilities=OFFER, client_id="second")
        await create_to_compact(wire, "u1", "u2")
        # Who watches the session comes before who does not.
        await first.call("subscribe", session_id=SESSION)
        number = await wire.request("compact", session_id=SESSION)
        await first.next_request()
        getattr(first, end)()
        asked = await second.next_request()
        await second.reply(asked, {"summary": SAID})
        await wire.answer(number)
        assert (await call(wire, "session/entries", "entries[].entry.type")).count(
            "compaction"
        ) == 1


GARBAGE: list[tuple[bytes, str]] = [
    (b'{"id":1,"result":{"summary":" \\n"}}', "empty"),
    (b'{"id":1,"result":{}}', "malformed"),
    (b'{"id":1,"result":[1]}', "malformed"),
    (b'{"id":1,"result":null}', "malformed"),
    (b'{"id":1,"result":{"summary":7}}', "malformed"),
    (b'{"id":1}', "malformed"),
    (b'{"id":1,"result":{},"error":{}}', "malformed"),
    (b'[{"id":1,"result":{"summary":""}}]', "empty"),
    (b'{"id":1,"error":{"code":-32601,"message":"no"}}', "refused"),
    (b'{"id":1,"result":{"summary":"%s"}}' % (b"x" * (limits.SUMMARY_BYTES_MAX + 1)), "too_large"),
]


@pytest.mark.parametrize(("body", "reason"), GARBAGE)
async def test_what_is_no_summary_is_told_with_the_plan(
    house: House, body: bytes, reason: str
) -> None:
    command = Command()
    async with serving(house, command) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities=OFFER, client_info={"name": "agent"})
        await create_to_compact(wire, "u1", "u2")
        before = house.stored()
        number = await wire.request("compact", session_id=SESSION)
        asked = await wire.next_request()
        await wire.send(body)
        with pytest.raises(Refusal) as refused:
            await wire.answer(number)
        data = refused.value.data
        assert (refused.value.code, data["kind"]) == (-32051, "summarizer_unavailable")
        assert data["tried"] == [
            {"by": "agent", "reason": reason},
            {"by": "command", "reason": "exit status 1"},
        ]
        assert house.stored() == before
        # With the plan the caller goes on by itself.
        plan = data["plan"]
        assert plan["prompt"] == asked["params"]["prompt"] == command.prompts[0]
        assert {name: plan[name] for name in asked["params"]["plan"]} == asked["params"]["plan"]
        await wire.call("compact", session_id=SESSION, plan_id=plan["plan_id"], summary=SAID)


async def test_an_answer_over_the_frame_limit_is_one_that_failed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(house, Command(SAID)) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        number = await wire.request("compact", session_id=SESSION)
        await wire.next_request()
        too_long = b'{"id":1,"result":{"summary":"%s"}}' % (b"x" * limits.FRAME_BYTES_MAX)
        await wire.send(too_long)
        # The daemon cannot know whose answer it was, so the frame is refused without an id.
        await wire.answer(number)
        assert (await call(wire, "session/entries", "entries[].entry.type")).count(
            "compaction"
        ) == 1


async def test_nobody_writes_summaries(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await create_to_compact(wire, "u1", "u2")
        before = house.stored()
        refused = await wire.refusal("compact", session_id=SESSION)
        assert refused.data["kind"] == "summarizer_unavailable"
        assert refused.data["plan"]["leaf_id"] == "u2"
        assert refused.data["tried"] == []
        assert house.stored() == before


async def test_who_does_not_answer_in_time_is_told_so_and_the_command_has_its_turn(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, SUMMARIZE_SECONDS=0.05)
    command = Command(SAID)
    async with serving(house, command) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        number = await wire.request("compact", session_id=SESSION)
        asked = await wire.next_request()
        await wire.answer(number)
        told = await wire.next_notification()
        assert told["method"] == "$/cancelRequest"
        assert told["params"] == {"id": asked["id"]}
        # A late answer is nobody's.
        await wire.reply(asked, {"summary": "late"})
        context = await wire.call("build_context", session_id=SESSION)
        assert context["messages"][0]["summary"] == SAID
        assert len(command.prompts) == 1


async def test_while_a_plan_waits_others_write_and_the_commit_lands(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        number = await wire.request("compact", session_id=SESSION)
        asked = await wire.next_request()
        for n in range(10):
            await append(other, f"more{n}")
        await append(other, "aside", head="side", parent_id="u1")
        await wire.reply(asked, {"summary": SAID})
        done = await wire.answer(number)
        context = await wire.call("build_context", session_id=SESSION)
        kept = ["u2", *(f"more{n}" for n in range(10))]
        assert context["sources"] == [done["entry"]["id"], *kept]


async def test_a_rewind_below_the_plan_makes_it_stale(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        await watcher.call("subscribe", session_id=SESSION)
        number = await wire.request("compact", session_id=SESSION)
        asked = await wire.next_request()
        await wire.call("session/rewind", session_id=SESSION, to="u1")
        before = house.stored()
        await wire.reply(asked, {"summary": SAID})
        with pytest.raises(Refusal) as refused:
            await wire.answer(number)
        assert refused.value.data["kind"] == "plan_stale"
        assert (refused.value.data["plan_leaf_id"], refused.value.data["leaf_id"]) == ("u2", "u1")
        assert house.stored() == before
        told = [await watcher.next_notification() for _ in range(3)]
        assert [each["method"] for each in told][::2] == ["session/compaction"] * 2
        assert told[2]["params"]["state"] == "failed"
        assert told[2]["params"]["reason"] == "plan_stale"


async def test_a_cancelled_call_ends_the_run_unless_others_wait_for_it(house: House) -> None:
    async with (
        serving(house) as daemon,
        daemon.connect() as writer,
        daemon.connect() as one,
        daemon.connect() as two,
    ):
        await writer.call("initialize", capabilities=OFFER)
        await create_to_compact(one, "u1", "u2")
        first, second = (
            await one.request("compact", session_id=SESSION),
            await two.request("compact", session_id=SESSION),
        )
        asked = await writer.next_request()
        await two.call("session/get", session_id=SESSION)
        await one.send({"method": "$/cancelRequest", "params": {"id": first}})
        with pytest.raises(Refusal) as refused:
            await one.answer(first)
        assert refused.value.data["kind"] == "cancelled"
        await two.send({"method": "$/cancelRequest", "params": {"id": second}})
        # Now nobody waits any more, and the writer hears of it.
        told = await writer.next_notification()
        assert (told["method"], told["params"]) == ("$/cancelRequest", {"id": asked["id"]})
        await writer.reply(asked, {"summary": SAID})
        number = await one.request("compact", session_id=SESSION)
        asked = await writer.next_request()
        await writer.reply(asked, {"summary": SAID})
        await one.answer(number)
        assert (await call(one, "session/entries", "entries[].entry.type")).count("compaction") == 1


async def test_a_leased_head_is_compacted_under_its_lease_alone(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        held = await wire.call("session/acquire", session_id=SESSION, ttl_ms=60_000)
        refused = await other.refusal("compact", session_id=SESSION)
        assert refused.data["kind"] == "lease_held"
        number = await wire.request("compact", session_id=SESSION, lease_id=held["lease_id"])
        asked = await wire.next_request()
        await wire.reply(asked, {"summary": SAID})
        await wire.answer(number)


async def test_what_cannot_be_committed_is_not_begun(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        for params, kind in (
            ({"head": "none"}, "head_not_found"),
            ({"expected": {"leaf_id": "u1"}}, "precondition_failed"),
            ({"lease_id": "lost"}, "lease_lost"),
            ({"plan_id": "plan-1-x"}, "invalid_params"),
            ({"first_kept_entry_id": "none"}, "entry_not_found"),
            ({"details": {}}, "invalid_params"),
            ({"tokens_before": 3}, "invalid_params"),
            ({"summary": "s", "instructions": "i"}, "invalid_params"),
        ):
            refused = await wire.refusal("compact", session_id=SESSION, **params)
            assert refused.data["kind"] == kind, params
        assert wire.requests == []
        await wire.call("session/archive", session_id=SESSION)
        refused = await wire.refusal("compact", session_id=SESSION)
        assert refused.data["kind"] == "session_archived"


async def test_right_below_a_compaction_there_is_nothing_to_do(house: House) -> None:
    async with serving(house, Command(SAID)) as daemon, daemon.connect() as wire:
        await create_to_compact(wire, "u1", "u2")
        await wire.call("compact", session_id=SESSION)
        refused = await wire.refusal("compact", session_id=SESSION)
        assert (refused.code, refused.data["kind"]) == (-32053, "nothing_to_compact")
        assert (refused.data["reason"], refused.data["head"]) == ("compacted", "main")


async def test_a_key_makes_a_run_one_compaction_over_a_restart(house: House) -> None:
    command = Command(SAID)
    async with serving(house, command) as daemon, daemon.connect() as wire:
        await create_to_compact(wire, "u1", "u2")
        done = await wire.call("compact", session_id=SESSION, idempotency_key="k")
        await append(wire, "u3")
    async with serving(house, command) as daemon, daemon.connect() as wire:
        again = await wire.call("compact", session_id=SESSION, idempotency_key="k")
        assert again == {**done, "leaf_id": "u3", "seq": again["seq"]}
        assert len(command.prompts) == 1
        await wire.call("append", session_id=SESSION, message={"role": "user"}, idempotency_key="l")
        refused = await wire.refusal("compact", session_id=SESSION, idempotency_key="l")
        assert refused.data["kind"] == "idempotency_conflict"


@pytest.mark.parametrize("end", ["stop", "delete"])
async def test_the_end_of_a_session_ends_its_run(house: House, end: str) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        number = await wire.request("compact", session_id=SESSION)
        await wire.next_request()
        with anyio.fail_after(PATIENCE_SECONDS):
            if end == "stop":
                await other.call("server/stop")
            else:
                await other.call("session/delete", session_id=SESSION)
            with pytest.raises(Refusal) as refused:
                await wire.answer(number)
        assert refused.value.data["kind"] == ("draining" if end == "stop" else "cancelled")


async def test_who_may_not_write_offers_no_summaries(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        refused = await wire.refusal("initialize", access="read", capabilities=OFFER)
        assert (refused.data["kind"], refused.data["need"]) == ("permission_denied", "write")
        refused = await wire.refusal("initialize", capabilities={"summarize": "yes"})
        assert (refused.data["kind"], refused.data["path"]) == ("invalid_params", "capabilities")
        # What an LSP client can do is nobody's business.
        await wire.call("initialize", capabilities={"textDocument": {"hover": {}}})


async def test_a_session_that_wants_it_is_compacted_by_itself_once_for_each_leaf(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = Command(SAID)
    async with serving(house, command) as daemon, daemon.connect() as wire:
        await create_to_compact(wire, "u1", "u2", auto=True, context_window=8, reserve_tokens=0)
        watcher = wire
        await watcher.call("subscribe", session_id=SESSION)
        await append(wire, "a-long-message-that-fills-the-window")
        states: list[str] = []
        while not states or states[-1] not in {"completed", "failed"}:
            told = await watcher.next_notification()
            if told["method"] == "session/compaction":
                states.append(told["params"]["state"])
        assert states == ["recommended", "started", "completed"]
        assert (await call(wire, "session/entries", "entries[].entry.type")).count(
            "compaction"
        ) == 1
        assert len(command.prompts) == 1


async def test_a_run_that_began_by_itself_and_failed_rests(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    begin = runner.CompactionRunner.begin_by_itself

    def noted(self: runner.CompactionRunner, actor: SessionActor, head: str) -> None:
        begun.append(head)
        begin(self, actor, head)

    monkeypatch.setattr(runner.CompactionRunner, "begin_by_itself", noted)
    command = Command()
    async with serving(house, command) as daemon, daemon.connect() as wire:
        await create_to_compact(wire, "u1", "u2", auto=True, context_window=8, reserve_tokens=0)

        async def looked_at(times: int) -> None:
            # Nobody is told of a look that came to nothing.
            await eventually(lambda: len(begun) >= times and not len(daemon.service.runs))

        await append(wire, "a-long-message-that-fills-the-window")
        await looked_at(1)
        assert len(command.prompts) == 1
        await append(wire, "one-more")
        await looked_at(2)
        assert len(command.prompts) == 1
        house.seconds += limits.AUTOMATIC_REST_SECONDS + 1
        command.said = SAID
        await append(wire, "and-one")
        await looked_at(3)
        assert len(command.prompts) == 2
        assert (await call(wire, "session/entries", "entries[].entry.type")).count(
            "compaction"
        ) == 1
