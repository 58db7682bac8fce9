"""Index of a session as plain values, to be kept and restored.

Law: what `restore` makes of `columns_of` is what replay makes of the lines. Columns are the bytes of
the arrays in memory, so that a restore costs no step per entry in Python.
"""

from __future__ import annotations

from array import array
from itertools import count
from typing import Any, Final

from msgspec import Raw, Struct

from sessiond.model.problems import Problem
from sessiond.model.row import ModelName
from sessiond.model.usage import Usage
from sessiond.session.index import Head, LabelState, Session

__all__ = ["Columns", "columns_of", "restore"]

_ARRAYS: Final = (
    "parents",
    "depths",
    "compaction_refs",
    "model_refs",
    "thinking_refs",
    "setting_refs",
    "message_counts",
)
_PLAIN: Final = (
    "names",
    "settings",
    "same_ids",
    "rerouted",
    "kept_from",
    "heads",
    "labels",
    "label_states",
    "fact_seqs",
    "message_total",
    "skipped",
    "has_assistant",
    "usage",
    "first_message",
    "problems",
    "problem_count",
    "read_only_line",
    "updated_at",
)


class Columns(Struct):
    """Index of a session, with arrays as bytes in the machine's own order."""

    kinds: bytes
    arrays: dict[str, bytes]
    names: list[str]
    settings: list[ModelName | str | None]
    same_ids: dict[str, list[int]]
    rerouted: set[int]
    kept_from: dict[int, int]
    heads: dict[str, Head]
    labels: dict[int, LabelState]
    label_states: dict[int, list[LabelState]]
    facts: dict[str, str | bool | list[str] | None]
    raw_facts: dict[str, bytes]
    """The facts that are JSON, as they were sent."""
    fact_seqs: dict[str, int]
    message_total: int
    skipped: int
    has_assistant: bool
    usage: Usage | None
    first_message: str | None
    problems: list[Problem]
    problem_count: int
    read_only_line: int | None
    updated_at: str


def columns_of(session: Session) -> Columns:
    """Return the index as plain values."""
    raw = {name: bytes(value) for name, value in session.facts.items() if isinstance(value, Raw)}
    return Columns(
        kinds=bytes(session.kinds),
        arrays={name: getattr(session, name).tobytes() for name in _ARRAYS},
        facts={name: value for name, value in session.facts.items() if name not in raw},
        raw_facts=raw,
        **{name: getattr(session, name) for name in _PLAIN},
    )


def restore(session: Session, columns: Columns) -> None:
    """Make an empty index the one that the columns were taken of. Raises ValueError if they disagree."""
    lines = len(columns.kinds)
    arrays = {name: _array(columns.arrays.get(name, b"")) for name in _ARRAYS}
    if not lines or {lines} != {len(columns.names), *map(len, arrays.values())}:
        raise ValueError("columns of different lengths")
    values: dict[str, Any] = {name: getattr(columns, name) for name in _PLAIN} | arrays
    for name, value in values.items():
        setattr(session, name, value)
    session.kinds = bytearray(columns.kinds)
    session.facts = {**columns.facts}
    session.facts |= {name: Raw(value) for name, value in columns.raw_facts.items()}
    session.setting_ids = {setting: at for at, setting in enumerate(columns.settings)}
    # A later entry of the same id replaces an earlier one, as in `fold`.
    session.ids = dict(zip(columns.names, count(), strict=False))
    _drop_lines_without_id(session)


def _array(column: bytes) -> array[int]:
    made = array("i")
    made.frombytes(column)
    return made


def _drop_lines_without_id(session: Session) -> None:
    """Drop the empty name of the header and of lines that are no entries."""
    del session.ids[""]
    at = len(session.names) - 1
    if session.names.count("") > session.skipped + 1:
        # A foreign entry may have an empty id.
        while session.names[at] or not session.is_entry(at):
            at -= 1
        session.ids[""] = at
