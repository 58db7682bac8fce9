"""Copies show their source as of the request, also if the source changes meanwhile."""

from __future__ import annotations

import importlib
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import to_thread

from sessiond.testing.daemon import Wire
from tests.kit.calls import call, refused, refused_answer
from tests.kit.house import House
from tests.kit.sessions import SESSION, stored_entry, stored_message

pytestmark = pytest.mark.both_loops

OTHER = "session-b"
ANOTHER = {"type": "message", "message": {"role": "user"}}
SOURCE = [
    stored_message("m1", None),
    stored_message("m2", "m1", "assistant"),
    stored_entry("label", "l1", "m2", target_id="m2", label="then"),
    stored_message("x1", "m2", head="side"),
    stored_entry(
        "custom", "d1", "m2", custom_type="sessiond.decision", data={"decision": "sqlite"}
    ),
    stored_entry(
        "session_info", "i1", "d1", name="Then", plan="the plan", tags=["a"], provider="p"
    ),
    stored_message("m3", "d1", "assistant"),
]


async def grows(wire: Wire, house: House) -> None:
    """Let clients and a foreign writer add entries, labels and facts to the source."""
    data = {"decision": "files"}
    custom = {"type": "custom", "custom_type": "sessiond.decision", "data": data}
    await call(wire, "append", entry=custom, parent_id="m1", head="other")
    path = next(path for path in house.session_files() if SESSION in path.name)
    for line in (
        stored_message("f1", "m3"),
        stored_entry("label", "l2", "f1", target_id="m3", label="theirs"),
    ):
        house.disk.write_as_another(path, json.dumps(line).encode() + b"\n")
    for entry_id in ("m1", "m2"):
        await call(wire, "session/label", entry_id=entry_id, label="later")
    facts = {"title": "Later", "plan": "another", "tags": ["b"], "provider": "q", "agent": "x"}
    await call(wire, "session/update", **facts)


async def shrinks(wire: Wire, _house: House) -> None:
    """Its heads go back, what was labelled and known is so no more."""
    await call(wire, "session/label", entry_id="m2", label=None)
    await call(wire, "session/update", plan=None, tags=None, provider=None)
    await call(wire, "session/rewind", to="m1")
    await call(wire, "append", entry=ANOTHER)
    await call(wire, "session/branch", head="side", drop=True)


async def is_compacted_and_archived(wire: Wire, _house: House) -> None:
    await call(wire, "compact", summary="So far.", first_kept_entry_id="m2")
    await call(wire, "session/archive")


MEANWHILE: dict[str, Callable[[Wire, Any], Awaitable[None]]] = {
    act.__name__: act for act in (grows, shrinks, is_compacted_and_archived)
}
COPIES: list[tuple[str, dict[str, Any]]] = [
    ("session/fork", {"state": True}),
    ("session/fork", {"entries": "all"}),
    ("session/fork", {"entries": "context", "ids": "keep"}),
    ("session/fork", {"entries": "none", "state": True}),
    ("session/fork", {"dry_run": True}),
    ("session/rebase", {"entry_ids": ["m2", "x1"]}),
    ("session/rebase", {"indices": [2, 0], "squash": {"summary": "S"}}),
    ("session/merge", {"other_session_id": OTHER, "text": "both", "into": "new"}),
]


class Held:
    """Copies wait before anything of their source is looked at, until they may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_go_on = anyio.Event()
        module = importlib.import_module("sessiond.methods._shared.copies")
        monkeypatch.setattr(module, "to_thread", SimpleNamespace(run_sync=self._run_sync))

    async def _run_sync(self, work: Callable[..., Any], *args: Any) -> Any:
        await self.may_go_on.wait()
        return await to_thread.run_sync(work, *args)


async def ask_all(wire: Wire) -> list[int]:
    """Every copy is asked for, and was looked at, though nothing of it was read."""
    numbers = [
        await wire.request(method, session_id=SESSION, **params) for method, params in COPIES
    ]
    await wire.call("server/ping")
    return numbers


async def shown_all(wire: Wire, numbers: list[int]) -> list[Any]:
    """Return what each copy shows, without the values that differ between copies."""
    differs = dict.fromkeys(("id", "path", "epoch", "leaf_id", "heads"))
    known = {one["id"] for one in SOURCE}
    found: list[Any] = []
    for number in numbers:
        info = (await wire.answer(number))["session"]
        rows: list[Any] = []
        if info["path"] is not None:
            rows = await call(wire, "session/entries", "entries[].entry", session_id=info["id"])
        for row in rows:
            for name in ("id", "parent_id"):
                row[name] = row[name] if row[name] in known else None
        found.append((info | differs, rows))
    return found


async def open_both(house: House, wire: Wire) -> None:
    house.put(SOURCE)
    house.put([stored_message("o1", None)], OTHER)
    for session_id in (SESSION, OTHER):
        await wire.call("session/get", session_id=session_id)


@pytest.mark.parametrize("act", MEANWHILE)
async def test_what_happens_behind_a_copy_is_not_in_it(
    house: House, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await open_both(house, wire)
        before = await shown_all(wire, await ask_all(wire))
        gate = Held(monkeypatch)
        numbers = await ask_all(wire)
        await MEANWHILE[act](other, house)
        gate.may_go_on.set()
        for (method, params), was, now in zip(
            COPIES, before, await shown_all(wire, numbers), strict=True
        ):
            assert now == was, (method, params)
            assert now[0]["problems"] == 0


async def test_a_delete_waits_for_the_copies_that_read(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await open_both(house, wire)
        before = await shown_all(wire, await ask_all(wire))
        gate = Held(monkeypatch)
        numbers = await ask_all(wire)
        deleting = await other.request("session/delete", session_id=SESSION)
        await other.call("server/ping")
        gate.may_go_on.set()
        assert await shown_all(wire, numbers) == before
        await other.answer(deleting)
        assert await refused(wire, "session/fork") == "session_not_found"


async def test_a_copy_of_a_file_that_is_replaced_meanwhile_is_none(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await open_both(house, wire)
        gate = Held(monkeypatch)
        numbers = await ask_all(wire)
        house.put([stored_message("another", None)])
        before = house.session_files()
        await call(other, "append", entry=ANOTHER)
        gate.may_go_on.set()
        # A merge into a new session takes no line of it.
        for number in numbers[:-1]:
            refusal = await refused_answer(wire, number, "{kind,retryable}")
            assert refusal == ("storage_error", True)
        merged = (await wire.answer(numbers[-1]))["session"]
        assert [path for path in house.session_files() if str(path) != merged["path"]] == before
        assert await call(wire, "session/fork", "session.message_count") == 2
