"""Each mutation has a row that says what a lost answer means for it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from sessiond.methods import METHODS
from sessiond.schema.python.calls import NO_METHOD
from sessiond.schema.repeats import REPEATS

PROTOCOL = Path(__file__).resolve().parents[2] / "protocol.md"
BY_NAME = {method.name: method for method in METHODS}
# Methods that need no right to write, and write where a parameter says so.
SOMETIMES = {"session/export", "session/repair", "retention/run"}


def params_of(name: str) -> set[str]:
    """Return the names of a method's parameters."""
    return {field.name for field in msgspec.structs.fields(BY_NAME[name].params)}


def test_each_mutation_has_a_row_and_no_other_method() -> None:
    writing = {method.name for method in METHODS if method.access == "write"} - NO_METHOD
    assert set(REPEATS) == writing | SOMETIMES


@pytest.mark.parametrize("name", REPEATS)
def test_a_row_agrees_with_the_parameters(name: str) -> None:
    row, params = REPEATS[name], params_of(name)
    assert (row.kind == "keyed") == ("idempotency_key" in params)
    if row.kind != "keyed":
        assert (row.kind == "guarded") == bool(params & {"expected", "expected_revision"})


@pytest.mark.parametrize("name", REPEATS)
def test_the_check_of_a_row_changes_nothing(name: str) -> None:
    check = REPEATS[name].check
    assert check is None or (check in BY_NAME and check not in REPEATS)


def test_the_page_has_the_table() -> None:
    page = PROTOCOL.read_text("utf-8")
    rows = re.findall(r"^\| (safe|keyed|guarded|once) \| ([^|]*) \| ([^|]*) \|", page, re.MULTILINE)
    told = {
        name: (kind, None if check.strip() == "none" else check.strip(" `"))
        for kind, names, check in rows
        for name in re.findall(r"`([^`]+)`", names)
    }
    assert told == {name: (row.kind, row.check) for name, row in REPEATS.items()}
