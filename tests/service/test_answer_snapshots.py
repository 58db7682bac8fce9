"""Answers show the session as of their request, without entries stored meanwhile."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from tests.kit.calls import append_message, create
from tests.kit.house import House
from tests.kit.sessions import SESSION

pytestmark = pytest.mark.both_loops

# Too much to be read on the loop, so the answer is worked out in a thread.
LARGE = {"role": "user", "content": "x" * 100_000}
SMALL = {"role": "user", "content": "y"}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/path", {"entry_id": "root"}),
        ("session/entry", {"entry_id": "root"}),
        ("session/tree", {}),
    ],
)
async def test_an_answer_is_of_one_moment(
    house: House, monkeypatch: pytest.MonkeyPatch, method: str, params: dict[str, Any]
) -> None:
    held, go_on = anyio.Event(), anyio.Event()

    async def run_sync(work: Callable[..., Any], *args: Any) -> Any:
        held.set()
        await go_on.wait()
        return work(*args)

    shown: list[Any] = []
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create(wire)
        await append_message(wire, "root", LARGE)
        await append_message(wire, "child", SMALL, parent_id="root")
        await wire.call("session/label", session_id=SESSION, entry_id="root", label="then")
        module = importlib.import_module(f"sessiond.methods.{method.replace('/', '.')}")
        monkeypatch.setattr(module, "to_thread", SimpleNamespace(run_sync=run_sync))

        async def ask() -> None:
            shown.append(await wire.call(method, session_id=SESSION, **params))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await held.wait()
            await append_message(other, "late", SMALL, parent_id="root")
            await other.call("session/label", session_id=SESSION, entry_id="root", label="later")
            # Somebody else's question brings what all readers share up to date.
            await other.call("session/entry", session_id=SESSION, entry_id="late")
            go_on.set()
    (answer,) = shown
    root = (answer.get("entries") or answer.get("nodes") or [answer])[0]
    children = root["children"]
    assert (children if isinstance(children, int) else len(children)) == 1
    assert root["label"] == "then"


async def test_every_page_of_a_tree_shows_the_labels_of_the_first(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create(wire)
        for entry_id, parent in (("a", None), ("b", "a"), ("c", "b")):
            await append_message(wire, entry_id, SMALL, parent_id=parent)
        for entry_id, label in (("b", "old"), ("b", "kept"), ("c", "cleared"), ("c", None)):
            await wire.call("session/label", session_id=SESSION, entry_id=entry_id, label=label)
        first = await wire.call("session/tree", session_id=SESSION, limit=1)
        for entry_id, label in (("b", None), ("c", "new"), ("b", "newer")):
            await wire.call("session/label", session_id=SESSION, entry_id=entry_id, label=label)
        rest = await wire.call("session/tree", session_id=SESSION, cursor=first["next_cursor"])
        now = await wire.call("session/tree", session_id=SESSION)
    assert [node["label"] for node in rest["nodes"]] == ["kept", None]
    assert [node["label"] for node in now["nodes"]] == [None, "newer", "new"]
