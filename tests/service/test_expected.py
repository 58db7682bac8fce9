"""What `expected` says must all fit, or the request is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.testing.daemon import Wire

SESSION = "session-a"


def entry(entry_id: str) -> dict[str, Any]:
    return {"type": "message", "id": entry_id, "message": {"role": "user", "content": "hi"}}


async def append(wire: Wire, entry_id: str, **more: Any) -> Any:
    return await wire.call("append", session_id=SESSION, entry=entry(entry_id), **more)


async def make(wire: Wire, *ids: str) -> None:
    await wire.call("session/create", cwd="/p", session_id=SESSION)
    for entry_id in ids:
        await append(wire, entry_id)


@pytest.mark.parametrize("leaf_id", ["n2", None], ids=["with a leaf", "before the first entry"])
async def test_a_seq_that_is_behind_is_refused_also_beside_a_leaf_that_fits(
    house: Any, leaf_id: str | None
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await make(wire, *(["n1", "n2"] if leaf_id else []))
        seq = 2 if leaf_id else 0
        await other.call("session/update", session_id=SESSION, title="t")
        expected = {"leaf_id": leaf_id, "seq": seq}
        for method, params in (
            ("append", {"entry": entry("n3")}),
            ("session/update", {"title": "u"}),
        ):
            refused = await wire.refusal(method, session_id=SESSION, expected=expected, **params)
            assert refused.data["kind"] == "precondition_failed"
            assert refused.data["actual"] == {"leaf_id": leaf_id, "seq": seq + 1}
        await append(wire, "n3", expected={"leaf_id": leaf_id, "seq": seq + 1})
