"""Offers: the commands that fit an entry, for lenses and code actions.

Law: pure. A session that cannot be changed is offered what reads, and nothing else. A compaction is
offered where the daemon would accept one: on the path of `main`, behind the last compaction, and
not at the result of a tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lsprotocol import types

from sessiond.lsp.features.desk import View
from sessiond.lsp.outline import one_line
from sessiond.lsp.places import Row

BRANCH: Final = "sessiond.branch"
LABEL: Final = "sessiond.label"
CONTEXT: Final = "sessiond.context"
COMPACT: Final = "sessiond.compact"
REPAIR: Final = "sessiond.repair"

_CUT_AT: Final = frozenset({"user", "assistant"})


def commands_of(view: View, row: Row, compactable: int) -> Iterator[types.Command]:
    """Yield the commands for an entry; `compactable` is the result of `first_compactable`."""
    arguments = [view.uri, row.node.id]
    label = row.node.label
    if view.is_writable:
        yield types.Command("branch here", BRANCH, arguments=arguments)
        shown = f"label: {one_line(label)}" if label else "label"
        yield types.Command(shown, LABEL, arguments=arguments)
    yield types.Command("context from here", CONTEXT, arguments=arguments)
    is_cut = row.node.on_active_path and row.node.role in _CUT_AT and row.line >= compactable
    if view.is_writable and is_cut:
        yield types.Command("compact up to here", COMPACT, arguments=arguments)


def first_compactable(view: View) -> int:
    """Return the first line at which a compaction of `main` may cut.

    Something must stand before the cut, and no compaction behind the cut.
    """
    path = [row for row in view.places.rows if row.node.on_active_path]
    at = next((row.line for row in reversed(path) if row.node.type == "compaction"), -1)
    said = [row.line for row in path if row.line > at and row.node.role in _CUT_AT]
    # Right behind a compaction, a cut would summarise what that compaction kept.
    return said[1] if len(said) > 1 else len(view.text)
