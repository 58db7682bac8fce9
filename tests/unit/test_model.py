"""Ids, entry types, and the tables that must agree about them."""

from __future__ import annotations

import re

import msgspec
import pytest
from msgspec import Raw

from sessiond.model import entries, ids
from sessiond.model.entries import ENTRY_TYPES, Entry
from sessiond.model.ids import (
    SESSION_ID_PATTERN,
    HeadName,
    NewEntryId,
    SessionId,
    derive_entry_id,
    derive_session_id,
    is_session_id,
)
from sessiond.model.row import KIND_OF_TYPE, TYPE_OF_KIND, Kind

GOOD_SESSION_IDS = ["abcdefgh", "A" * 128, "019a6f00-0000-7000", "________", "--------"]
BAD_SESSION_IDS = [
    "",
    "abcdefg",
    "a" * 129,
    "abcdefgh\n",
    "\nabcdefgh",
    "../secret",
    "/etc/passwd",
    "abc.defgh",
    "abcd efgh",
    "abcdefgh\0",
    "äbcdefgh",
    "abcdefg\u0661",
]


@pytest.mark.parametrize("text", GOOD_SESSION_IDS)
def test_a_session_id_of_the_grammar_is_accepted_everywhere(text: str) -> None:
    assert is_session_id(text)
    assert re.search(SESSION_ID_PATTERN, text)
    assert msgspec.convert(text, SessionId) == text


@pytest.mark.parametrize("text", BAD_SESSION_IDS)
def test_what_could_become_another_file_name_is_no_session_id(text: str) -> None:
    assert not is_session_id(text)
    assert not re.search(SESSION_ID_PATTERN, text)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, SessionId)


@pytest.mark.parametrize("text", ["a", "a.b:c-d_e", "x" * 128])
def test_a_client_may_give_an_entry_such_an_id(text: str) -> None:
    assert msgspec.convert(text, NewEntryId) == text


@pytest.mark.parametrize("text", ["", "a\n", "a b", "a/b", "x" * 129, "é"])
def test_a_client_may_not_give_an_entry_such_an_id(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, NewEntryId)


@pytest.mark.parametrize("text", ["", "main\n", "a b", "x" * 65, "é"])
def test_a_head_has_a_name_that_fits_on_one_line(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, HeadName)
    assert msgspec.convert("agents/second:1.0", HeadName) == "agents/second:1.0"


def test_an_entry_id_is_derived_from_session_key_and_index_alone() -> None:
    first = derive_entry_id("session1", "key", 0)
    assert first == derive_entry_id("session1", "key", 0)
    assert re.fullmatch("[0-9a-f]{32}", first)
    others = {
        derive_entry_id("session1", "key", 1),
        derive_entry_id("session1", "other", 0),
        derive_entry_id("session2", "key", 0),
    }
    assert len(others | {first}) == 4


def test_derived_entry_ids_are_what_every_version_derives() -> None:
    # Files hold ids made this way: changing the derivation would store a retry twice.
    assert derive_entry_id("abcdefgh", "k", 2) == "1269f6cc5b896b5512a38081d46cf573"
    assert derive_session_id("/a/b.jsonl") == "54acb28567200c365fc2a28bcfef06c9"


def test_parts_of_a_derived_id_cannot_be_shifted_into_each_other() -> None:
    assert derive_entry_id("ab", "c", 0) != derive_entry_id("a", "bc", 0)
    assert derive_entry_id("a", "b1", 0) != derive_entry_id("a", "b", 10)


def test_a_path_that_is_not_utf8_has_a_session_id_too() -> None:
    assert is_session_id(derive_session_id("/tmp/\udcff.jsonl"))


def test_every_entry_type_is_listed_under_its_own_tag() -> None:
    defined = {
        found
        for found in vars(entries).values()
        if isinstance(found, type) and issubclass(found, Entry) and found is not Entry
    }
    assert set(ENTRY_TYPES.values()) == defined
    assert {word: found.__struct_config__.tag for word, found in ENTRY_TYPES.items()} == {
        word: word for word in ENTRY_TYPES
    }


def test_every_entry_type_but_message_has_one_kind_and_back() -> None:
    assert set(KIND_OF_TYPE) == set(ENTRY_TYPES) - {"message"}
    assert {word: TYPE_OF_KIND[kind] for word, kind in KIND_OF_TYPE.items()} == {
        word: word for word in KIND_OF_TYPE
    }
    assert set(TYPE_OF_KIND) == set(Kind) - {Kind.NONE, Kind.OPAQUE}
    assert max(Kind) < 256


@pytest.mark.parametrize("word", sorted(ENTRY_TYPES))
def test_the_envelope_comes_first_in_every_line(word: str) -> None:
    assert ENTRY_TYPES[word].__struct_fields__[:6] == (
        "id",
        "parent_id",
        "timestamp",
        "head",
        "atom",
        "atom_of",
    )


def test_an_entry_with_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(msgspec.ValidationError, match="zz"):
        msgspec.json.decode(b'{"type":"message","message":{},"zz":1}', type=entries.Message)


def test_a_payload_stays_the_bytes_it_was() -> None:
    line = b'{"type":"message","message":{"b":1.50,"a":"\\u00e9"}}'
    entry = msgspec.json.decode(line, type=entries.Message)
    assert bytes(entry.message) == b'{"b":1.50,"a":"\\u00e9"}'
    assert msgspec.json.encode(entry) == line


@pytest.mark.parametrize("field", ["tokens_before", "tokens_after"])
def test_tokens_are_never_negative(field: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert({"type": "compaction", field: -1}, entries.Compaction)


def test_fields_that_were_not_given_are_not_written() -> None:
    assert msgspec.json.encode(entries.Custom(custom_type="x")) == (
        b'{"type":"custom","custom_type":"x"}'
    )
    assert ids.MAIN == "main"
    assert msgspec.json.encode(entries.Message(message=Raw(b"{}"), id="a")) == (
        b'{"type":"message","id":"a","message":{}}'
    )
