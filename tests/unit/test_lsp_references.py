"""References to an entry, and the words of lines that they are found by."""

from __future__ import annotations

import pytest

from sessiond.lsp.editor import Span
from sessiond.lsp.features.references import references_to
from sessiond.lsp.features.words import WordKind, named_ids, words
from tests.kit.lsp_views import node, view_of

TEXT = (
    '{"type":"session_header","id":"a1"}\n'
    '{"type":"message","id":"a1","parent_id":null}\n'
    '{"type":"message","x":"\U0001f600","id":"a2","parent_id":"a1"}\n'
    '{"type":"label","id":"l1","parentId":"a2","data":{"targetId":"a1","label":"a1"}}\n'
    '{"type":"message","content":[{"id":"a1"}],"text":"a1"}\n'
    '{"type":"message","id":"a1"}\n'
)


def test_each_line_that_names_the_id_is_found() -> None:
    nodes = [node("a2", "a1", 2), node("a1", None, 5)]
    view = view_of(TEXT, nodes)
    found = references_to(view, "a1")
    assert found == [Span(1, 24, 26), Span(2, 50, 52), Span(3, 62, 64)]
    declared = references_to(view, "a1", declared=True)
    assert declared == [*found, Span(5, 24, 26)]


def test_a_child_whose_line_names_no_parent_is_found_as_a_whole() -> None:
    nodes = [node("c1", None, 1), node("c2", "c1", 2)]
    view = view_of('{}\n{"type":"message","id":"c1"}\n{"id":"c2"}\n', nodes)
    assert references_to(view, "c1") == [Span(2, 0, 11)]
    assert references_to(view, "nobody") == []


def test_words_of_a_line_are_those_at_the_top_and_right_below() -> None:
    line = (
        '{"type":"user","uuid":"u1","parentUuid":null,"isMeta":false,"message":{"role":"user","id":"m",'
        '"type":"t","content":[{"type":"text","role":"no"}],"deep":{"role":"no"}},"label":"\\u0041 b"}'
    )
    found = [(word.kind, line[word.start : word.end]) for word in words(line)]
    assert found == [
        (WordKind.TYPE, "user"),
        (WordKind.ID, "u1"),
        (WordKind.ROLE, "user"),
        (WordKind.LABEL, "\\u0041 b"),
    ]
    assert [one.entry_id for one in named_ids('{"id":"a\\u0062","from_id":"c"}')] == ["ab", "c"]


@pytest.mark.parametrize(
    "line", ["", "[1]", '{"id":', '{"id":7}', '{"id":"torn', "}}}", '{"id":""}']
)
def test_a_line_that_is_no_entry_has_no_words(line: str) -> None:
    assert list(words(line)) == []


def test_only_the_first_characters_are_read_if_so_asked() -> None:
    line = '{"type":"t","id":"a1","role":"r"}'
    assert [line[word.start : word.end] for word in words(line, 22)] == ["t", "a1"]
