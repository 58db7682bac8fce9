"""Rare copies: appends without some of their lines, rebased compactions, sessions in memory."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.calls import call, create
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.sessions import SESSION, TIME, stored_entry, stored_message

SAMPLES = Path(__file__).parent.parent / "samples"
OTHER = "session-b"


async def test_an_append_that_loses_its_labels_is_not_taken_for_a_torn_one(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        entries = [
            {"type": "message", "id": "m1", "message": {"role": "assistant", "content": "a"}},
            {"type": "label", "target_id": "m1", "label": "good"},
        ]
        await wire.call("append", session_id=SESSION, entries=entries)
        made = await call(wire, "session/fork", "session", entries="all", labels=False)
        assert (made["leaf_id"], made["message_count"], made["problems"]) == ("m1", 1, 0)
        # Nothing was cut off and put aside.
        assert all("torn" not in path.name for path in house.disk.paths)
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await call(wire, "build_context", "sources", session_id=made["id"]) == ["m1"]


BY_FIRST = {"role": "assistant", "content": "yes", "model": "first"}


async def test_the_model_of_the_first_messages_is_the_one_they_end_with(house: House) -> None:
    house.put(
        [
            stored_entry("message", "m1", None, message=BY_FIRST),
            stored_entry("message", "m2", "m1", message=BY_FIRST | {"model": "second"}),
            stored_entry("compaction", "c1", "m2", summary="S", first_kept_entry_id="m1"),
        ]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        made = await call(
            wire, "session/fork", "session", entries="context", keep_messages=2, ids="keep"
        )
        built = await call(wire, "build_context", session_id=made["id"])
        assert built["sources"] == ["c1", "m1"]
        assert built["model"] == {"model_id": "second"}


async def test_a_rebased_compaction_begins_with_no_result_of_a_tool(house: House) -> None:
    house.put(
        [
            stored_message("u1", None),
            stored_message("a1", "u1", "assistant"),
            stored_message("t1", "a1", "toolResult"),
            stored_message("u2", "t1"),
            stored_entry("compaction", "c1", "u2", summary="S", first_kept_entry_id="a1"),
        ]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        for chosen, kept in (
            (["a1", "t1", "u2", "c1"], ["a1", "t1", "u2"]),
            (["t1", "u2", "c1"], ["u2"]),
            (["u1", "t1", "c1"], []),
        ):
            made = await call(wire, "session/rebase", "session", entry_ids=chosen)
            assert await call(wire, "build_context", "sources", session_id=made["id"]) == [
                "c1",
                *kept,
            ]
            assert made["problems"] == 0


async def test_a_compaction_that_kept_nothing_keeps_nothing_in_a_copy(house: House) -> None:
    # Its first kept entry is on another branch, as only another program writes it.
    house.put(
        [
            stored_message("u1", None),
            stored_message("x1", None),
            stored_entry("compaction", "c1", "u1", summary="S", first_kept_entry_id="x1"),
        ]
    )
    async with house.daemon() as daemon, daemon.connect() as wire:
        for made in (
            await call(wire, "session/rebase", "session", entry_ids=["x1", "u1", "c1"]),
            await call(wire, "session/fork", "session"),
        ):
            assert await call(wire, "build_context", "sources", session_id=made["id"]) == ["c1"]
            assert made["problems"] == 0


async def test_where_a_head_of_pis_went_is_no_state_of_its_agent(real_house: House) -> None:
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        own = (await wire.call("session/import", path=str(SAMPLES / "pi" / "pi.jsonl")))["session"]
        await wire.call("session/branch", session_id=own["id"], entry_id="10000004")
        data = {"type": "custom", "custom_type": "sessiond.decision", "data": {"decision": "x"}}
        await wire.call("append", session_id=own["id"], entry=data)
        made = await call(
            wire, "session/fork", "session.id", session_id=own["id"], entries="none", state=True
        )
        copied = await call(wire, "session/entries", "entries[].entry.custom_type", session_id=made)
        assert copied == ["sessiond.decision"]


async def test_a_compaction_of_pis_with_a_prompt_is_copied_whole(house: House) -> None:
    header = {"type": "session", "version": 3, "id": SESSION, "timestamp": TIME, "cwd": "/p"}
    user = {"role": "user", "content": "hi", "timestamp": 1}
    prompt = {"role": "system", "content": "Be brief.", "timestamp": 1}
    lines = [
        header,
        {"type": "message", "id": "u1", "parentId": None, "timestamp": TIME, "message": user},
        {
            "type": "compaction",
            "id": "c1",
            "parentId": "u1",
            "timestamp": TIME,
            "summary": "S",
            "firstKeptEntryId": "u1",
            "tokensBefore": 9,
            "systemMessage": prompt,
        },
    ]
    house.put("".join(json.dumps(line) + "\n" for line in lines).encode())
    async with house.daemon() as daemon, daemon.connect() as wire:
        whole = await call(wire, "build_context")
        assert whole["sources"] == ["c1", "c1", "u1"]
        made = await call(
            wire, "session/fork", "session", entries="context", keep_messages=1, ids="keep"
        )
        built = await call(wire, "build_context", session_id=made["id"])
        assert built["messages"] == whole["messages"][:2]
        assert made["lineage"]["fork_point"] == 2


async def test_a_context_that_is_too_large_to_be_looked_at_is_refused(
    house: House, monkeypatch: Any
) -> None:
    set_limits(monkeypatch, PLAN_BYTES_MAX=100)
    house.put([stored_message("m1", None), stored_message("m2", "m1")])
    async with house.daemon() as daemon, daemon.connect() as wire:
        refused = await wire.refusal("session/fork", session_id=SESSION, entries="context")
        assert (refused.data["kind"], refused.data["limit"]) == ("too_large", 100)
        assert await call(wire, "session/fork", "session.message_count") == 2


async def test_what_is_in_memory_is_merged_with_whatever_has_to_be_opened(house: House) -> None:
    house.put([stored_message("o1", None)], "on-the-disk")
    async with house.daemon() as daemon, daemon.connect() as wire:
        for name in ("in-memory-1", "in-memory-2"):
            await create(wire, name, persist="never")
        for other in ("on-the-disk", "in-memory-2"):
            message = {"role": "user", "content": "hi"}
            # The merge waits for this one; nothing else is sent that would have it served.
            append = {"session_id": other, "message": message}
            merge = {"session_id": "in-memory-1", "other_session_id": other, "text": "both"}
            await wire.send(
                {"id": 101, "method": "append", "params": append},
                {"id": 102, "method": "session/merge", "params": merge},
            )
            await wire.answer(101)
            merged = await wire.answer(102)
            assert merged["leaf_id"] == merged["entry"]["id"]


MAKING: list[tuple[str, dict[str, Any]]] = [
    ("session/fork", {}),
    ("session/fork", {"entries": "all"}),
    ("session/rebase", {"indices": [0]}),
    ("session/merge", {"other_session_id": OTHER, "text": "both", "into": "new"}),
]
FAULTS = [
    ("create", errno.EMFILE),
    ("write", errno.ENOSPC),
    ("fsync", errno.EIO),
    ("lock", errno.ENOLCK),
    ("rename", errno.EDQUOT),
    ("fsync_folder", errno.EIO),
]


async def test_a_copy_that_the_disk_refuses_is_none_and_works_again(house: House) -> None:
    path = house.put([stored_message("m1", None)])
    house.put([stored_message("o1", None)], OTHER)
    content = house.disk.content(path)
    async with house.daemon() as daemon, daemon.connect() as wire:
        for session_id in (SESSION, OTHER):
            await wire.call("session/get", session_id=session_id)
        for method, params in MAKING:
            before = house.session_files()
            for op, number in FAULTS:
                fault = house.disk.fail(op, errno=number)
                refused = await wire.refusal(method, session_id=SESSION, **params)
                assert fault.hit
                assert refused.data["kind"] == "storage_error"
                assert refused.data["errno"] == errno.errorcode[number]
                assert house.session_files() == before
            made = await call(wire, method, "session", **params)
            assert [*before, Path(made["path"])] == sorted(house.session_files())
        assert house.disk.content(path) == content
        listed = (await wire.call("session/list"))["sessions"]
        assert len(listed) == 2 + len(MAKING)


@pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")
async def test_a_dry_run_is_nothing_that_anybody_hears_of(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, CATALOG_FLUSH_SECONDS=0.01)
    house.put([stored_message("m1", None)])
    house.put([stored_message("o1", None)], OTHER)
    async with house.daemon() as daemon, daemon.connect() as wire:
        before = await wire.call("session/list")
        await wire.call("catalog/subscribe")
        await wire.call("subscribe", session_id=SESSION)
        here = ("session/merge", {"other_session_id": OTHER, "text": "both"})
        for method, params in (*MAKING, here):
            told = await call(wire, method, "session", dry_run=True, **params)
            if told["id"] != SESSION:
                refused = await wire.refusal("session/get", session_id=told["id"])
                assert refused.data["kind"] == "session_not_found"
        assert await wire.call("session/list") == before
        await wire.call("session/flush", session_id=SESSION)
        assert wire.notifications == []
        # What is made is heard of, so the others would have been.
        made = {await call(wire, method, "session.id", **params) for method, params in MAKING}
        changes: dict[str, str] = {}
        # A session that is flushed to the catalog twice is told of twice.
        while changes.keys() < made:
            told = await wire.next_notification()
            assert told["method"] == "catalog/changed"
            changes.setdefault(told["params"]["session_id"], told["params"]["change"])
        assert changes == dict.fromkeys(made, "created")
