"""Text of a hover about an entry.

Law: pure; plain text, so that no content of a message is taken for markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from msgspec import Struct

from sessiond.lsp.outline import one_line
from sessiond_client.results import Head
from sessiond_client.tree_results import TreeNode

_USAGE: Final = (
    ("input", ("input_tokens", "input", "inputTokens")),
    ("output", ("output_tokens", "output", "outputTokens")),
    ("cache read", ("cache_read_tokens", "cacheRead", "cacheReadTokens")),
    ("cache write", ("cache_write_tokens", "cacheWrite", "cacheWriteTokens")),
    ("total", ("total_tokens", "totalTokens")),
)


class Entry(Struct, frozen=True):
    """The daemon's data of one entry; `node` is None for a record, and beyond OUTLINE_NODES_MAX."""

    wire: Mapping[str, Any]
    seq: int
    line: int | None
    children: int | None = None
    label: str | None = None
    node: TreeNode | None = None


def describe(entry: Entry, heads: Iterable[Head]) -> str:
    """Return the facts of an entry one per line, and the first words of its text last."""
    wire, node = entry.wire, entry.node
    facts = [
        ("id", wire.get("id")),
        ("parent", wire.get("parent_id")),
        ("target", wire.get("target_id")),
        ("keeps from", wire.get("first_kept_entry_id")),
        ("written", wire.get("timestamp")),
        ("line", None if entry.line is None else entry.line + 1),
        ("seq", entry.seq),
        ("depth", None if node is None else node.depth),
        ("children", entry.children),
        ("label", entry.label),
        ("heads here", ", ".join(h.name for h in heads if h.leaf_id == wire.get("id")) or None),
        ("active path", None if node is None else "yes" if node.on_active_path else "no"),
        ("tokens", ", ".join(f"{word} {count:,}" for word, count in usage(wire).items()) or None),
    ]
    rows = [
        _title(wire),
        *(f"{name}: {_said(value)}" for name, value in facts if value is not None),
    ]
    if node is not None and node.preview:
        rows += ["", one_line(node.preview)]
    return "\n".join(rows)


def describe_header(info: Mapping[str, Any]) -> str:
    """Return the facts of the first line: the session as a whole."""
    names = ("id", "dialect", "cwd", "title", "agent", "model", "status", "created_at")
    more = ("updated_at", "seq", "leaf_id", "message_count", "problems", "read_only")
    rows = [f"{name}: {_said(info[name])}" for name in names + more if info.get(name) is not None]
    return "\n".join(["session", *rows])


def _said(value: object) -> str:
    return one_line(str(value))


def _title(wire: Mapping[str, Any]) -> str:
    message = _members(wire.get("message"))
    role = message.get("role") or wire.get("custom_type")
    title = f"{_said(wire.get('type'))}, {_said(role)}" if role else _said(wire.get("type"))
    model = message.get("model") or wire.get("model_id")
    return f"{title} ({_said(model)})" if isinstance(model, str) else title


def usage(wire: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the tokens that an entry states, by the word for each."""
    stated = _members(_members(wire.get("message")).get("usage") or wire.get("usage"))
    found: dict[str, int] = {}
    for word, spellings in _USAGE:
        count = next((stated[name] for name in spellings if name in stated), None)
        if isinstance(count, int):
            found[word] = count
    for word in ("before", "after"):
        if isinstance(count := wire.get(f"tokens_{word}"), int):
            found[word] = count
    return found


def _members(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
