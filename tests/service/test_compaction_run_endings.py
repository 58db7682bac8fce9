"""Other events of a session, and of waiting clients, while its compaction runs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sessiond.service.actor.actor import SessionActor
from sessiond.service.compaction import recommender, runner
from sessiond.service.compaction.plan import make_plan
from sessiond.testing.daemon import Refusal
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create, create_to_compact, refused_answer
from tests.kit.house import House, arrived
from tests.kit.limits import set_limits
from tests.kit.patience import eventually
from tests.kit.sessions import SESSION
from tests.service.compacting import OFFER, SAID, Command, serving

pytestmark = [pytest.mark.recommends, pytest.mark.both_loops]


MEANWHILE: list[tuple[str, dict[str, Any], str]] = [
    ("session/reset", {}, "plan_stale"),
    ("session/rewind", {"to": "u1"}, "plan_stale"),
    ("branch", {"entry_id": "u1"}, "plan_stale"),
    ("compact", {"summary": "theirs", "first_kept_entry_id": "u2"}, "plan_stale"),
    ("session/acquire", {"ttl_ms": 60_000}, "lease_held"),
    ("session/archive", {}, "session_archived"),
    ("session/delete", {}, "cancelled"),
]


@pytest.mark.parametrize(
    ("method", "params", "kind"), MEANWHILE, ids=[case[0] for case in MEANWHILE]
)
async def test_what_makes_a_summary_useless_meanwhile_is_why_it_is_refused(
    house: House, method: str, params: dict[str, Any], kind: str
) -> None:
    async with (
        serving(house) as daemon,
        daemon.connect() as writer,
        daemon.connect() as wire,
        daemon.connect() as joined,
        daemon.connect() as other,
    ):
        await writer.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        numbers = [
            (wire, await wire.request("compact", session_id=SESSION)),
            (joined, await joined.request("compact", session_id=SESSION)),
        ]
        asked = await writer.next_request()
        await joined.call("server/ping")
        await other.call(method, session_id=SESSION, **params)
        await writer.reply(asked, {"summary": SAID})
        for each, number in numbers:
            assert await refused_answer(each, number) == kind
        if kind != "cancelled":
            left = ["compaction"] if method == "compact" else []
            assert [
                each
                for each in await call(wire, "session/entries", "entries[].entry.type")
                if each == "compaction"
            ] == left
        if method in {"session/acquire", "session/archive", "session/delete"}:
            return
        # Nothing of it is left behind: the next one is a new one.
        await append(wire, "u3")
        await append(wire, "u4")
        number = await wire.request("compact", session_id=SESSION)
        await writer.reply(await writer.next_request(), {"summary": SAID})
        await wire.answer(number)


async def test_a_head_that_is_dropped_before_its_run_begins_is_no_bug(house: House) -> None:
    async with serving(house, Command(SAID)) as daemon, daemon.connect() as wire:
        await create_to_compact(wire, "u1", "u2")
        await wire.call("branch", session_id=SESSION, entry_id="u2", head="side")
        # In one chunk, so in one batch: the run begins when both are done.
        await wire.send(
            {"id": 100, "method": "compact", "params": {"session_id": SESSION, "head": "side"}},
            {
                "id": 101,
                "method": "branch",
                "params": {"session_id": SESSION, "head": "side", "drop": True},
            },
        )
        assert await refused_answer(wire, 100) == "head_not_found"
        await wire.answer(101)


async def test_a_head_that_is_dropped_while_its_summary_is_written(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        await wire.call("branch", session_id=SESSION, entry_id="u2", head="side")
        number = await wire.request("compact", session_id=SESSION, head="side")
        asked = await wire.next_request()
        await wire.call("branch", session_id=SESSION, head="side", drop=True)
        await wire.reply(asked, {"summary": SAID})
        assert await refused_answer(wire, number) == "head_not_found"
        assert "compaction" not in await call(wire, "session/entries", "entries[].entry.type")


@pytest.mark.parametrize("persist", ["on_assistant", "never"])
async def test_who_is_told_that_it_was_cancelled_finds_nothing_stored(
    house: House, persist: str
) -> None:
    async with serving(house) as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2", persist=persist)
        number = await wire.request("compact", session_id=SESSION)
        asked = await wire.next_request()
        # The summary and the end of the wish for it come in one step.
        await wire.send(
            {"id": asked["id"], "result": {"summary": SAID}},
            {"method": "$/cancelRequest", "params": {"id": number}},
        )
        assert await refused_answer(wire, number) == "cancelled"
        assert "compaction" not in await call(wire, "session/entries", "entries[].entry.type")
        number = await wire.request("compact", session_id=SESSION)
        await wire.reply(await wire.next_request(), {"summary": SAID})
        await wire.answer(number)
        assert (await call(wire, "session/entries", "entries[].entry.type")).count(
            "compaction"
        ) == 1


async def test_a_daemon_that_is_stopped_in_the_step_of_the_summary_says_what_it_stored(
    house: House,
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        number = await wire.request("compact", session_id=SESSION)
        asked = await wire.next_request()
        await wire.send(
            {"id": asked["id"], "result": {"summary": SAID}},
            {"id": 100, "method": "server/stop", "params": {}},
        )
        try:
            await wire.answer(number)
            kind = None
        except Refusal as refused:
            kind = refused.data["kind"]
    assert kind in {None, "draining"}
    assert any(line["type"] == "compaction" for line in house.stored()) == (kind is None)


async def test_what_is_past_its_write_completes_and_is_answered(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        number = await wire.request("compact", session_id=SESSION)
        asked = await wire.next_request()
        with house.disk.hold("fdatasync") as gate:
            await wire.reply(asked, {"summary": SAID})
            await arrived(gate)
            await wire.send({"method": "$/cancelRequest", "params": {"id": number}})
            # Whoever comes now gets the same one.
            joined = await other.request("compact", session_id=SESSION)
            await wire.call("server/ping")
            assert wire.notifications == []
        done = await wire.answer(number)
        assert await other.answer(joined) == done
        assert (await call(wire, "session/entries", "entries[].entry.type")).count(
            "compaction"
        ) == 1


async def test_a_disk_that_fails_the_commit_is_told_to_all_and_leaves_nothing(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        number = await wire.request("compact", session_id=SESSION)
        joined = await other.request("compact", session_id=SESSION)
        asked = await wire.next_request()
        await other.call("server/ping")
        house.disk.fail("fdatasync")
        await wire.reply(asked, {"summary": SAID})
        assert await refused_answer(wire, number) == "storage_error"
        assert await refused_answer(other, joined) == "storage_error"
        assert "compaction" not in await call(wire, "session/entries", "entries[].entry.type")
        number = await wire.request("compact", session_id=SESSION)
        await wire.reply(await wire.next_request(), {"summary": SAID})
        await wire.answer(number)


@pytest.mark.parametrize("leaves", ["first", "joined", "both"])
@pytest.mark.parametrize("how", ["close", "end_input"])
async def test_the_end_of_the_input_of_those_who_wait_ends_no_run(
    house: House, leaves: str, how: str
) -> None:
    async with (
        serving(house) as daemon,
        daemon.connect() as writer,
        daemon.connect() as first,
        daemon.connect() as joined,
    ):
        await writer.call("initialize", capabilities=OFFER)
        await create_to_compact(first, "u1", "u2")
        waiting = {"first": (first, await first.request("compact", session_id=SESSION))}
        asked = await writer.next_request()
        waiting["joined"] = (joined, await joined.request("compact", session_id=SESSION))
        await joined.call("server/ping")
        gone = ["first", "joined"] if leaves == "both" else [leaves]
        for name in gone:
            getattr(waiting[name][0], how)()
        await writer.reply(asked, {"summary": SAID})
        heard = [name for name in waiting if name not in gone or how == "end_input"]
        done = [await wire.answer(number) for wire, number in map(waiting.__getitem__, heard)]
        assert done.count(done[0]) == len(done) if done else True
        # Who has nobody left to tell stores it all the same.
        while (found := await call(writer, "session/entries", "entries[].entry.type")).count(
            "compaction"
        ) < 1:
            pass
        assert found.count("compaction") == 1


async def test_a_late_summary_is_not_taken_for_the_next_one(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as writer, daemon.connect() as wire:
        await writer.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        number = await wire.request("compact", session_id=SESSION)
        first = await writer.next_request()
        await wire.send({"method": "$/cancelRequest", "params": {"id": number}})
        assert await refused_answer(wire, number) == "cancelled"
        number = await wire.request("compact", session_id=SESSION)
        second = await writer.next_request()
        await writer.reply(first, {"summary": "late"})
        await writer.reply(second, {"summary": SAID})
        await wire.answer(number)
        context = await wire.call("build_context", session_id=SESSION)
        assert context["messages"][0]["summary"] == SAID


async def test_each_head_has_a_run_of_its_own(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        await wire.call("initialize", capabilities=OFFER)
        await other.call("initialize", capabilities=OFFER)
        await create_to_compact(wire, "u1", "u2")
        await wire.call("branch", session_id=SESSION, entry_id="u2", head="side")
        await append(wire, "on-main")
        await append(wire, "on-side", head="side")
        main, side = (
            await wire.request("compact", session_id=SESSION),
            await other.request("compact", session_id=SESSION, head="side"),
        )
        of_main, of_side = await wire.next_request(), await other.next_request()
        assert (of_main["params"]["head"], of_side["params"]["head"]) == ("main", "side")
        await other.reply(of_side, {"summary": "of the side"})
        done_aside = await other.answer(side)
        await wire.reply(of_main, {"summary": "of main"})
        done = await wire.answer(main)
        for head, leaf_id, summary in (
            ("main", done["leaf_id"], "of main"),
            ("side", done_aside["leaf_id"], "of the side"),
        ):
            context = await wire.call("build_context", session_id=SESSION, head=head)
            assert context["leaf_id"] == leaf_id
            assert context["messages"][0]["summary"] == summary


async def test_with_nobody_to_summarise_a_full_context_is_told_once_and_looked_at_once_a_change(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[str] = []
    looks: list[str] = []
    touch, judge = recommender.Recommender.touch, recommender.Recommender._judge

    def counted(self: recommender.Recommender, actor: SessionActor) -> None:
        changes.append(actor.session_id)
        touch(self, actor)

    async def noted(self: recommender.Recommender, actor: SessionActor) -> None:
        looks.append(actor.session_id)
        await judge(self, actor)

    monkeypatch.setattr(recommender.Recommender, "touch", counted)
    monkeypatch.setattr(recommender.Recommender, "_judge", noted)
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create_to_compact(wire, "u1", "u2", auto=True, context_window=8, reserve_tokens=0)
        await watcher.call("subscribe", session_id=SESSION)
        for number in range(5):
            seen = len(looks)
            await append(wire, f"a-long-message-that-fills-the-window-{number}")
            await eventually(lambda: len(looks) > seen)  # noqa: B023 - awaited in place
        # A slow machine looks after each change, a fast one once for several: never more often.
        assert len(looks) <= len(changes) <= 12
        assert len(daemon.service.runs) == 0
        await watcher.call("server/ping")
        told = [each for each in watcher.notifications if each["method"] == "session/compaction"]
        assert [each["params"]["state"] for each in told] == ["recommended"]


async def test_a_look_that_nobody_asked_for_ends_nothing_when_it_fails(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_self: recommender.Recommender, _host: SessionActor) -> None:
        raise RuntimeError("can't start new thread")

    async with serving(house, Command(SAID)) as daemon, daemon.connect() as wire:
        monkeypatch.setattr(recommender.Recommender, "_judge", fails)
        await create_to_compact(wire, "u1", "u2", auto=True, context_window=8, reserve_tokens=0)
        # Nobody is told of a look.
        await eventually(lambda: not daemon.service.registry._recommender._changed)
        monkeypatch.undo()
        await wire.call("subscribe", session_id=SESSION)
        await append(wire, "a-long-message-that-fills-the-window")
        while (await wire.next_notification())["params"].get("state") != "completed":
            pass


async def test_so_many_are_asked_in_vain_and_then_the_command_has_its_turn(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, SUMMARIZERS_ASKED_MAX=2)
    command = Command(SAID)
    async with (
        serving(house, command) as daemon,
        daemon.connect() as wire,
        daemon.connect() as one,
        daemon.connect() as two,
        daemon.connect() as three,
    ):
        await wire.call("initialize", client_id="caller")
        await create_to_compact(wire, "u1", "u2")
        # Each has a reason to be asked before the next.
        await one.call("initialize", capabilities=OFFER, client_id="caller")
        await two.call("initialize", capabilities=OFFER)
        await two.call("subscribe", session_id=SESSION)
        await three.call("initialize", capabilities=OFFER)
        number = await wire.request("compact", session_id=SESSION)
        for each in (one, two):
            asked = await each.next_request()
            await each.send({"id": asked["id"], "error": {"code": 1, "message": ""}})
        await wire.answer(number)
        await three.call("server/ping")
        assert three.requests == []
        assert len(command.prompts) == 1


async def compacting(wire: Wire) -> tuple[int, Any]:
    """Begin a compaction of a session with a head beside; return its number, and the question for a summary."""
    await wire.call("initialize", capabilities=OFFER)
    await create_to_compact(wire, "u1", "u2")
    await wire.call("branch", session_id=SESSION, entry_id="u2", head="side")
    return await wire.request("compact", session_id=SESSION), await wire.next_request()


async def test_so_many_compactions_are_under_way_and_no_more(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, RUNS_MAX=1)
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        number, asked = await compacting(wire)
        refused = await other.refusal("compact", session_id=SESSION, head="side")
        assert (refused.data["kind"], refused.data["limit"]) == ("overloaded", 1)
        # Whoever joins begins none.
        joined = await other.request("compact", session_id=SESSION)
        await wire.reply(asked, {"summary": SAID})
        assert await wire.answer(number) == await other.answer(joined)
        number = await other.request("compact", session_id=SESSION, head="side")
        await wire.reply(await wire.next_request(), {"summary": SAID})
        await other.answer(number)


async def test_so_many_compactions_of_one_connection_are_under_way_and_another_has_its_own(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, RUNS_PER_CONNECTION_MAX=1)
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as other:
        number, asked = await compacting(wire)
        refused = await wire.refusal("compact", session_id=SESSION, head="side")
        assert (refused.data["kind"], refused.data["limit"]) == ("overloaded", 1)
        more = await other.request("compact", session_id=SESSION, head="side")
        await wire.reply(await wire.next_request(), {"summary": SAID})
        await other.answer(more)
        await wire.reply(asked, {"summary": SAID})
        await wire.answer(number)


async def test_a_plan_that_comes_back_to_many_at_once_leaves_room(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 1_000_000
    set_limits(monkeypatch, RESULT_BYTES_MAX=most)
    calls = 40
    async with serving(house) as daemon, daemon.connect() as wire:
        await create_to_compact(wire, "u1", "u2")
        message = {"role": "user", "content": "x" * 200_000}
        for _ in range(2):
            await wire.call("append", session_id=SESSION, message=message)
        numbers = range(100, 100 + calls)
        await wire.send(
            *(
                {"id": number, "method": "compact", "params": {"session_id": SESSION}}
                for number in numbers
            )
        )
        told: list[dict[str, Any]] = []
        for number in numbers:
            with pytest.raises(Refusal) as refused:
                await wire.answer(number)
            told.append(refused.value.data)
        kinds_told = [data["kind"] for data in told]
        assert set(kinds_told) == {"summarizer_unavailable", "overloaded"}
        plans = [data["plan"] for data in told if "plan" in data]
        assert len(plans[0]["prompt"]) > 200_000
        # As many as there was room for, and what the socket took meanwhile.
        assert len(plans) < calls // 2
        assert all(data["retryable"] for data in told if data["kind"] == "overloaded")


async def test_many_runs_that_plan_leave_threads_to_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()

    def slow(*args: Any) -> Any:
        assert may_go_on.wait(60)
        return make_plan(*args)

    monkeypatch.setattr(runner, "make_plan", slow)
    set_limits(monkeypatch, RUNS_PER_CONNECTION_MAX=50)
    heads = [f"head-{number}" for number in range(50)]
    async with serving(house, Command(SAID)) as daemon, daemon.connect() as wire:
        await create_to_compact(wire, "u1", "u2")
        for head in heads:
            await wire.call("branch", session_id=SESSION, entry_id="u2", head=head)
        try:
            numbers = [
                await wire.request("compact", session_id=SESSION, head=head) for head in heads
            ]
            await wire.call("session/get", session_id=SESSION)
            assert len(daemon.service.runs) == len(heads)
            # What is given up while it waits for its turn leaves it at once.
            await wire.send({"method": "$/cancelRequest", "params": {"id": numbers[-1]}})
            assert await refused_answer(wire, numbers.pop()) == "cancelled"
            async with daemon.connect() as other:
                await create(other, "another-one")
                assert (await other.call("session/verify", session_id="another-one"))["ok"]
        finally:
            may_go_on.set()
        for number in numbers:
            await wire.answer(number)


async def test_a_compaction_that_a_client_made_is_told_once(house: House) -> None:
    async with serving(house) as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create_to_compact(wire, "u1", "u2")
        await watcher.call("subscribe", session_id=SESSION)
        asked: dict[str, Any] = {"summary": "ours", "first_kept_entry_id": "u2"}
        asked |= {"session_id": SESSION, "idempotency_key": "once"}
        made = await wire.call("compact", **asked)
        await wire.call("compact", **asked)
        await watcher.call("server/ping")
        told = [each for each in watcher.notifications if each["method"] == "session/compaction"]
        (params,) = (each["params"] for each in told)
        assert (params["state"], params["head"]) == ("completed", "main")
        assert params["tokens_before"] == made["tokens_before"]
        assert params["tokens_after"] == made["tokens_after"]
