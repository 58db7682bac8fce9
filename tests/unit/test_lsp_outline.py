"""The references that are read from lines, and the outline that is made of a tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiond.limits import OUTLINE_SYMBOLS_MAX
from sessiond.lsp.outline import Symbol, SymbolType, outline
from sessiond.lsp.places import find_places
from sessiond.lsp.text.lines import PIECE_CHARS, Index, Reference, own_id, references
from sessiond.lsp.text.text import Text
from sessiond_client.tree_results import TreeNode
from tests.kit.lsp_views import UTF16, node, said_line


def drawn_up(title: str, nodes: list[TreeNode], lines: list[str], *, more: int = 0) -> list[Symbol]:
    """Return the outline of nodes in a text of these lines."""
    text = Text("".join(lines), UTF16)
    index = Index(text)
    places = find_places(nodes, index, text, Path("/never.jsonl"), 0)
    return outline(title, nodes, index, places, more=more)


def drawn(symbols: list[Symbol], depth: int = 0) -> Iterator[str]:
    for symbol in symbols:
        yield f"{'  ' * depth}{symbol.line}-{symbol.last_line} {symbol.name}"
        yield from drawn(symbol.children, depth + 1)


# -- lines -------------------------------------------------------------------


def test_ids_are_found_at_the_top_of_a_line_in_both_spellings() -> None:
    line = (
        '{"id": "a\\u0062", "parentId":"p","message":{"id":"no","content":"\\"id\\":\\"no\\""},'
        '"list":[{"id":"no"}],"n":1,"nothing":null,"x":"id","target_id" :"t"}'
    )
    found = list(references(line))
    assert [(one.member, one.entry_id) for one in found] == [
        ("id", "ab"),
        ("parent_id", "p"),
        ("target_id", "t"),
    ]
    assert [line[one.start : one.end] for one in found] == ["a\\u0062", "p", "t"]


@pytest.mark.parametrize(
    "line", ["", "no JSON", "[1]", '{"id":', '{"id":7}', '{"id":"torn', '{"a":"b\\', "}}}", "null"]
)
def test_a_line_that_is_no_entry_has_no_ids(line: str) -> None:
    assert list(references(line)) == []
    assert own_id(line) is None


def test_a_torn_line_of_a_megabyte_is_read_in_one_go() -> None:
    """Starting again at each quotation mark would take for ever."""
    torn = '{"type":"message","id":"a1","message":{"content":"' + '\\"x\\" ' * 200_000
    assert list(references(torn)) == [Reference("id", "a1", 24, 26)]


@pytest.mark.parametrize("short_of", range(9))
def test_an_escape_where_a_piece_of_a_long_string_ends_is_whole(short_of: int) -> None:
    content = '\\"' + "x" * (PIECE_CHARS - 2 - short_of) + '\\"\\\\\\u00e9'
    line = f'{{"message":"{content}","id":"a\\"1"}}'
    (found,) = references(line)
    assert (found.entry_id, line[found.start : found.end]) == ('a"1', 'a\\"1')
    assert [one.entry_id for one in references(line[:-1])] == ['a"1']
    assert list(references(line[: PIECE_CHARS + 20])) == []


def test_an_index_knows_where_ids_stand_and_who_speaks() -> None:
    header = '{"type":"session","id":"s"}\n'
    odd = '{"id":"b","message":"no object"}\n'
    index = Index([header, said_line("a", "user"), odd, "\n", said_line("a", "tool")])
    assert index.roles == {1: "user", 4: "tool"}
    assert index.line_of("a") == 4
    assert index.line_of("b") == 2
    assert index.line_of("s") is None


# -- outline -------------------------------------------------------------------


def test_a_turn_holds_what_follows_and_a_branch_holds_its_turns() -> None:
    roles = {"u1": "user", "a1": "assistant", "t1": "tool", "u2": "user", "b1": "user"}
    lines = ["{}\n", *(said_line(entry_id, role) for entry_id, role in roles.items())]
    lines.append('{"type":"compaction","id":"c1"}\n')
    lines.append(said_line("a2", "assistant"))
    nodes = [
        TreeNode("u1", None, 1, "message", preview="said u1"),
        TreeNode("a1", "u1", 2, "message", preview="said a1"),
        TreeNode("t1", "a1", 3, "message", preview="said t1"),
        TreeNode("u2", "t1", 4, "message", preview="said u2"),
        TreeNode("c1", "u2", 6, "compaction", preview="said c1"),
        TreeNode("a2", "c1", 7, "message", preview="said a2"),
        TreeNode("b1", "u1", 5, "message", preview="said b1"),
    ]
    symbols = drawn_up("Title", nodes, lines)
    assert list(drawn(symbols)) == [
        "0-0 Title",
        "1-3 said u1",
        "  2-2 said a1",
        "  3-3 said t1",
        "4-4 said u2",
        "6-7 said c1",
        "  7-7 said a2",
        "5-5 branch at line 6: said b1",
        "  5-5 said b1",
    ]
    assert [symbol.type for symbol in symbols[1:4]] == [
        SymbolType.USER,
        SymbolType.USER,
        SymbolType.COMPACTION,
    ]
    assert [child.type for child in symbols[1].children] == [SymbolType.ANSWER, SymbolType.TOOL]


def test_a_summary_of_a_branch_and_a_setting_have_symbols_of_their_own() -> None:
    nodes = [
        node("m1", None, 1, "model_change"),
        node("u1", "m1", 2, preview="said u1"),
        node("s1", "u1", 3, "branch_summary", preview="said s1"),
    ]
    lines = ["{}\n", '{"id":"m1"}\n', said_line("u1"), '{"id":"s1"}\n']
    found = [symbol.type for symbol in drawn_up("T", nodes, lines)[1:]]
    assert found == [SymbolType.SETTING, SymbolType.USER, SymbolType.SUMMARY]
    assert list(drawn(drawn_up("T", [], lines))) == ["0-0 T"]


def test_an_entry_whose_parent_is_a_label_is_no_branch() -> None:
    below = TreeNode("a1", "label", 3, "message", preview="said a1", resolved_parent_id="u1")
    nodes = [TreeNode("u1", None, 1, "message", preview="said u1"), below]
    lines = ["{}\n", said_line("u1", "user"), "{}\n", said_line("a1", "assistant")]
    symbols = drawn_up("T", nodes, lines)
    assert list(drawn(symbols)) == ["0-0 T", "1-3 said u1", "  3-3 said a1"]


def test_entries_that_the_text_does_not_have_are_left_out() -> None:
    nodes = [
        TreeNode("u1", None, 1, "message", preview="said u1"),
        TreeNode("later", "u1", 2, "message", preview="said later"),
    ]
    symbols = drawn_up("T", nodes, ["{}\n", said_line("u1", "user")])
    assert list(drawn(symbols)) == ["0-0 T", "1-1 said u1"]


def test_names_hold_no_control_characters_and_show_labels() -> None:
    said = TreeNode("u1", None, 1, "message", preview="a\x1b[31m\u202eb", label="la\x07bel")
    silent = TreeNode("u2", "u1", 2, "message", preview="")
    lines = ["{}\n", said_line("u1", "user"), said_line("u2", "user")]
    _, first, second = drawn_up("\u202eT\n", [said, silent], lines)
    assert first.name == "a [31m b  #la bel"
    assert second.name == "[user]"


def test_a_chain_of_thousands_is_flat_and_the_last_symbol_says_what_is_left_out() -> None:
    count = OUTLINE_SYMBOLS_MAX + 1234
    lines = ["{}\n", *(said_line(f"e{seq}", "user") for seq in range(1, count + 1))]
    nodes = [
        TreeNode(f"e{seq}", f"e{seq - 1}", seq, "message", preview=f"said {f'e{seq}'}")
        for seq in range(1, count + 1)
    ]
    symbols = drawn_up("T", nodes, lines, more=66)
    assert len(symbols) == OUTLINE_SYMBOLS_MAX + 2
    assert symbols[-1].name == "… 1,300 more entries are not in this outline"
    assert symbols[-1].type is SymbolType.REST
    assert max(len(name) - len(name.lstrip()) for name in drawn(symbols)) == 0


def test_one_entry_that_is_left_out_is_told_in_the_singular() -> None:
    symbols = drawn_up(
        "T",
        [TreeNode("u1", None, 1, "message", preview="said u1")],
        ["{}\n", said_line("u1", "user")],
        more=1,
    )
    assert symbols[-1].name == "… 1 more entry is not in this outline"
