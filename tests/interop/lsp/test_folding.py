"""Folding ranges and references, in files of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.lsp.editor import CLAUDE, LINEAR, NATIVE, PI, SHARUR, copy, editor, member
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]


@pytest.mark.parametrize(
    ("sample", "ranges"),
    [
        (NATIVE, [(1, 2), (3, 10), (13, 14), (15, 17), (18, 22)]),
        (PI, [(3, 8), (9, 10), (11, 13), (14, 15), (17, 20)]),
        (LINEAR, [(1, 3)]),
        (SHARUR, [(1, 2), (3, 10), (11, 12), (14, 15), (17, 20)]),
        (CLAUDE, [(0, 4), (5, 6), (7, 10), (12, 14)]),
    ],
    ids=lambda sample: sample.stem if isinstance(sample, Path) else "",
)
async def test_turns_fold_in_files_of_every_kind(
    server: Daemon, home: Path, sample: Path, ranges: list[tuple[int, int]]
) -> None:
    async with editor(server) as client:
        uri = client.open(copy(sample, home))
        found = await client.folds(uri)
        assert [fold for fold in found if fold in ranges] == ranges


async def test_references_are_children_and_lines_that_name_the_id(
    server: Daemon, home: Path
) -> None:
    async with editor(server) as client:
        path = copy(NATIVE, home)
        uri = client.open(path)
        # A message with two children, a label, a head, and its copy in a branch summary.
        found = await client.references(uri, 6)
        assert [line for line, _, _ in found] == [7, 7, 8, 12, 14, 15, 17]
        assert (*member(path, 7, "target_id"),) in found
        own = member(path, 6, "id")
        assert await client.references(uri, 6, own[1], declared=True) == [own, *found]
        # The id under the cursor counts, not that of the line.
        parent = member(path, 4, "parent_id")
        assert parent in await client.references(uri, 4, parent[1])

        # Lines without ids: the daemon knows the children.
        uri = client.open(copy(LINEAR, home))
        (child,) = await client.references(uri, 2)
        assert child[0] == 3

        uri = client.open(copy(CLAUDE, home))
        assert [line for line, _, _ in await client.references(uri, 4)] == [5, 7]


async def test_unsaved_text_moves_places_and_nothing_else(server: Daemon, home: Path) -> None:
    async with editor(server) as client:
        uri = client.open(copy(NATIVE, home))
        before = await client.folds(uri)
        client.edit(uri, ((3, 0), (3, 0), "not JSON\nnor this\n"))
        moved = [(first + 2 * (first >= 3), last + 2 * (last >= 2)) for first, last in before]
        assert await client.folds(uri) == moved
        # Entries without ids have no place in a text that is not the beginning of the file.
        uri = client.open(copy(LINEAR, home))
        assert await client.folds(uri) != []
        client.edit(uri, ((1, 0), (1, 0), "not JSON\n"))
        assert await client.folds(uri) == []
