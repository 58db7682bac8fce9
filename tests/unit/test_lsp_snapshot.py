"""The daemon's view of a file: as many pages as a question needs, each read once."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sessiond.lsp.document import Placed
from sessiond.lsp.text.text import Position
from sessiond_client import Client
from sessiond_client.tree_results import TreeNode, TreePage
from tests.kit.lsp_views import document_of
from tests.kit.progress import unseen

pytestmark = pytest.mark.both_loops

PAGES = 4


class FakeClient:
    """A daemon's answers about a session of several pages."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def call(self, _: str, **__: Any) -> Any:
        return {"session": {"id": "s1", "seq": PAGES * 100}}

    async def heads(self, _: str) -> list[Any]:
        return []

    async def tree(self, _: str, *, limit: int, cursor: str = "0") -> TreePage:
        self.asked.append(cursor)
        page = int(cursor)
        nodes = [TreeNode(f"e{seq}", None, seq) for seq in range(page * 100, (page + 1) * 100)]
        return TreePage(nodes=nodes, next_cursor=str(page + 1) if page + 1 < PAGES else None)


async def test_a_question_reads_the_pages_that_it_needs_and_the_next_one_the_rest() -> None:
    document, daemon = document_of("{}\n"), FakeClient()
    client = cast("Client", daemon)
    document.watch(on=True)
    part = await document.snapshot(client, unseen, nodes=150)
    assert daemon.asked == ["0", "1"]
    assert (len(part.nodes), part.more) == (200, 200)
    assert document.is_read_in_part
    assert await document.snapshot(client, unseen, nodes=200) is part

    whole = await document.snapshot(client, unseen)
    assert daemon.asked == ["0", "1", "2", "3"]
    assert [node.seq for node in whole.nodes] == list(range(400))
    assert (len(whole.places), whole.more) == (400, 0)
    assert len(part.nodes) == 200
    assert not document.is_read_in_part
    assert await document.snapshot(client, unseen, nodes=1) is whole


async def test_a_change_has_all_pages_read_anew() -> None:
    document, daemon = document_of("{}\n"), FakeClient()
    client = cast("Client", daemon)
    document.watch(on=True)
    await document.snapshot(client, unseen, nodes=1)
    document.session_changed()
    await document.snapshot(client, unseen)
    assert daemon.asked == ["0", "0", "1", "2", "3"]


async def test_places_are_kept_until_an_entry_moves() -> None:
    document = document_of("{}\n")
    document.set("{}\n" + "".join(f'{{"id":"e{number}"}}\n' for number in range(1, 300)))
    snapshot = await document.snapshot(cast("Client", FakeClient()), unseen)

    async def placed() -> Placed:
        found = await document.placed(snapshot)
        assert found is not None
        assert list(found.text) == list(document.text)
        return found

    first = await placed()
    assert first.places.line_of("e9") == 9
    document.replace(Position(9, 1), Position(9, 1), '"x":1,')
    assert (await placed()).places is first.places
    for place, fresh, line in (
        (Position(1, 0), '{"id":"new"}\n', 10),
        (Position(10, 12), "0", None),
        (Position(1, 0), "torn", None),
    ):
        before = (await placed()).places
        document.replace(place, place, fresh)
        after = (await placed()).places
        assert after is not before
        assert after.line_of("e9") == line


async def test_without_a_watcher_nothing_is_kept() -> None:
    document, daemon = document_of("{}\n"), FakeClient()
    await document.snapshot(cast("Client", daemon), unseen, nodes=1)
    assert not document.is_read_in_part
    await document.snapshot(cast("Client", daemon), unseen, nodes=1)
    assert daemon.asked == ["0", "0"]
