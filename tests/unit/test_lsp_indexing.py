"""The index of an open document: each line is parsed once, and an edit costs its own lines."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from sessiond.lsp import document as documents
from sessiond.lsp.document import Document
from sessiond.lsp.text import indexing, lines
from sessiond.lsp.text.lines import Index
from sessiond.lsp.text.text import Position, Text
from tests.kit.lsp_views import UTF16, document_of, said_line
from tests.kit.patience import PATIENCE_SECONDS

COUNT = 20_000


LONG = "{}\n" + "".join(said_line(f"e{number}") for number in range(1, COUNT))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of lines that are parsed from now on."""
    seen: list[str] = []
    parse = lines.read_line

    def read(one: str) -> Any:
        seen.append(one)
        return parse(one)

    monkeypatch.setattr(lines, "read_line", read)
    return seen


@pytest.mark.parametrize("at", [1, COUNT // 2, COUNT - 1], ids=["start", "middle", "end"])
async def test_an_edit_within_a_line_parses_that_line_only(at: int, parsed: list[str]) -> None:
    opened = document_of(LONG)
    assert (await opened.index()).line_of(f"e{at}") == at
    assert opened.lines_parsed == len(parsed) == COUNT + 1
    parsed.clear()
    opened.replace(Position(at, 24), Position(at, 24 + len(f"e{at}")), "new")
    index = await opened.index()
    assert parsed == [said_line(f"e{at}", "user").replace(f"e{at}", "new")]
    assert opened.lines_parsed == COUNT + 2
    assert index.line_of("new") == at
    assert index.line_of(f"e{at}") is None


async def test_a_new_line_moves_the_others_and_parses_none_of_them(parsed: list[str]) -> None:
    opened = document_of(LONG)
    await opened.index()
    parsed.clear()
    opened.replace(Position(1, 0), Position(1, 0), said_line("e0", "tool"))
    index = await opened.index()
    # The line behind the new one was touched: the edit stands at its beginning.
    assert parsed == [said_line("e0", "tool"), said_line("e1", "user")]
    assert index.line_of(f"e{COUNT - 1}") == COUNT
    assert index.roles[1] == "tool"
    assert len(index) == len(opened.text)


async def test_any_edits_leave_the_index_of_the_text(parsed: list[str]) -> None:
    random = Random(17)
    opened = document_of("".join(said_line(f"e{(number % 700)}", "user") for number in range(1500)))
    await opened.index()
    for _ in range(200):
        count = len(opened.text)
        first = random.randrange(count)
        last = min(count, first + random.choice([0, 0, 1, 2, 600]))
        fresh = "".join(
            said_line(f"e{random.randrange(700)}", "user")
            for _ in range(random.choice([0, 1, 3, 600]))
        )
        opened.replace(Position(first, 0), Position(last, 0), fresh)
        if random.random() < 0.1:
            assert_same(await opened.index(), Index(opened.text))
    assert_same(await opened.index(), Index(opened.text))
    assert_same((await opened.copies()).index, Index(opened.text))


def assert_same(found: Index, wanted: Index) -> None:
    assert dict(found.roles) == dict(wanted.roles)
    ids = [f"e{number}" for number in range(700)]
    assert [found.line_of(one) for one in ids] == [wanted.line_of(one) for one in ids]


async def test_copies_stay_what_they_were() -> None:
    opened = document_of(LONG)
    copies = await opened.copies()
    opened.replace(Position(1, 0), Position(5, 0), "")
    assert copies.index.line_of("e7") == 7
    assert copies.text.line(7) == said_line("e7", "user").rstrip()
    assert (await opened.index()).line_of("e7") == 3


# -- what the loop does not do ---------------------------------------------------


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[int]]:
    """Record the threads in which long work is done."""
    seen: dict[str, set[int]] = {}

    def watched(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            seen.setdefault(name, set()).add(threading.get_ident())
            return work(*arguments)

        return run

    for module, name in (
        (indexing, "Index"),
        (indexing, "facts_of"),
        (documents, "_lines_in_file"),
    ):
        monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
    return seen


async def test_opening_and_a_new_text_are_read_in_a_thread(threads: dict[str, set[int]]) -> None:
    opened = document_of(LONG)
    assert not threads
    await opened.index()
    opened.set("".join(opened.text)[:-1])
    assert (await opened.index()).line_of("e9") == 9
    assert threading.get_ident() not in threads["Index"]
    assert "facts_of" not in threads


@pytest.mark.parametrize(
    "fresh", [said_line("e0", "user") * 2_000, "x" * 1_000_000], ids=["lines", "a line"]
)
async def test_a_long_edit_is_read_in_a_thread(fresh: str, threads: dict[str, set[int]]) -> None:
    opened = document_of(LONG)
    await opened.index()
    opened.replace(Position(5, 0), Position(5, 0), fresh)
    assert "facts_of" not in threads
    opened.replace(Position(0, 0), Position(0, 0), " ")
    await opened.index()
    assert threading.get_ident() not in threads["facts_of"]
    assert_same(await opened.index(), Index(opened.text))


async def test_a_short_edit_needs_no_thread(threads: dict[str, set[int]]) -> None:
    opened = document_of(LONG)
    await opened.index()
    opened.replace(Position(5, 0), Position(5, 0), said_line("e0", "user"))
    assert threads["facts_of"] == {threading.get_ident()}


async def test_the_file_is_compared_in_a_thread(
    threads: dict[str, set[int]], tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(said_line("e1", "user") + said_line("e2", "user"))
    opened = Document(
        path.as_uri(), path, Text(said_line("e1", "user") + said_line("e2", "user"), UTF16)
    )
    assert await opened.stored_lines() == 3
    assert threading.get_ident() not in threads["_lines_in_file"]


@asynccontextmanager
async def while_indexing(opened: Document, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[None]:
    """Run the block while a thread makes the index of a document."""
    begun, go_on = anyio.Event(), threading.Event()

    def make(text: Text) -> Index:
        anyio.from_thread.run_sync(begun.set)
        assert go_on.wait(PATIENCE_SECONDS)
        return Index(text)

    monkeypatch.setattr(indexing, "Index", make)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(opened.index)
        await begun.wait()
        yield
        go_on.set()


async def test_edits_while_the_index_is_made_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = document_of(LONG)
    async with while_indexing(opened, monkeypatch):
        opened.replace(Position(1, 0), Position(1, 0), said_line("e0", "user"))
    assert_same(await opened.index(), Index(opened.text))
    assert opened.lines_parsed == COUNT + 3


async def test_a_new_text_while_the_index_is_made_has_an_index_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = document_of(LONG)
    async with while_indexing(opened, monkeypatch):
        opened.set("{}\n" + said_line("e3", "user"))
    assert (await opened.index()).line_of("e3") == 1
    assert (await opened.index()).line_of("e4") is None


async def test_edits_that_nobody_asks_about_do_not_pile_up() -> None:
    opened = document_of(LONG)
    await opened.index()
    for number in range(indexing.WAITING_MAX + 5):
        opened.replace(Position(0, 0), Position(0, 0), "x" * 300_000 if not number else " ")
    assert opened.lines_parsed == COUNT + 1
    assert (await opened.index()).line_of("e9") == 9
    assert opened.lines_parsed == 2 * COUNT + 2
