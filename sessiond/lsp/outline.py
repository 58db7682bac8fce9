"""Outline of a session for a reader of the file: by turns, not by parents.

Law: pure. A tree may be thousands deep and an outline must not be, so an outline has at most three
levels: the branch; the turn, which a user message, a compaction or a branch summary begins; and the
entries of that turn. The branch of `main` comes first and has no level of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from sessiond.limits import OUTLINE_SYMBOLS_MAX
from sessiond.lsp.places import Places
from sessiond.lsp.text.lines import Index
from sessiond.visible import counted
from sessiond_client.tree_results import TreeNode

OPENERS: Final = frozenset({"compaction", "branch_summary"})
"""Types of entries that begin a turn, as a message of the user does."""
_SETTINGS: Final = frozenset({"model_change", "thinking_level_change"})


class SymbolType(Enum):
    """Kinds of symbols; an editor shows each with its own icon."""

    HEADER = auto()
    BRANCH = auto()
    USER = auto()
    ANSWER = auto()
    TOOL = auto()
    COMPACTION = auto()
    SUMMARY = auto()
    SETTING = auto()
    OTHER = auto()
    REST = auto()


class Symbol(Struct):
    """A row of the outline; `line` and `last_line` are lines of the editor's text."""

    name: str
    detail: str
    type: SymbolType
    line: int
    last_line: int
    children: list[Symbol]


def outline(
    title: str, nodes: Sequence[TreeNode], index: Index, places: Places, *, more: int = 0
) -> list[Symbol]:
    """Return the header and the turns of `nodes`, given in pre-order.

    `more` nodes are not given.
    """
    shown: list[tuple[int, TreeNode]] = []
    left_out = more
    for node in nodes:
        line = places.line_of(node.id)
        if line is None:
            # The entry was stored after the editor read the file, so the text has no line for it.
            continue
        if len(shown) < OUTLINE_SYMBOLS_MAX:
            shown.append((line, node))
        else:
            left_out += 1
    symbols = [_symbol(one_line(title) or "session", "session", SymbolType.HEADER, 0)]
    for number, chain in enumerate(_chains(shown)):
        turns = _turns(chain, index)
        symbols += turns if number == 0 else [_branch(turns)]
    if left_out:
        verb = "is" if left_out == 1 else "are"
        text = f"… {counted(left_out, 'more entry')} {verb} not in this outline"
        at = max(line for line, _ in shown) if shown else 0
        symbols.append(_symbol(text, "", SymbolType.REST, at))
    return symbols


def one_line(text: str) -> str:
    """Return the text without control characters and marks of direction."""
    return "".join(char if char.isprintable() else " " for char in text).strip()


def _chains(
    shown: Iterable[tuple[int, TreeNode]],
) -> Iterator[list[tuple[int, TreeNode]]]:
    """Yield chains of a pre-order, each from the first entry of a branch to a leaf."""
    chain: list[tuple[int, TreeNode]] = []
    for line, node in shown:
        if chain and node.below_id != chain[-1][1].id:
            yield chain
            chain = []
        chain.append((line, node))
    if chain:
        yield chain


def _turns(chain: Iterable[tuple[int, TreeNode]], index: Index) -> list[Symbol]:
    turns: list[Symbol] = []
    opened: Symbol | None = None
    for line, node in chain:
        # A summary may be stored as a message of the user.
        role = (index.roles.get(line) or node.role) if node.type == "message" else None
        symbol = _symbol(_name(node, role), _detail(node, role), _type(node, role), line)
        if role == "user" or node.type in OPENERS:
            opened = symbol
            turns.append(symbol)
        elif opened is None:
            turns.append(symbol)
        else:
            opened.children.append(symbol)
            opened.last_line = max(opened.last_line, line)
    return turns


def _branch(turns: list[Symbol]) -> Symbol:
    first = turns[0]
    last_line = max(turn.last_line for turn in turns)
    name = f"branch at line {first.line + 1}: {first.name}"
    return Symbol(name, "branch", SymbolType.BRANCH, first.line, last_line, turns)


def _symbol(name: str, detail: str, kind: SymbolType, line: int) -> Symbol:
    return Symbol(name, detail, kind, line, line, [])


def _name(node: TreeNode, role: str | None) -> str:
    said = one_line(node.preview or "") or f"[{one_line(role or node.type)}]"
    return f"{said}  #{one_line(node.label)}" if node.label else said


def _detail(node: TreeNode, role: str | None) -> str:
    return one_line(role or node.type)


def _type(node: TreeNode, role: str | None) -> SymbolType:
    if node.type == "compaction":
        return SymbolType.COMPACTION
    if node.type == "branch_summary":
        return SymbolType.SUMMARY
    if node.type in _SETTINGS:
        return SymbolType.SETTING
    if role == "user":
        return SymbolType.USER
    if role == "assistant":
        return SymbolType.ANSWER
    if role is not None and node.type == "message":
        return SymbolType.TOOL
    return SymbolType.OTHER
