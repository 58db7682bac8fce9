"""Redaction: matches are gone from every text of a document, and what holds entries together stays."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.dialects import dialect_named
from sessiond.errors import InvalidParams
from sessiond.model.row import Kind
from sessiond.service.exporting.documents import redaction as redaction_module
from sessiond.service.exporting.documents.redaction import redaction
from sessiond.service.exporting.documents.redactor import KEPT, REDACTED, redact_line
from tests.kit.documents import made, native
from tests.kit.in_memory import opened_lines
from tests.kit.sessions import stored_entry, stored_message, text, tool_use

SAMPLES = Path(__file__).parent.parent / "samples"
FILES = sorted(SAMPLES.glob("*/*.jsonl"))
ONE_EACH = [min(folder.glob("*.jsonl")) for folder in sorted({path.parent for path in FILES})]
SECRET = re.compile("s3cret")
NAMES = ["s3cret name"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just("a s3cret b"),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def redacted(value: Any, pattern: re.Pattern[str] = SECRET) -> Any:
    return json.loads(redact_line(json.dumps(value), [pattern]))


def texts(value: Any) -> list[str]:
    """Return every text of a JSON value, names of members too."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [*value, *(text for part in value.values() for text in texts(part))]
    return [text for part in value for text in texts(part)] if isinstance(value, list) else []


@given(JSON)
def test_no_text_of_a_document_has_a_match(value: Any) -> None:
    found = redacted({"data": value, "content": value})
    assert not any("s3cret" in text for text in texts(found["data"]))
    # Outside of data the names of members stay.
    assert not any("s3cret" in text and text not in NAMES for text in texts(found["content"]))


@given(JSON)
def test_a_document_without_a_match_stays_as_it_is(value: Any) -> None:
    line = json.dumps(value, ensure_ascii=False, indent=1)
    assert redact_line(line, [re.compile("no such text at all")]) == line


def test_only_what_matches_changes() -> None:
    line = (
        '{"n": 1.50, "text":"a s3cret \\u00e9","s3cret": [1e3, "\\ud83d"], "data": {"s3cret" : 0}}'
    )
    assert redact_line(line, [SECRET]) == (
        '{"n": 1.50, "text":"a [redacted] \\u00e9","s3cret": [1e3, "\\ud83d"],'
        ' "data": {"[redacted]" : 0}}'
    )
    assert redacted("x s3cret", re.compile("x*")) == f"{REDACTED} s3cret"


def test_ids_stay_but_not_inside_what_belongs_to_a_tool_or_an_extension() -> None:
    kept = {"id": "s3cret", "l": [{"id": "s3cret"}], "message": {"role": "s3cret"}}
    assert redacted(kept) == kept
    for name in ("arguments", "data", "details"):
        assert redacted({name: {"x": [{"id": "s3cret"}]}}) == {name: {"x": [{"id": REDACTED}]}}
    # A text behind an id is no id.
    assert redacted([{"id": 5}, "s3cret"]) == [{"id": 5}, REDACTED]
    assert redacted({"id": ["s3cret"]}) == {"id": [REDACTED]}
    assert redacted({"message": {"args": {}, "id": "s3cret"}})["message"]["id"] == "s3cret"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_entries_of_every_dialect_keep_their_places(path: Path) -> None:
    lines = path.read_bytes().rstrip(b"\n").split(b"\n")
    dialect = dialect_named(opened_lines(lines).dialect.name)
    everything = [re.compile("(?s).")]
    for line in lines[1:]:
        try:
            before = dialect.row(line)
        except Exception:  # noqa: BLE001 - a line that is no entry
            continue
        after = dialect.row(redact_line(line.decode(), everything).encode())
        if after.kind != Kind.INFO or not dialect.rules.whole_info:
            assert after.id == before.id
        assert after.parent_id == before.parent_id
        assert after.timestamp == before.timestamp


WITH_SECRETS = native(
    stored_message("u1", None, content="s3cret in \\u0073 and s3cret"),
    stored_message(
        "a1", "u1", "assistant", [text("s3cret"), tool_use("c", "s3cret", s3cret=["s3cret"])]
    ),
    stored_entry("compaction", "k1", "a1", summary="s3cret", first_kept_entry_id="u1"),
    stored_entry("custom", "c1", "k1", custom_type="x", data={"id": "s3cret"}),
    stored_entry("label", "l1", "c1", target_id="u1", label="s3cret"),
    stored_entry("session_info", "i1", "c1", name="s3cret", tags=["s3cret"], plan="s3cret"),
    cwd="/s3cret",
)


@pytest.mark.parametrize("path", ONE_EACH, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_redacted_entries_keep_their_ids(path: Path) -> None:
    session = opened_lines(path.read_bytes().rstrip(b"\n").split(b"\n"))
    assert made(session, "html", redact=("(?s).",))
    index = session.session
    found = json.loads(made(session, "json", redact=("(?s).",)))["entries"]
    assert {row["seq"]: row["entry"]["id"] for row in found} == {
        seq: index.names[seq] for seq in range(1, index.seq + 1) if index.is_entry(seq)
    }


@pytest.mark.parametrize("form", ["json", "markdown", "html"])
def test_a_document_has_no_match_in_any_part(form: str) -> None:
    assert "s3cret" in made(WITH_SECRETS, form)
    text = made(WITH_SECRETS, form, redact=("no match", "s3c[r]et"))
    assert "s3cret" not in text
    assert text.replace("\\", "").count(REDACTED) >= 6
    assert "u1" in text


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "(?P<x>a)(?P<x>b)", "[z-a]", "\\"])
def test_a_bad_pattern_is_named(pattern: str) -> None:
    with pytest.raises(InvalidParams, match="not a regular expression") as caught:
        made(WITH_SECRETS, "json", redact=("a", pattern))
    assert caught.value.data()["path"] == "redact[1]"


def test_a_process_that_ends_is_an_error_that_says_what_to_do(monkeypatch: Any) -> None:
    # As the system ends it when it needs too much.
    stub = Path(__file__).with_name("redactor_that_ends.py")
    monkeypatch.setattr(redaction_module, "_PROGRAM", stub)
    with pytest.raises(InvalidParams, match="repetitions inside repetitions"):
        made(WITH_SECRETS, "json", redact=("a",))


@pytest.mark.slow
def test_a_pattern_that_never_ends_costs_one_export() -> None:
    line = json.dumps("a" * 60 + "!").encode()
    with redaction(["(a+)+$"]) as found, pytest.raises(InvalidParams, match="repetitions"):
        found.lines([line])
    with redaction(["(a+)+!"]) as found:
        assert found.lines([line]) == [msgspec.json.encode(REDACTED)]


def test_the_kept_members_are_names_and_places_alone() -> None:
    assert not {"content", "text", "name", "title", "label", "summary", "path", "cwd"} & KEPT
