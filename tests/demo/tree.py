"""The tree of the demo's session, as text."""

from __future__ import annotations

from rich.console import Console

from sessiond_client import BlockingClient

PAGE = 5000


def draw(console: Console, client: BlockingClient, session_id: str) -> None:
    """Print the tree; a run of entries without a branch or label is one line."""
    nodes = []
    cursor: str | None = None
    while True:
        if cursor is None:
            page = client.tree(session_id, limit=PAGE)
        else:
            page = client.tree(session_id, limit=PAGE, cursor=cursor)
        nodes += page.nodes
        cursor = page.next_cursor
        if cursor is None:
            break
    console.print("[bold]The tree[/bold] (● on the active branch):")
    indents: dict[str | None, int] = {None: 0}
    branching = {node.id for node in nodes if (node.children or 0) > 1}
    skipped = 0
    for place, node in enumerate(nodes):
        indent = indents[node.parent_id]
        indents[node.id] = indent + (node.id in branching)
        above = nodes[place - 1] if place else None
        shown = (
            node.label
            or node.id in branching
            or not node.children
            or node.type in {"compaction", "branch_summary"}
            or above is None
            or node.parent_id in branching
        )
        if not shown:
            skipped += 1
            continue
        pad = "   " * indent
        if skipped:
            console.print(f"  {pad}┊ {skipped} entries", style="dim")
            skipped = 0
        mark = "●" if node.on_active_path else "○"
        label = f"  [{node.label}]" if node.label else ""
        preview = (node.preview or "").replace("\n", " ")[:48]
        console.print(f"  {pad}{mark} {node.type}: {preview}{label}", markup=False)
