"""Preconditions: all members of `expected` must fit, or the request is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.calls import append, create_with
from tests.kit.house import House
from tests.kit.sessions import SESSION, entry

pytestmark = pytest.mark.both_loops


@pytest.mark.parametrize("leaf_id", ["n2", None], ids=["with a leaf", "before the first entry"])
async def test_a_seq_that_is_behind_is_refused_also_beside_a_leaf_that_fits(
    house: House, leaf_id: str | None
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, *["n1", "n2"] if leaf_id else [])
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


CREATING: list[tuple[str, dict[str, Any]]] = [
    ("append", {"entry": entry("n3"), "parent_id": "n1"}),
    ("session/branch", {"entry_id": "n1"}),
    ("session/branch", {"entry_id": "n1", "summary": "S"}),
]
FITS = [{"leaf_id": None}, {"seq": 2}, {"leaf_id": None, "seq": 2}]
FITS_NOT = [{"leaf_id": "n1"}, {"leaf_id": "n2"}, {"seq": 1}, {"leaf_id": None, "seq": 3}]


@pytest.mark.parametrize("expected", FITS)
@pytest.mark.parametrize(("method", "params"), CREATING)
async def test_a_head_that_a_call_creates_is_expected_before_the_first_entry(
    house: House, method: str, params: dict[str, Any], expected: dict[str, Any]
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        call = {"session_id": SESSION, "head": "side", "expected": expected, **params}
        assert (await wire.call(method, **call))["head"] == "side"
        # The head is there now: the same guard refuses a second creation.
        again = params | ({"entry": entry("n4")} if "entry" in params else {})
        refused = await wire.refusal(method, **(call | again))
        assert refused.data["kind"] == "precondition_failed"


@pytest.mark.parametrize("expected", FITS_NOT)
@pytest.mark.parametrize(("method", "params"), CREATING)
async def test_what_does_not_fit_creates_no_head(
    house: House, method: str, params: dict[str, Any], expected: dict[str, Any]
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        refused = await wire.refusal(
            method, session_id=SESSION, head="side", expected=expected, **params
        )
        assert refused.data["kind"] == "precondition_failed"
        assert refused.data["actual"] == {"leaf_id": None, "seq": 2}
        assert refused.data["missed"] == []
        found = (await wire.call("session/heads", session_id=SESSION))["heads"]
        assert [head["name"] for head in found] == ["main"]


async def test_a_head_that_is_not_there_is_no_conflict_to_branch_from(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        more = {"head": "side", "parent_id": "n1", "expected": {"leaf_id": "n1"}}
        refused = await wire.refusal(
            "append", session_id=SESSION, entry=entry("n3"), on_conflict="branch", **more
        )
        assert refused.data["kind"] == "precondition_failed"
        # Without a parent the call creates no head.
        refused = await wire.refusal(
            "append",
            session_id=SESSION,
            entry=entry("n3"),
            head="side",
            expected={"leaf_id": None},
        )
        assert refused.data["kind"] == "head_not_found"
