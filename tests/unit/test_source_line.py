"""The members of a line that are asked for at once: each is what the line says of it alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from sessiond.dialects.agents.source_line import source_line, truth


class Told(Struct, rename="camel"):
    """Members of a line."""

    type: str | None = None
    parent_uuid: str | None = None
    is_meta: bool = False
    is_sidechain: bool = False


TEXTS = ("type", "parentUuid")
FLAGS = ("isMeta", "isSidechain")
VALUES = st.one_of(
    st.text(max_size=3), st.booleans(), st.none(), st.integers(), st.just([]), st.just({"a": 1})
)


@given(members=st.dictionaries(st.sampled_from([*TEXTS, *FLAGS, "message"]), VALUES))
def test_a_member_of_another_type_takes_no_other_member_along(members: dict[str, Any]) -> None:
    line = source_line(1, json.dumps(members).encode())
    told = line.tell(Told)
    assert (told.type, told.parent_uuid) == tuple(line.word(name) for name in TEXTS)
    assert (told.is_meta, told.is_sidechain) == tuple(truth(line.members, name) for name in FLAGS)


@pytest.mark.parametrize("odd", [rb'"\ud83d"', b"7", b"[1]"])
def test_half_a_character_or_another_value_leaves_the_other_texts(odd: bytes) -> None:
    line = source_line(1, b'{"type":%b,"parentUuid":"p","isMeta":true}' % odd)
    told = line.tell(Told)
    assert told.type == line.word("type") == ("\ufffd" if odd.startswith(b'"') else None)
    assert (told.parent_uuid, told.is_meta) == ("p", True)
    assert line.tell(Told) is told
