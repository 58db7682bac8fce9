"""Recordings of pi's functions, compared with the daemon's answers over the wire.

Law: every case of every function uses public methods; a recorded function without a test here
fails. More recordings of this kind run without a change.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit.house import House
from tests.service.as_pi import ASKED, Json, cuts_nothing_away, texts_of

VECTORS = "vectors/pi-vectors.json"
RECORDED = [
    "context",
    "tokens",
    "shouldCompact",
    "findCutPoint",
    "prepareCompaction",
    "prepareBranch",
    "serialize",
    "convertToLlm",
]


def test_every_recorded_function_is_asked(shared: Path) -> None:
    vectors: list[Json] = json.loads((shared / VECTORS).read_bytes())
    assert {vector["function"] for vector in vectors} == set(RECORDED)


@pytest.mark.parametrize("function", RECORDED)
async def test_every_recorded_answer_is_the_one_that_a_client_gets(
    house: House, shared: Path, function: str
) -> None:
    recorded: list[Json] = json.loads((shared / VECTORS).read_bytes())
    vectors = [vector for vector in recorded if vector["function"] == function]
    assert vectors
    async with house.daemon() as daemon, daemon.connect() as wire:
        for vector in vectors:
            found = await ASKED[function](wire, vector["input"])
            expected = vector["expected"]
            if function == "convertToLlm":
                expected = texts_of(expected)
            if function == "findCutPoint" and found is None:
                assert cuts_nothing_away(vector["input"], expected), vector["name"]
                continue
            assert json.dumps(found) == json.dumps(expected), vector["name"]
