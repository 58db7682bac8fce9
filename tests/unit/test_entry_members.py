"""Entries that members of a line make, half characters included."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from sessiond.dialects.entry_members import entry_of
from sessiond.dialects.lenient_json import fields
from sessiond.model.entries import ENTRY_TYPES, Entry, SessionInfoEntry

HALF = rb"half \ud83d of one"
LINES = {
    "message": b'{"type":"message","message":{"role":"user","content":"%b","%b":1}}',
    "custom_message": b'{"type":"custom_message","custom_type":"a","content":"%b","display":true,"details":["%b"]}',
    "custom": b'{"type":"custom","custom_type":"%b","data":{"a":"%b"}}',
    "compaction": b'{"type":"compaction","messages":[{"role":"user","content":"%b"},{"role":"%b"}]}',
    "branch_summary": b'{"type":"branch_summary","summary":"%b","from_id":null,"details":"%b"}',
    "session_info": b'{"type":"session_info","name":"%b","tags":["%b"]}',
}


def entry(line: bytes) -> Entry:
    members = fields(line)
    return entry_of(members, ENTRY_TYPES[msgspec.json.decode(members["type"])])


@pytest.mark.parametrize("kind", LINES)
def test_half_a_character_is_no_obstacle(kind: str) -> None:
    made = entry(LINES[kind] % (HALF, HALF))
    whole = entry(LINES[kind] % (b"half ? of one", b"half ? of one"))
    assert type(made) is type(whole)
    payloads = {
        name: bytes(value)
        for name in made.__struct_fields__
        if isinstance(value := getattr(made, name), Raw)
    }
    assert all(HALF in said for said in payloads.values())
    texts = [
        value for name in made.__struct_fields__ if isinstance(value := getattr(made, name), str)
    ]
    assert not any("\\ud83d" in said for said in texts)


def test_the_parts_of_a_text_that_is_no_payload_are_whole_characters() -> None:
    made = entry(LINES["session_info"] % (HALF, HALF))
    assert isinstance(made, SessionInfoEntry)
    assert (made.name, made.tags) == ("half \ufffd of one", ["half \ufffd of one"])


def test_an_entry_of_another_form_is_none() -> None:
    for line in (
        b'{"type":"compaction","messages":"%b"}' % HALF,
        b'{"type":"custom","custom_type":7,"data":"%b"}' % HALF,
        b'{"type":"custom","data":1}',
    ):
        with pytest.raises(msgspec.ValidationError):
            entry(line)
