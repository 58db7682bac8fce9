"""protocol.md is true and complete: its examples are played, everything there is has its place."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import Struct

from sessiond.errors import ERRORS, SessiondError
from sessiond.limits import PAGE_ROWS_DEFAULT
from sessiond.methods import METHODS
from sessiond.methods.initialize import Limits
from sessiond.model.entries import ENTRY_TYPES, Entry
from sessiond.model.events import NOTIFICATIONS
from sessiond.rpc.dispatch import Method
from sessiond.rpc.framing import Framing
from sessiond.schema.error_data import ERROR_DATA
from sessiond.schema.openrpc import general_errors
from sessiond.service.client import Client
from sessiond.service.log.session_info import Lineage, SessionInfo
from sessiond.testing.daemon import running_daemon
from sessiond.testing.transcripts import Placeholders, parse, play, render

PAGE = Path(__file__).parent.parent.parent / "protocol.md"
SOURCES = PAGE.parent / "sessiond"
BLOCK = re.compile(r"^```transcript( fresh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section_of(name: str) -> str:
    """Return the text between the heading of this name and the next heading."""
    found = sections(PAGE.read_text()).get(name)
    assert found is not None, f"protocol.md has no section: ## {name}"
    return found


@cache
def sections(page: str) -> dict[str, str]:
    """Return the text below each heading of the second level, up to the next heading, by its name."""
    # A comment in an example looks like a heading.
    text = BLOCK.sub(lambda block: re.sub("^#", "", block[0], flags=re.MULTILINE), page)
    every = re.finditer(r"^## ([^\n]*)\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    found: dict[str, str] = {}
    for one in every:
        found.setdefault(one[1], one[2])
    return found


@pytest.mark.parametrize("framing", list(Framing), ids=lambda framing: framing.value)
async def test_its_examples_happen_as_written(
    framing: Framing, home: Path, placeholders: Placeholders, *, recording: bool
) -> None:
    text = PAGE.read_text()
    happened = await as_played(text, home, framing, placeholders, recording=recording)
    if recording and happened != text:
        PAGE.write_text(happened)
        return
    assert happened == text, (
        "it happened otherwise; to take it over: UPDATE=1 make test ARGS='-n 0 tests/protocol'"
    )


async def as_played(
    text: str, home: Path, framing: Framing, placeholders: Placeholders, *, recording: bool
) -> str:
    """Return the page with real answers; all examples but those marked `fresh` share a daemon."""
    parts: list[str] = []
    at = 0
    async with running_daemon(home) as story, running_daemon(home / "fresh") as fresh:
        for block in BLOCK.finditer(text):
            happened = await play(
                parse(block[2]),
                fresh if block[1] else story,
                framing,
                placeholders=placeholders,
                recording=recording,
            )
            parts += [text[at : block.start(2)], render(happened)]
            at = block.end(2)
    return "".join(parts) + text[at:]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_has_its_section_with_an_example(method: Method[Client, Any]) -> None:
    section = section_of(method.name)
    names = "|".join(map(re.escape, (method.name, *method.aliases)))
    examples = "".join(block[2] for block in BLOCK.finditer(section))
    assert re.search(rf'^[a-z]*> .*"method":"({names})"', examples, re.MULTILINE)
    for alias in method.aliases:
        assert f"Alias: `{alias}`." in section
    assert f"Access: {method.access}" in section or method.name == "session/subscribe"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_parameter_and_member_of_a_result_is_in_its_section(
    method: Method[Client, Any],
) -> None:
    section = section_of(method.name)
    for name in fields_of(method.params):
        assert f"`{name}`" in section, f"the parameter {name} is not explained"
    for form in get_args(method.result) or (method.result,):
        for name in fields_of(form):
            assert re.search(rf"[`\"]{name}[`\"]", section), (
                f"{name} of the result is not explained"
            )


@pytest.mark.parametrize(
    "method",
    [method for method in METHODS if "limit" in method.params.__struct_fields__],
    ids=lambda method: method.name,
)
def test_every_page_of_a_list_has_one_limit(method: Method[Client, Any]) -> None:
    found = re.findall(r"^\| `limit` \| (.*?) \| (.*?) \|", section_of(method.name), re.MULTILINE)
    assert found == [("integer from 1 or null", str(PAGE_ROWS_DEFAULT))]


def test_the_limits_that_one_method_alone_gives_are_named() -> None:
    _, _, text = PAGE.read_text().partition("\n# Limits\n")
    (alone,) = re.findall(r"(`max_[^.]*) are in `server/info` only", text)
    given = set(re.findall(r"^\| `(max_\w+)`", text, re.MULTILINE))
    assert set(re.findall(r"`(max_\w+)`", alone)) == given - set(fields_of(Limits))


def fields_of(kind: Any) -> list[str]:
    """Return the names on the wire, without `_meta`."""
    names = kind.__struct_encode_fields__ if isinstance(kind, type(Struct)) else ()
    return [name for name in names if name != "_meta"]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_section_names_the_errors_that_its_method_lists(method: Method[Client, Any]) -> None:
    text = "".join(re.findall(r"Errors: (.*)", BLOCK.sub("", section_of(method.name))))
    general = {error.kind for error in general_errors(method)}
    named = {error.kind for error in ERRORS if re.search(rf"\b{error.kind}\b", text)}
    assert named - general == {error.kind for error in method.errors}


def test_what_access_status_may_call_is_listed() -> None:
    told = re.search(
        r"`status` may call: (.*?), and session/subscribe", PAGE.read_text(), re.DOTALL
    )
    assert told
    listed = {*re.split(r",\s+", told[1]), "session/subscribe"}
    assert listed == {method.name for method in METHODS if method.access == "status"}


def test_every_method_is_in_the_table_at_their_head() -> None:
    (table,) = re.findall(r"^# Methods\n+(\|.*?)\n\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    linked = re.findall(r"\]\(#(\w+)\)", table)
    assert sorted(linked) == sorted(re.sub(r"[/.]", "", method.name) for method in METHODS)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.kind)
def test_every_error_has_its_row(error: type[SessiondError]) -> None:
    row = re.search(rf"^\| {error.code} \| {error.kind} \|(.*)$", PAGE.read_text(), re.MULTILINE)
    assert row, f"protocol.md has no row: | {error.code} | {error.kind} |"
    assert ("Retryable." in row[1]) == error.retryable


def test_the_codes_of_errors_are_unique() -> None:
    assert len({error.code for error in ERRORS}) == len(ERRORS)
    assert len({error.kind for error in ERRORS}) == len(ERRORS)


def test_there_is_no_row_for_an_error_that_is_no_more() -> None:
    rows = re.findall(r"^\| (-\d+) \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(map(int, rows)) == sorted(error.code for error in ERRORS)


def test_every_entry_type_notification_and_limit_has_its_row() -> None:
    text = PAGE.read_text()
    names = [*ENTRY_TYPES, *NOTIFICATIONS, *Limits.__struct_fields__]
    missing = [
        name for name in names if not re.search(rf"^\| `{re.escape(name)}` \|", text, re.MULTILINE)
    ]
    assert not missing
    for word, kind in {**ENTRY_TYPES, **NOTIFICATIONS}.items():
        row = re.search(rf"^\| `{re.escape(word)}` \|.*$", text, re.MULTILINE)
        assert row
        common = fields_of(Entry) if issubclass(kind, Entry) else []
        own = [name for name in fields_of(kind) if name not in common]
        assert [name for name in own if f"`{name}`" not in row[0]] == []


def test_every_member_of_a_session_info_is_explained() -> None:
    section = section_of("SessionInfo")
    assert [name for name in fields_of(SessionInfo) if f"`{name}`" not in section] == []
    assert [name for name in fields_of(Lineage) if f"`{name}`" not in section] == []


def test_every_link_within_the_page_leads_somewhere() -> None:
    text = PAGE.read_text()
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", text), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9_ -]", "", h.lower()).replace(" ", "-") for h in headings}
    links = set(re.findall(r"\]\(#([^)]+)\)", text))
    assert links <= anchors


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.kind)
def test_the_data_of_an_error_has_the_members_that_its_row_names(
    error: type[SessiondError],
) -> None:
    (row,) = re.findall(
        rf"^\| {error.code} \| {error.kind} \|(.*)\|$", PAGE.read_text(), re.MULTILINE
    )
    told = row.rpartition("|")[2]
    members = {name.removesuffix("?") for name in ERROR_DATA[error.kind]}
    assert [name for name in sorted(members) if not re.search(rf"\b{name}\b", told)] == []
    assert bool(members) == bool(told.strip())


def test_every_refusal_in_the_source_has_the_members_of_its_kind() -> None:
    promised = {
        error.__name__: {name for name in ERROR_DATA[error.kind] if not name.endswith("?")}
        for error in ERRORS
    }
    made = [
        (call.func.id, {one.arg for one in call.keywords}, f"{path.name}:{call.lineno}")
        for path in SOURCES.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        # A notification and an error have one name; the error takes its data by name.
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.keywords
    ]
    refusals = [one for one in made if one[0] in promised]
    assert len(refusals) > 300
    assert [one for one in refusals if None not in one[1] and promised[one[0]] - one[1]] == []


def test_the_data_of_every_kind_of_error_is_typed() -> None:
    assert set(ERROR_DATA) == {error.kind for error in ERRORS}
