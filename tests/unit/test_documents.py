"""Sessions as JSON and Markdown documents, and the order in which documents show branches."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sessiond.rpc.progress import NO_PROGRESS
from sessiond.service.exporting.documents.document import DocumentName, DocumentRequest, document
from sessiond.service.exporting.documents.json_document import PARTS
from sessiond.service.exporting.documents.source import State
from sessiond.service.exporting.documents.visible import one_line, visible
from sessiond.service.exporting.documents.walk import branches
from sessiond.service.log.session_info import head_infos
from tests.kit.documents import made, native
from tests.kit.in_memory import opened_lines
from tests.kit.sessions import stored_entry, stored_message

SAMPLES = Path(__file__).parent.parent / "samples"
FILES = sorted(SAMPLES.glob("*/*.jsonl"))


FORKED = native(
    stored_message("u1", None),
    stored_message("a1", "u1", "assistant"),
    stored_message("u2", "a1"),
    stored_entry("label", "l1", "u2", target_id="a1", label="here"),
    stored_message("u3", "a1"),
    stored_entry("label", "l2", "u3", target_id="u1", label="gone"),
    stored_entry("label", "l3", "u3", target_id="u1", label=None),
    tags=["x", "y"],
    title="A title",
)


# -- memory -----------------------------------------------------------------------------

MIB = 1 << 20


@pytest.mark.parametrize("form", ["json", "markdown", "html"])
def test_a_document_holds_few_of_its_long_entries(form: DocumentName) -> None:
    roles = ("user", "assistant", "tool")
    talk = [
        stored_message(f"n{n}", f"n{n - 1}" if n else None, roles[n % 3], "words " * (2 * MIB // 6))
        for n in range(12)
    ]
    session = native(*talk)
    index = session.session
    state = State(index.seq, index.heads["main"].leaf, head_infos(index), session.whole())
    size = 0
    # The first document loads the templates.
    made(FORKED, form)
    tracemalloc.start()
    try:
        for piece in document(session, state, DocumentRequest(form), NO_PROGRESS):
            size += len(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 24 * MIB - 1000
    assert peak < (2 if form == "json" else 12) * MIB, f"{peak // MIB} MiB"


# -- JSON -------------------------------------------------------------------------------


def test_a_json_document_has_every_part_and_the_entries_as_stored() -> None:
    session = native(
        stored_message("u1", None),
        {**stored_message("u2", "u1"), "extra": 1.50},
    )
    text = made(session, "json")
    found = json.loads(text)
    assert (found["format"], found["version"], found["dialect"]) == (
        "sessiond.session",
        1,
        "native",
    )
    assert set(found) - {"format", "version", "dialect"} == set(PARTS) - {"tags"}
    (_, second) = session.journal.read_many([1, 2])
    assert second.decode() in text
    assert [row["seq"] for row in found["entries"]] == [1, 2]


def test_the_parts_of_a_json_document_can_be_chosen() -> None:
    found = json.loads(made(FORKED, "json", parts=["labels", "tree", "heads", "session"]))
    assert found["labels"] == [{"entry_id": "a1", "label": "here"}]
    assert found["tree"][2:] == [
        {"id": "u2", "parent_id": "a1", "seq": 3},
        {"id": "u3", "parent_id": "a1", "seq": 5},
    ]
    assert found["heads"] == [{"name": "main", "leaf_id": "u3", "seq": 5}]
    assert "entries" not in found
    assert found["session"]["title"] == "A title"
    assert {"tags", "path", "heads"} & set(found["session"]) == set()
    with_tags = json.loads(made(FORKED, "json", parts=["session", "tags"]))
    assert with_tags["session"]["tags"] == ["x", "y"]
    assert "path" not in with_tags["session"]
    assert json.loads(made(FORKED, "json", parts=["tags"]))["tags"] == ["x", "y"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
@pytest.mark.parametrize("form", ["json", "markdown", "html"])
def test_every_dialect_makes_a_document_of_every_entry(path: Path, form: str) -> None:
    session = opened_lines(path.read_bytes().rstrip(b"\n").split(b"\n"))
    index = session.session
    text = made(session, form, every_branch=True)
    nodes = [index.names[seq] for seq in range(1, index.seq + 1) if index.is_node(seq)]
    if form == "json":
        found = json.loads(text)
        assert [node["id"] for node in found["tree"]] == nodes
        assert len(found["entries"]) == index.entry_count
    elif form == "html":
        assert text.count("<article ") == len(nodes)
    else:
        assert text.count("\n## ") >= len(nodes)


# -- Markdown ---------------------------------------------------------------------------


def test_markdown_shows_the_path_of_the_head_or_every_branch() -> None:
    path = made(FORKED, "markdown")
    assert path.startswith("# A title\n")
    assert "text of u3" in path
    assert "text of u2" not in path
    assert "· here\\*" not in path
    assert "a1 · here*" in path
    assert "text of u3" not in made(FORKED, "markdown", "u2")
    every = made(FORKED, "markdown", every_branch=True)
    assert every.index("text of u3") < every.index("below entry `a1`") < every.index("text of u2")


OPENS = (
    *(
        "```",
        "~~~~",
        "```python\n",
        "`" * 40,
        "   ```\n   x",
        "- ```",
        "> ~~~",
        "a\u2028```\u2028b",
        "```\r\n",
    ),
    *(
        "<!-- never closed",
        "<script>",
        "<details>",
        "<?php",
        "<![CDATA[",
        "<pre>\n\n",
        "`List<int>`",
        "List<int>",
    ),
    *("text", "\n", "\n\n", "    code", "***", "[a]: <b", "1. x", "| a |\n|---|"),
)


@given(st.lists(st.sampled_from(OPENS), min_size=1, max_size=6).map("".join))
@example("text\n```python\nprint(1)\n")
@example("<!-- never closed\n" + "x" * 70_000)
def test_no_text_swallows_what_follows_in_markdown(said: str) -> None:
    session = native(
        stored_message("u1", None, content=said), stored_message("a1", "u1", "assistant")
    )
    tokens = MarkdownIt().parse(made(session, "markdown"))
    headings = [
        tokens[at + 1].content for at, one in enumerate(tokens) if one.type == "heading_open"
    ]
    assert headings[-1] == "Assistant"
    assert tokens[-2].content == "text of a1"
    assert not any(one.type == "html_block" for one in tokens)


def test_markdown_that_ends_with_its_text_stays_as_it_was_written() -> None:
    said = "A *word*:\n\n```python\nprint(1 < 2)\n```\n\nand `List<int>`"
    page = made(native(stored_message("u1", None, content=said)), "markdown")
    assert f"\n\n{said}\n" in page


def test_markdown_fences_what_is_no_text_and_keeps_names_in_their_line() -> None:
    call = {"type": "tool_use", "id": "c", "name": "a`b\n# no heading", "input": {"x": "````"}}
    session = native(
        stored_message("u1", None, "assistant", [{"type": "text", "text": "as *is*"}, call]),
        stored_entry("label", "l1", "u1", target_id="u1", label="# *label*\n> x"),
    )
    text = made(session, "markdown")
    assert "as *is*" in text
    assert "Call of `a'b # no heading`:\n\n`````\n" in text
    assert "\n# no heading" not in text
    assert "# \\*label\\* \\> x*" in text


# -- texts ------------------------------------------------------------------------------


def test_characters_that_act_on_a_screen_are_spelled_out() -> None:
    assert visible("a\x1b[2J\u202eb\x00\x7f\ud83d") == "a\\u001b[2J\\u202eb\\u0000\\u007f\\ud83d"
    assert visible("a\r\nb\u2028c\td") == "a\nb\nc\td"
    assert one_line("a\n b   c" + "x" * 50, 10) == "a b cxxxx…"


# -- the order of branches ----------------------------------------------------------------


@given(st.lists(st.integers(0, 40), max_size=40), st.integers(0, 40))
def test_each_entry_stands_once_in_a_branch_that_is_a_chain(drawn: list[int], at: int) -> None:
    tree = native(
        *(
            stored_message(f"n{seq}", f"n{parent % seq}" if parent % seq else None)
            for seq, parent in enumerate(drawn, 1)
        )
    ).session
    leaf = at % (tree.seq + 1)
    found = branches(tree, tree.seq, leaf, lambda _: "")
    assert sorted(seq for branch in found for seq in branch.seqs) == [*range(1, tree.seq + 1)]
    seen: set[int] = set()
    for number, branch in enumerate(found):
        assert branch.number == number
        assert tree.parents[branch.seqs[0]] == branch.fork
        assert all(tree.parents[low] == high for high, low in pairwise(branch.seqs))
        if branch.fork:
            assert branch.fork in found[branch.above].seqs
            assert branch.fork in seen
            assert branch.depth == found[branch.above].depth + 1
        else:
            assert (branch.above, branch.depth) == (number, 0)
        seen |= set(branch.seqs)
    if found:
        # The path to the leaf comes first, in one piece.
        path = tree.path(leaf)
        assert found[0].seqs[: len(path)] == path


def test_a_session_of_ten_thousand_forks_is_no_recursion() -> None:
    tree = native(
        *(
            stored_message(f"n{seq}", f"n{seq - 1 - seq % 2}" if seq > 1 else None)
            for seq in range(1, 10_001)
        )
    ).session
    assert len(branches(tree, tree.seq, tree.seq, lambda _: "")) == 5000
