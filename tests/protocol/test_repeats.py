"""Each mutation has a row that says what a lost answer means for it."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from sessiond.cli.ui.failures import CHECKS, explain
from sessiond.methods import METHODS
from sessiond.schema.python.calls import NO_METHOD
from sessiond.schema.python.facts import aliases, repeatable, repeated
from sessiond.schema.repeats import REPEATS
from sessiond_client import ClientClosed, ConnectionLost, Timeout

PROTOCOL = Path(__file__).resolve().parents[2] / "protocol.md"
EDITORS = PROTOCOL.parent / "clients"
CALLS_OF_NEOVIM = EDITORS / "neovim/lua/sessiond/calls.lua"
CLIENT_OF_EMACS = EDITORS / "emacs/sessiond-client.el"
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


@pytest.mark.parametrize(
    ("path", "reads", "safe"),
    [
        (CALLS_OF_NEOVIM, r"READS = set\(\[\[(.*?)\]\]", r"SAFE = set\(\[\[(.*?)\]\]"),
        (CLIENT_OF_EMACS, r"--reads\n  '\((.*?)\)\n", r"--safe\n  '\((.*?)\)\n"),
    ],
    ids=["neovim", "emacs"],
)
def test_an_editor_has_the_methods_that_may_be_sent_again(
    path: Path, reads: str, safe: str
) -> None:
    def named(pattern: str) -> set[str]:
        found = re.search(pattern, path.read_text("utf-8"), re.DOTALL)
        assert found is not None
        words: list[str] = re.findall(r"[\w./]+", found[1])
        short = aliases()
        return {short.get(word, word) for word in words}

    assert named(safe) == set(repeated("safe"))
    assert named(reads) - NO_METHOD == set(repeatable()) - NO_METHOD


def test_each_check_has_the_command_that_makes_it() -> None:
    assert set(CHECKS) == {row.check for row in REPEATS.values()} - {None}


@pytest.mark.parametrize("kind", [ClientClosed, ConnectionLost, Timeout])
def test_a_command_of_unknown_outcome_names_the_command_that_checks(
    kind: type[ClientClosed | ConnectionLost | Timeout],
) -> None:
    error = kind("the connection broke", outcome_unknown=True, check="session/labels")
    assert str(error) == "the connection broke; session/labels shows whether it was done"
    failure = explain(error, "my session")
    assert failure is not None
    assert failure.what == "the connection broke"
    assert failure.then == (
        "the daemon may have done it: look at `sessiond label 'my session'` before you run it again"
    )
    assert failure.facts == {"kind": "outcome_unknown"}
