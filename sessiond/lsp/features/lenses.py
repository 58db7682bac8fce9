"""Code lenses: the commands of each entry, above its line.

Law: pure but for `answer`. An editor asks for the lenses of the whole text at once, so the last
LENS_ENTRIES_MAX entries have lenses; code actions offer the commands of every entry.
"""

from __future__ import annotations

from anyio import to_thread
from lsprotocol import types

from sessiond.limits import LENS_ENTRIES_MAX
from sessiond.lsp.features.desk import Desk, View
from sessiond.lsp.features.offers import commands_of, first_compactable


async def answer(desk: Desk, params: types.CodeLensParams) -> list[types.CodeLens] | None:
    """Return the lenses of a document."""
    view = await desk.view(params.text_document.uri)
    return None if view is None else await to_thread.run_sync(lenses, view)


def lenses(view: View) -> list[types.CodeLens]:
    """Return the lenses of the last entries, in the order of their lines."""
    compactable = first_compactable(view)
    return [
        types.CodeLens(_at(row.line), command)
        for row in view.places.rows[-LENS_ENTRIES_MAX:]
        for command in commands_of(view, row, compactable)
    ]


def _at(line: int) -> types.Range:
    return types.Range(types.Position(line, 0), types.Position(line, 0))
