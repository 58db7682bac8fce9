"""Annotations: patches on what is known about an entry; channels: where messages come from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.model.working.annotations import patched
from sessiond.service.log.annotations import annotations_of
from sessiond.session.columns import columns_of, restore
from sessiond.session.index import Session
from tests.kit.documents import Page, made, native
from tests.kit.sessions import stored_entry, stored_message

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "patch", "result"),
    # The examples of RFC 7396.
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_patch_does_what_the_standard_says(value: Any, patch: Any, result: Any) -> None:
    assert patched(value, patch) == result


@given(st.dictionaries(st.text(max_size=2), JSON, max_size=3), JSON)
def test_a_patch_changes_nothing_when_it_comes_twice(value: Any, patch: Any) -> None:
    before = repr(value)
    once = patched(value, patch)
    assert patched(once, patch) == once
    assert repr(value) == before


ANNOTATED = native(
    stored_message("u1", None),
    stored_entry(
        "custom",
        "n1",
        "u1",
        custom_type="sessiond.annotation",
        data={"entry_id": "u1", "data": {"reply_to": "m7", "reactions": {"+1": ["ana"]}}},
    ),
    stored_message("u2", "u1"),
    stored_entry(
        "custom",
        "n2",
        "u2",
        custom_type="sessiond.annotation",
        data={"entry_id": "u1", "data": {"reactions": {"+1": None, "eyes": ["bo"]}, "x": "\ud83d"}},
    ),
    stored_entry(
        "custom",
        "n3",
        "n2",
        custom_type="sessiond.annotation",
        data={"entry_id": "nowhere", "data": {"lost": 1}},
    ),
    stored_entry(
        "custom",
        "n4",
        "n3",
        custom_type="sessiond.annotation",
        data={"entry_id": "u1", "data": [1]},
    ),
    stored_entry(
        "custom", "n5", "n4", custom_type="sessiond.annotation", data={"entry_id": 5, "data": {}}
    ),
    stored_entry(
        "custom",
        "c1",
        "n5",
        custom_type="sessiond.channel",
        data={"name": "telegram", "chat_id": 42},
    ),
    stored_entry("custom", "c2", "c1", custom_type="sessiond.channel", data={"name": ""}),
)


def test_annotations_add_up_in_the_order_of_the_file_on_every_branch() -> None:
    session = ANNOTATED
    upto = session.session.seq
    assert annotations_of(session, 1, upto) == {
        "reply_to": "m7",
        "reactions": {"eyes": ["bo"]},
        "x": "\ufffd",
    }
    assert annotations_of(session, 1, 2)["reactions"] == {"+1": ["ana"]}
    assert annotations_of(session, 3, upto) == {}
    # Only entries of a wrong shape are problems; an annotation of an entry elsewhere is none.
    assert [(one.line, one.kind) for one in session.session.problems] == [
        (7, "bad_state"),
        (8, "bad_state"),
        (10, "bad_state"),
    ]


def test_a_restored_index_has_the_annotations() -> None:
    index = ANNOTATED.session
    again = Session(index.rules)
    restore(again, columns_of(index))
    assert again.annotations == index.annotations == {1: [2, 4]}


def test_documents_show_annotations_and_channels() -> None:
    page = Page(made(ANNOTATED, "html"))
    assert 'reactions: {"eyes":["bo"]}' in page.text
    assert "channel: telegram, chat 42" in page.text
    text = made(ANNOTATED, "markdown", "c2", every_branch=True)
    assert "\n> reply\\_to: m7\n" in text
    assert "bo" not in Page(made(ANNOTATED, "html", redact=("bo",))).text
