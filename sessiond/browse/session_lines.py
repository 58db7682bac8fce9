"""Lines of sessions, for the list, the forest and the choice of a session."""

from __future__ import annotations

from pathlib import Path

from sessiond.browse.rows import Line, Part
from sessiond.browse.words import clock, line_of, short_id
from sessiond_client.generated.results import ForestNode, SessionInfo


def name_of(session: SessionInfo) -> str:
    """Return the title of a session, else the first words, else the id."""
    words = session.title or session.first_message
    return line_of(words) if words and words.strip() else short_id(session.id)


def list_line(session: SessionInfo, *, with_folder: bool) -> Line:
    """Return the line of a session in a list."""
    state = session.running or session.status or ""
    left = [
        Part(f" {clock(session.updated_at):16}  ", "cyan"),
        Part(f"{line_of(state, 8):8}  ", "yellow" if state in {"active", "busy"} else ""),
        Part(_messages(session)),
        Part("[archived] " if session.archived else "", "yellow"),
        Part(name_of(session)),
    ]
    right = [Part(f"{short_id(session.id)} ", "cyan")]
    if with_folder:
        right.insert(0, Part(f"{_folder(session.cwd)}  "))
    return Line(left, right)


def forest_line(node: ForestNode) -> Line:
    """Return the line of a session in the forest."""
    columns = ["    "] * (node.indent or 0)
    for gutter in node.gutters or ():
        if gutter.get("show"):
            columns[gutter["position"]] = "│   "
    if node.connector:
        columns[-1] = "└── " if node.last else "├── "
    left = [
        Part(f" {''.join(columns)}"),
        Part(line_of(node.title or node.first_message or "") or short_id(node.session_id)),
        Part(" [archived]" if node.archived else "", "yellow"),
        Part(" (its parent is not listed)" if node.orphan else "", "yellow"),
    ]
    right = [
        Part(_messages(node)),
        Part(f"{clock(node.updated_at)}  ", "cyan"),
        Part(f"{short_id(node.session_id)} ", "cyan"),
    ]
    return Line(left, right)


def _messages(session: SessionInfo | ForestNode) -> str:
    """Return the number of messages; where only a part of the file was read, there are at least so many."""
    return f"{session.message_count or 0:>5}{'+' if session.partial else ' '} "


def _folder(path: str | None) -> str:
    name = Path(path or "").name or path or ""
    return line_of(name, 24)
