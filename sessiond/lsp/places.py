"""Places: the line of each entry in the editor's text.

Law: an entry has no place rather than a wrong one. The id in a line gives the place, also in an
edited text. A line without an id (files of older versions, lines of some agents) is counted, and only
while the text is the beginning of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sessiond.lsp.text.lines import Index
from sessiond.lsp.text.text import Text
from sessiond_client.tree_results import TreeNode


class Row(NamedTuple):
    """An entry of the tree and its line."""

    line: int
    node: TreeNode


class Places:
    """Entries of the tree that the text has, in the order of their lines."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows: Sequence[Row] = sorted(rows, key=lambda row: row.line)
        self.nodes: Mapping[int, TreeNode] = {row.line: row.node for row in self.rows}
        """Entry of each line that has one."""
        self._lines = {row.node.id: row.line for row in self.rows}

    def line_of(self, entry_id: str) -> int | None:
        """Return the line of an entry; None if the text has none."""
        return self._lines.get(entry_id)


def line_shift(info: Mapping[str, Any]) -> int | None:
    """Return what is added to a `seq` for the line of its entry; None where nothing is known.

    A file of another agent has no header line. A rollout of Codex that was made of another one
    begins with that one's lines, which are in another file.
    """
    if info.get("read_only_reason") != "other_agent":
        return 0
    lineage: Mapping[str, Any] = info.get("lineage") or {}
    return None if lineage.get("parent_id") and not lineage.get("subagent") else -1


def find_places(
    nodes: Sequence[TreeNode], index: Index, text: Text, path: Path, shift: int | None
) -> Places:
    """Return the places of nodes in a text. Blocks: may read the file."""
    found: list[Row] = []
    without_id: list[Row] = []
    for node in nodes:
        if (line := index.line_of(node.id)) is not None:
            found.append(Row(line, node))
        elif shift is not None and node.seq is not None:
            without_id.append(Row(node.seq + shift, node))
    taken = {row.line for row in found}
    # The last line of a text is empty: the line to come, not the entry that the file has there.
    counted = [row for row in without_id if text.line(row.line).strip() and row.line not in taken]
    if counted and _is_beginning(path, text):
        found += counted
    return Places(found)


def _is_beginning(path: Path, lines: Iterable[str]) -> bool:
    """Return whether a file begins with these lines."""
    try:
        # A pipe of this name would block the thread forever.
        if not path.is_file():
            return False
        with path.open("rb") as file:
            for line in lines:
                wanted = line.encode("utf-8", "surrogatepass")
                if file.read(len(wanted)) != wanted:
                    return False
    except OSError:
        return False
    return True
