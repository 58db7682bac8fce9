"""Documents of the language server without a daemon: nodes, places and views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from sessiond.lsp.document import Document, Snapshot
from sessiond.lsp.features.desk import View
from sessiond.lsp.places import Places, Row, find_places
from sessiond.lsp.text.lines import Index
from sessiond.lsp.text.text import Encoding, Text
from sessiond_client import Client
from sessiond_client.tree_results import TreeNode

__all__ = ["UTF16", "document_of", "node", "placed", "said_line", "view_of"]

UTF16 = Encoding("utf-16-le", 2)


def node(
    entry_id: str, parent_id: str | None, seq: int, what: str = "user", **more: Any
) -> TreeNode:
    """Return a message of a role, or an entry of another type."""
    is_message = what in {"user", "assistant", "tool"}
    role = what if is_message else None
    return TreeNode(entry_id, parent_id, seq, "message" if is_message else what, role=role, **more)


def said_line(entry_id: str, role: str = "user") -> str:
    """Return the line of a message."""
    return f'{{"type":"message","id":"{entry_id}","message":{{"role":"{role}"}}}}\n'


def document_of(text: str | Sequence[str]) -> Document:
    """Return an open document with a text, or with lines."""
    return Document("file:///x.jsonl", Path("/x.jsonl"), Text(text, UTF16))


def placed(*nodes: TreeNode) -> Places:
    """Return places of nodes in a file with a header, each in the line of its seq."""
    return Places(Row(one.seq or 0, one) for one in nodes)


def view_of(text: str, nodes: Sequence[TreeNode] = (), info: Mapping[str, Any] = {}) -> View:
    """Return the view of a text that was never saved."""
    counted = Text(text, UTF16)
    places = find_places(nodes, Index(counted), counted, Path("/never.jsonl"), 0)
    named = {"id": "s1", "dialect": "native", **info}
    snapshot = Snapshot(named, list(nodes), {one.id: one for one in nodes}, [], 0)
    return View("file:///never.jsonl", cast("Client", None), snapshot, counted, places)
