"""The assignment of lines of the file to requests."""

from __future__ import annotations

from typing import Final

from tests.torture.records import Act
from tests.torture.replay import Row

__all__ = ["is_of", "marks_of"]

_REASONS: Final = {
    "session/branch": "branch",
    "session/reset": "reset",
    "session/rewind": "rewind",
}


def marks_of(act: Act) -> list[str]:
    """Return the marks of the entries that an act stores; none for a move without a summary."""
    params = act.params
    match act.method:
        case "session/append":
            return [sent.mark for sent in act.entries]
        case "session/update":
            return [params["title"]]
        case "session/label":
            return [params["label"]] if params["label"] else []
        case _:
            return [params["details"]["mark"]] if "details" in params else []


def is_of(row: Row, act: Act) -> bool:
    """Return whether an act may have made a row without a mark."""
    params = act.params
    if act.method == "session/label":
        named = (row.text("target_id"), row.text("label"))
        return row.type == "label" and named == (params["entry_id"], params["label"])
    if act.method not in _REASONS or row.type != "leaf" or "summary" in params:
        return False
    if row.head != params.get("head", "main"):
        return False
    if params.get("drop"):
        return bool(row.text("reason") == "drop")
    moved = (_REASONS[act.method], params.get("entry_id", params.get("to")))
    return (row.text("reason"), row.text("target_id")) == moved
