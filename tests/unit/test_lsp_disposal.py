"""Large texts of an editor, and what was made of them, are freed by a thread."""

from __future__ import annotations

import threading
import weakref
from unittest.mock import Mock

import pytest

from sessiond.lsp.document import Document, Snapshot
from sessiond.lsp.text.text import Position
from tests.kit.lsp_views import document_of, said_line
from tests.kit.patience import PATIENCE_SECONDS

COUNT = 20_000
LINES = [said_line(f"e{number}") for number in range(COUNT)]


class Watched(str):
    """A line whose end can be watched; a plain `str` allows no weak references."""


class Ends:
    """Threads in which objects were freed."""

    def __init__(self) -> None:
        self._threads: list[int] = []
        self._came = threading.Semaphore(0)

    def watch(self, one: object) -> None:
        """Record the thread that frees an object."""
        weakref.finalize(one, self._note)

    def are_elsewhere(self, count: int) -> bool:
        """Wait for the end of so many objects; return whether other threads freed them all."""
        for _ in range(count):
            assert self._came.acquire(timeout=PATIENCE_SECONDS), "an object was not freed"
        return threading.get_ident() not in self._threads

    def _note(self) -> None:
        self._threads.append(threading.get_ident())
        self._came.release()


def watched_document(ends: Ends) -> Document:
    """Return a document; the end of a line in its middle is watched."""
    watched = Watched(said_line(f"e{COUNT // 2}"))
    ends.watch(watched)
    return document_of([*LINES[: COUNT // 2], watched, *LINES[COUNT // 2 + 1 :]])


async def test_a_replaced_text_is_freed_by_a_thread() -> None:
    ends = Ends()
    opened = watched_document(ends)
    opened.set("{}\n")
    assert ends.are_elsewhere(1)


async def test_the_lines_of_a_large_deletion_are_freed_by_a_thread() -> None:
    ends = Ends()
    opened = watched_document(ends)
    opened.replace(Position(1, 0), Position(COUNT - 1, 0), "")
    assert ends.are_elsewhere(1)


async def test_an_outdated_index_and_outdated_places_are_freed_by_a_thread() -> None:
    ends = Ends()
    opened, seen = document_of(LINES), Snapshot({"id": "s1", "seq": 0}, [], {}, [], 0)
    ends.watch(await opened.index())
    placed = await opened.placed(seen)
    assert placed is not None
    ends.watch(placed.places)
    ends.watch(placed.text)
    del placed
    opened.set("{}\n")
    assert await opened.placed(seen) is not None
    assert ends.are_elsewhere(3)


async def test_a_closed_document_is_freed_by_a_thread() -> None:
    ends = Ends()
    opened = document_of(LINES)
    await opened.index()
    ends.watch(opened.text)
    opened.close()
    assert ends.are_elsewhere(1)


async def test_where_no_thread_starts_an_edit_frees_the_text_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = Ends()
    opened = watched_document(ends)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError))
        opened.set("{}\n")
        assert list(opened.text) == ["{}\n", ""]
        assert not ends.are_elsewhere(1)
