"""on_conflict: "branch" makes a new head where the head has left its place, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.calls import append, call, create_with
from tests.kit.house import House
from tests.kit.sessions import HI, SESSION, entry

pytestmark = pytest.mark.both_loops

BRANCH = {"on_conflict": "branch"}
HEADS = "heads[].{name,leaf_id}"
A_LABEL = {"type": "label", "target_id": "n1", "label": "x"}


@pytest.mark.parametrize(
    "expected", [{"seq": 2}, {"leaf_id": "n2", "seq": 2}, {"leaf_id": "n2"}], ids=str
)
async def test_a_label_and_a_title_by_another_client_fork_no_conversation(
    house: House, expected: dict[str, Any]
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as other:
        await create_with(wire, "n1", "n2")
        await other.call("session/label", session_id=SESSION, entry_id="n1", label="x")
        await other.call("session/update", session_id=SESSION, title="t")
        answer = await append(wire, "n3", expected=expected, **BRANCH)
        assert (answer["head"], answer["entries"][0]["parent_id"]) == ("main", "n2")
        assert dict(await call(wire, "session/heads", HEADS)) == {"main": "n3"}


@pytest.mark.parametrize("expected", [{"leaf_id": "n1", "seq": 1}, {"leaf_id": "n1"}], ids=str)
async def test_a_head_that_has_left_gets_a_head_beside_it(
    house: House, expected: dict[str, Any]
) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        answer = await append(wire, "n3", expected=expected, **BRANCH)
        assert (answer["head"], answer["entries"][0]["parent_id"]) == ("main-2", "n1")
        assert dict(await call(wire, "session/heads", HEADS)) == {"main": "n2", "main-2": "n3"}
        # Sent again it is what it was, wherever the heads are now.
        again = await append(wire, "n3", expected=expected, **BRANCH)
        assert (again["head"], again["duplicate"]) == ("main-2", True)


async def test_a_seq_alone_names_no_place_so_a_branch_needs_a_parent(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        behind: dict[str, Any] = {"expected": {"seq": 1}, **BRANCH}
        refused = await wire.refusal("append", session_id=SESSION, message=HI, **behind)
        assert refused.data["kind"] == "precondition_failed"
        answer = await append(wire, "n3", parent_id="n1", **behind)
        assert (answer["head"], answer["entries"][0]["parent_id"]) == ("main-2", "n1")
        root = await append(wire, "n4", parent_id=None, **behind)
        assert (root["head"], root["entries"][0]["parent_id"]) == ("main-3", None)
        assert dict(await call(wire, "session/heads", HEADS))["main"] == "n2"


async def test_a_seq_that_is_still_to_come_is_no_place_to_go_on_from(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        for leaf in ({}, {"leaf_id": "n2"}, {"leaf_id": "n1"}):
            expected = {"seq": 9, **leaf}
            refused = await wire.refusal(
                "append", session_id=SESSION, message=HI, expected=expected, **BRANCH
            )
            assert refused.data["kind"] == "precondition_failed"


async def test_a_parent_that_is_not_the_expected_leaf_is_a_contradiction(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2", "n3")
        at_n2: dict[str, Any] = {"expected": {"leaf_id": "n2"}, **BRANCH}
        for parent_id in ("n1", None):
            refused = await wire.refusal(
                "append", session_id=SESSION, message=HI, parent_id=parent_id, **at_n2
            )
            assert (refused.data["kind"], refused.data["path"]) == ("invalid_params", "parent_id")
        answer = await append(wire, "n4", parent_id="n2", **at_n2)
        assert (answer["head"], answer["entries"][0]["parent_id"]) == ("main-2", "n2")
        # What fails on a conflict goes where it says.
        guarded = await append(wire, "n5", parent_id="n1", expected={"leaf_id": "n3"})
        assert (guarded["head"], guarded["entries"][0]["parent_id"]) == ("main", "n1")


async def test_labels_alone_make_no_head_and_name_one_that_exists(house: House) -> None:
    async with house.daemon() as daemon, daemon.connect() as wire:
        await create_with(wire, "n1", "n2")
        title = {"type": "session_info", "name": "t"}
        answer = await wire.call(
            "append",
            session_id=SESSION,
            entries=[A_LABEL, title],
            expected={"leaf_id": "n1"},
            **BRANCH,
        )
        assert (answer["head"], answer["leaf_id"]) == ("main", "n2")
        for more in ({}, {"parent_id": "n1"}, {"parent_id": None}):
            refused = await wire.refusal(
                "append", session_id=SESSION, head="new", entry=A_LABEL, **more
            )
            assert (refused.data["kind"], refused.data["head"]) == ("head_not_found", "new")
        assert dict(await call(wire, "session/heads", HEADS)) == {"main": "n2"}
        # With an entry that goes there the head is made, and the label comes along.
        both = await wire.call(
            "append", session_id=SESSION, head="new", parent_id="n1", entries=[A_LABEL, entry("n3")]
        )
        assert (both["head"], both["leaf_id"]) == ("new", "n3")
