"""Hooks of clients before a compaction, a fork or a branch: vetoes, summaries, and silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anyio import fail_after

from sessiond.testing.daemon import Refusal, Wire
from tests.kit.calls import (
    append,
    call,
    cancel,
    create,
    create_to_compact,
    refused,
    refused_answer,
    session_info,
)
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS
from tests.kit.sessions import SESSION, entry

pytestmark = pytest.mark.both_loops

SAID = "It was left. \u2028 é😀"


# What a move tells beside its places.
PLAIN = {"summarize": False, "instructions": None, "label": None}

ASKED: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    (
        "branch",
        "before_branch",
        {"entry_id": "u1"},
        {"head": "main", "leaf_id": "u3", "entry_id": "u1", **PLAIN},
    ),
    (
        "branch",
        "before_branch",
        {"entry_id": None, "head": "side"},
        {"head": "side", "leaf_id": None, "entry_id": None, **PLAIN},
    ),
    (
        "session/navigate",
        "before_branch",
        {"entry_id": "u2"},
        {"head": "main", "leaf_id": "u3", "entry_id": "u2", **PLAIN},
    ),
    ("session/fork", "before_fork", {"at": "u2"}, {"entry_id": "u2"}),
    ("session/fork", "before_fork", {}, {"entry_id": "u3"}),
    ("session/rebase", "before_fork", {"indices": [1, 0]}, {"entry_id": None}),
    (
        "session/merge",
        "before_fork",
        {"other_session_id": "session-b", "text": "both", "into": "new"},
        {"entry_id": "u3"},
    ),
    (
        "compact",
        "before_compact",
        {"summary": "s", "first_kept_entry_id": "u3"},
        {"head": "main", "plan": None, "automatic": False},
    ),
]


@pytest.mark.parametrize("persist", ["on_assistant", "never"])
@pytest.mark.parametrize("case", ASKED, ids=lambda case: f"{case[0]} {case[2]}")
async def test_a_veto_changes_nothing_and_is_told_with_who_and_why(
    house: House, case: Any, persist: str
) -> None:
    method, hook, params, told = case
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watcher.call("initialize", capabilities={"hooks": [hook]}, client_id="watcher")
        await create_to_compact(wire, "u1", "u2", "u3", persist=persist)
        await create(wire, "session-b")
        before = await session_info(wire)
        number = await wire.request(method, session_id=SESSION, **params)
        asked = await watcher.next_request()
        assert asked["method"] == f"client/{hook}"
        assert asked["params"] == {"session_id": SESSION, **told}
        await watcher.reply(asked, {"veto": "Not now.", "summary": "ignored"})
        with pytest.raises(Refusal) as refused:
            await wire.answer(number)
        assert (refused.value.code, refused.value.data["kind"]) == (-32052, "vetoed")
        assert refused.value.data["by"] == "watcher"
        assert refused.value.data["reason"] == "Not now."
        assert await session_info(wire) == before
        assert len(await call(wire, "session/list", "sessions", drafts=True)) == 2
        # Who has nothing against it lets it go on.
        number = await wire.request(method, session_id=SESSION, **params)
        await watcher.reply(await watcher.next_request(), {})
        await wire.answer(number)


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"veto": 7}},
        {"result": []},
        {"result": None},
        {"result": {"veto": None}},
        {"error": {"code": -32601, "message": "no"}},
        {},
        "gone",
        "silent",
    ],
    ids=str,
)
async def test_who_is_silent_wrong_or_gone_has_nothing_against_it(
    house: House, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if answer == "silent":
        set_limits(monkeypatch, HOOK_SECONDS=0.05)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watcher.call("initialize", capabilities={"hooks": True})
        await create_to_compact(wire, "u1", "u2", "u3")
        number = await wire.request("branch", session_id=SESSION, entry_id="u1")
        asked = await watcher.next_request()
        if answer == "gone":
            watcher.close()
        elif answer != "silent":
            await watcher.send({"id": asked["id"], **answer})
        assert (await wire.answer(number))["leaf_id"]
        assert ("main", "u1") in await call(wire, "session/heads", "heads[].{name,leaf_id}")


@pytest.mark.parametrize("beside", [{"summary": None}, {"summary": 7, "label": []}, {"more": {}}])
async def test_a_veto_counts_whatever_stands_beside_it(house: House, beside: Any) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watcher.call("initialize", capabilities={"hooks": True})
        await create_to_compact(wire, "u1", "u2", "u3")
        number = await wire.request("branch", session_id=SESSION, entry_id="u1")
        await watcher.reply(await watcher.next_request(), {"veto": "Not now.", **beside})
        with pytest.raises(Refusal) as refused:
            await wire.answer(number)
        assert refused.value.data["kind"] == "vetoed"


@pytest.mark.parametrize(
    "answer", [{"error": {"code": 1, "message": ""}}, "gone", "silent"], ids=str
)
@pytest.mark.parametrize(
    ("method", "hook"), [("compact", "before_compact"), ("session/fork", "before_fork")]
)
async def test_it_is_the_same_for_every_hook(
    house: House, method: str, hook: str, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if answer == "silent":
        set_limits(monkeypatch, HOOK_SECONDS=0.05)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await wire.call("initialize", capabilities={"summarize": True})
        await watcher.call("initialize", capabilities={"hooks": [hook]})
        await create_to_compact(wire, "u1", "u2", "u3")
        number = await wire.request(method, session_id=SESSION)
        asked = await watcher.next_request()
        assert asked["method"] == f"client/{hook}"
        if answer == "gone":
            watcher.close()
        elif answer != "silent":
            await watcher.send({"id": asked["id"], **answer})
        if method == "compact":
            # It goes on where it would have without the hook.
            await wire.reply(await wire.next_request(), {"summary": SAID})
        await wire.answer(number)
        if answer == "silent":
            told = await watcher.next_notification()
            assert (told["method"], told["params"]) == ("$/cancelRequest", {"id": asked["id"]})


async def test_any_veto_wins_and_the_others_are_told(house: House) -> None:
    async with (
        house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as kind,
        daemon.connect() as silent,
        daemon.connect() as strict,
    ):
        for watcher in (kind, silent, strict):
            await watcher.call("initialize", capabilities={"hooks": ["before_branch"]})
        await create_to_compact(wire, "u1", "u2", "u3")
        number = await wire.request("branch", session_id=SESSION, entry_id="u1")
        requests = [await watcher.next_request() for watcher in (kind, silent, strict)]
        await kind.reply(requests[0], {"summary": SAID})
        await strict.reply(requests[2], {"veto": ""})
        assert await refused_answer(wire, number, "{kind,by}") == ("vetoed", None)
        told = await silent.next_notification()
        assert (told["method"], told["params"]) == ("$/cancelRequest", {"id": requests[1]["id"]})
        assert ("main", "u3") in await call(wire, "session/heads", "heads[].{name,leaf_id}")


@pytest.mark.parametrize("method", ["branch", "session/navigate"])
async def test_the_first_summary_is_the_one_of_the_branch(house: House, method: str) -> None:
    async with (
        house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as one,
        daemon.connect() as two,
    ):
        await one.call("initialize", capabilities={"hooks": True})
        await two.call("initialize", capabilities={"hooks": True})
        await create_to_compact(wire, "u1", "u2", "u3")
        await append(wire, "a1", role="assistant")
        number = await wire.request(method, session_id=SESSION, entry_id=None)
        first, second = await one.next_request(), await two.next_request()
        await two.reply(second, {"summary": SAID})
        # It has arrived before the other one is sent.
        await two.call("server/ping")
        await one.reply(first, {"summary": "late"})
        moved = await wire.answer(number)
        stored = await call(wire, "session/entry", "entry", entry_id=moved["leaf_id"])
        assert stored["type"] == "branch_summary"
        assert stored["summary"] == SAID


async def test_the_first_label_is_that_of_the_place_where_the_head_goes(house: House) -> None:
    async with (
        house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as one,
        daemon.connect() as two,
    ):
        for watcher in (one, two):
            await watcher.call("initialize", capabilities={"hooks": ["before_branch"]})
        await create_to_compact(wire, "u1", "u2", "u3")
        await append(wire, "a1", role="assistant")

        async def labelled(*answers: dict[str, str], **more: Any) -> tuple[str, dict[str, str]]:
            """Return where the head went, and the labels, after these answers in their order."""
            number = await wire.request("session/navigate", session_id=SESSION, **more)
            asked = [await watcher.next_request() for watcher in (one, two)]
            assert asked[0]["params"]["label"] == more.get("label")
            for watcher, request, answer in zip((one, two), asked, answers, strict=True):
                await watcher.reply(request, answer)
                await watcher.call("server/ping")
            moved = await wire.answer(number)
            told = await call(wire, "session/labels", "labels")
            return moved["leaf_id"], {each["label"]: each["entry_id"] for each in told}

        leaf, labels = await labelled(
            {"label": " "}, {"summary": SAID, "label": "tried"}, entry_id=None
        )
        assert labels == {"tried": leaf}
        leaf, labels = await labelled({"label": "first"}, {"label": "second"}, entry_id="a1")
        assert (leaf, labels["first"]) == ("a1", "a1")
        assert "second" not in labels
        leaf, labels = await labelled({"label": "theirs"}, {}, entry_id="u1", label="own")
        assert "theirs" not in labels


async def test_the_callers_own_summary_stays(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"hooks": True})
        await create_to_compact(wire, "u1", "u2", "u3")
        for method, params in (
            ("branch", {"entry_id": "u1", "summary": "own"}),
            ("compact", {"summary": "own"}),
        ):
            number = await wire.request(method, session_id=SESSION, **params)
            await wire.reply(await wire.next_request(), {"summary": SAID})
            leaf_id = (await wire.answer(number))["leaf_id"]
            stored = await call(wire, "session/entry", "entry", entry_id=leaf_id)
            assert stored["summary"] == "own"


async def test_a_summary_that_comes_where_nothing_is_left_has_no_use(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await wire.call("initialize", capabilities={"hooks": ["before_branch"]})
        await create_to_compact(wire, "u1", "u2", "u3")
        await call(wire, "append", message={"role": "assistant"})
        # What a user said: the head goes before it, and by the time of the reply it is there.
        number = await wire.request("session/navigate", session_id=SESSION, entry_id="u3")
        asked = await wire.next_request()
        await call(wire, "session/rewind", to="u2")
        await wire.reply(asked, {"summary": SAID})
        moved = await wire.answer(number)
        assert (moved["moved"], moved["leaf_id"], moved["editor_text"]) == (False, "u2", "u3")


async def test_a_hook_supplies_the_summary_of_a_run(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await wire.call("initialize", capabilities={"summarize": True})
        await watcher.call("initialize", capabilities={"hooks": ["before_compact"]})
        await create_to_compact(wire, "u1", "u2", "u3")
        number = await wire.request("compact", session_id=SESSION)
        asked = await watcher.next_request()
        assert asked["params"]["plan"]["summarize"] == ["u1", "u2"]
        await watcher.reply(asked, {"summary": SAID})
        await wire.answer(number)
        context = await call(wire, "build_context")
        assert context["messages"][0]["summary"] == SAID
        # Nobody else was asked for one.
        assert wire.requests == []


async def test_a_vetoed_run_asks_nobody_for_a_summary(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await wire.call("initialize", capabilities={"summarize": True})
        await watcher.call(
            "initialize", capabilities={"hooks": True}, client_info={"name": "guard"}
        )
        await create_to_compact(wire, "u1", "u2", "u3")
        before = house.stored()
        number = await wire.request("compact", session_id=SESSION)
        await watcher.reply(await watcher.next_request(), {"veto": "x" * 5000})
        assert await refused_answer(wire, number, "{by,reason}") == ("guard", "x" * 1000)
        assert wire.requests == []
        assert house.stored() == before


async def test_later_requests_do_not_wait_for_a_hook(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watcher.call("initialize", capabilities={"hooks": ["before_branch"]})
        await create_to_compact(wire, "u1", "u2", "u3")
        number = await wire.request("branch", session_id=SESSION, entry_id="u1")
        asked = await watcher.next_request()
        # It takes effect when the wait ends, so this is below the old leaf.
        stored = await append(wire, "u4")
        assert stored["entries"][0]["parent_id"] == "u3"
        await watcher.reply(asked, {})
        await wire.answer(number)
        assert ("main", "u1") in await call(wire, "session/heads", "heads[].{name,leaf_id}")


async def test_where_nobody_wants_a_word_the_order_of_the_wire_holds(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watcher.call("initialize", capabilities={"hooks": True})
        await create_to_compact(wire, "u1", "u2", "u3")
        # It has thought better of it.
        await watcher.call("initialize", capabilities={})
        await wire.send(
            {"id": 1, "method": "branch", "params": {"session_id": SESSION, "entry_id": "u1"}},
            {"id": 2, "method": "append", "params": {"session_id": SESSION, "entry": entry("u4")}},
        )
        await wire.call("server/ping")
        stored = await call(wire, "session/entry", "entry", entry_id="u4")
        assert stored["parent_id"] == "u1"
        assert watcher.requests == []


async def test_what_cannot_be_is_refused_before_anybody_is_asked(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watcher.call("initialize", capabilities={"hooks": True})
        await create_to_compact(wire, "u1", "u2", "u3")
        for method, params, kind in (
            ("branch", {"entry_id": "none"}, "entry_not_found"),
            ("session/navigate", {"entry_id": "none"}, "entry_not_found"),
            ("session/fork", {"entries": "all", "at": "u1"}, "invalid_params"),
            ("session/fork", {"at": "none"}, "entry_not_found"),
            ("session/rebase", {}, "invalid_params"),
            ("session/rebase", {"indices": [0], "squash": {"summary": ""}}, "entry_invalid"),
            ("session/merge", {"other_session_id": SESSION, "text": "t"}, "invalid_params"),
        ):
            assert await refused(wire, method, **params) == kind
        kind = await refused(wire, "branch", session_id="session-none", entry_id=None)
        assert kind == "session_not_found"
        # A dry run makes nothing, a merge into this session only adds to it, and who goes to where
        # the head is leaves nothing.
        await call(wire, "session/fork", dry_run=True)
        await call(wire, "session/rebase", indices=[0], dry_run=True)
        await create(wire, "session-b", persist="never")
        merge = {"session_id": SESSION, "other_session_id": "session-b", "text": "t"}
        await wire.call("session/merge", **merge, into="new", dry_run=True)
        leaf_id = (await wire.call("session/merge", **merge))["leaf_id"]
        moved = await call(wire, "session/navigate", entry_id=leaf_id)
        assert moved["moved"] is False
        await watcher.call("server/ping")
        assert watcher.requests == []


async def test_a_cancelled_call_is_given_up_while_it_waits(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watcher.call("initialize", capabilities={"hooks": True})
        await create_to_compact(wire, "u1", "u2", "u3")
        number = await wire.request("branch", session_id=SESSION, entry_id="u1")
        asked = await watcher.next_request()
        await cancel(wire, number)
        assert await refused_answer(wire, number) == "cancelled"
        told = await watcher.next_notification()
        assert (told["method"], told["params"]) == ("$/cancelRequest", {"id": asked["id"]})
        assert ("main", "u3") in await call(wire, "session/heads", "heads[].{name,leaf_id}")


async def test_an_offer_is_a_list_of_hooks_or_true(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        answer = await wire.call("initialize", capabilities={"hooks": ["before_branch", "of_2031"]})
        assert answer["capabilities"]["hooks"] == [
            "before_compact",
            "before_fork",
            "before_branch",
            "before_switch",
        ]
        for offered in ("before_branch", [1], 1):
            kind = await refused(wire, "initialize", capabilities={"hooks": offered})
            assert kind == "invalid_params"
        kind = await refused(wire, "initialize", access="read", capabilities={"hooks": True})
        assert kind == "permission_denied"


# -- before a switch of session --------------------------------------------------------

SWITCHES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("session/create", {"cwd": "/p"}, {"to_session_id": None, "reason": "new"}),
    (
        "session/create",
        {"cwd": "/p", "session_id": "session-n"},
        {"to_session_id": "session-n", "reason": "new"},
    ),
    (
        "session/open",
        {"session_id": "session-b"},
        {"to_session_id": "session-b", "reason": "resume"},
    ),
    (
        "session/open",
        {"session_id": "session-n", "create": True},
        {"to_session_id": "session-n", "reason": "resume"},
    ),
    ("session/open", {"entry_id": "b1"}, {"to_session_id": None, "reason": "resume"}),
    ("session/continue_recent", {"cwd": "/q"}, {"to_session_id": None, "reason": "resume"}),
]


async def used(wire: Wire, watcher: Wire) -> tuple[bool, int]:
    """Return whether the wire is present in the old session, and the number of sessions."""
    clients = (await watcher.call("session/presence", session_id=SESSION))["clients"]
    return bool(clients), len(await call(wire, "session/list", "sessions", drafts=True))


@pytest.mark.parametrize("case", SWITCHES, ids=lambda case: f"{case[0]} {case[1]}")
async def test_a_client_is_asked_before_another_one_leaves_its_session(
    house: House, case: Any
) -> None:
    method, params, told = case
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create(wire)
        await create(wire, "session-b")
        await append(wire, "b1", session_id="session-b")
        await call(wire, "session/presence", state="idle")
        await watcher.call(
            "initialize", capabilities={"hooks": ["before_switch"]}, client_id="watcher"
        )
        before = await used(wire, watcher)
        number = await wire.request(method, switch_from=SESSION, **params)
        asked = await watcher.next_request()
        assert asked["method"] == "client/before_switch"
        assert asked["params"] == {"from_session_ids": [SESSION], **told}
        await watcher.reply(asked, {"veto": "Not now."})
        assert await refused_answer(wire, number, "{kind,by}") == ("vetoed", "watcher")
        assert await used(wire, watcher) == before == (True, 2)
        number = await wire.request(method, switch_from=SESSION, **params)
        await watcher.reply(await watcher.next_request(), {})
        switched = (await wire.answer(number))["session"]["id"]
        assert switched == told["to_session_id"] or told["to_session_id"] is None
        present, _count = await used(wire, watcher)
        assert not present


async def test_a_switch_without_a_hook_or_to_itself_asks_nobody(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await create(wire)
        await call(wire, "session/presence", state="idle")
        await watcher.call("initialize", capabilities={"hooks": ["before_switch"]})
        for params in ({"session_id": SESSION}, {"session_id": SESSION, "create": True}):
            await wire.call("session/open", switch_from=SESSION, **params)
        assert (await used(wire, watcher))[0]
        await watcher.call("initialize", capabilities={"hooks": ["before_fork"]})
        with pytest.raises(Refusal):
            await wire.call("session/open", switch_from=SESSION, session_id="session-x")
        assert (await used(wire, watcher))[0]
        await wire.call("session/create", cwd="/p", switch_from=SESSION)
        assert not (await used(wire, watcher))[0]


async def test_a_veto_keeps_the_project(house: House, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        house.disk.make_folder(folder)
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        await watcher.call("initialize", capabilities={"hooks": ["before_switch"]})
        first = await wire.call("scope/switch", project=str(one))
        old = first["session"]["id"]
        number = await wire.request("scope/switch", project=str(two))
        asked = await watcher.next_request()
        assert asked["params"]["from_session_ids"] == [old]
        assert asked["params"]["reason"] == "project"
        await watcher.reply(asked, {"veto": "Not now."})
        assert await refused_answer(wire, number) == "vetoed"
        assert daemon.service.find(old) is not None
        assert len(await call(wire, "session/list", "sessions", drafts=True)) == 1
        number = await wire.request("scope/switch", project=str(two))
        asked = await watcher.next_request()
        await watcher.reply(asked, {})
        switched = await wire.answer(number)
        assert switched["released"] == [old]
        assert asked["params"]["to_session_id"] == switched["session"]["id"]


async def test_one_veto_is_enough(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    # A client that never answers would hold the call up for as long as a test may take.
    set_limits(monkeypatch, HOOK_SECONDS=10 * PATIENCE_SECONDS)
    async with (
        house.daemon() as daemon,
        daemon.connect() as wire,
        daemon.connect() as silent,
        daemon.connect() as watcher,
    ):
        for client in (silent, watcher):
            await client.call("initialize", capabilities={"hooks": ["before_fork"]})
        await create_to_compact(wire, "u1", "u2", "u3")
        number = await wire.request("session/fork", session_id=SESSION)
        await silent.next_request()
        with fail_after(PATIENCE_SECONDS):
            await watcher.reply(await watcher.next_request(), {"veto": "Not now."})
            with pytest.raises(Refusal):
                await wire.answer(number)
