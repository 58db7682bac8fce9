"""Columns of an index: extended by chains of messages, and kept and restored as plain values.

Law: what `fold_lines` makes of messages is what `Session.fold` makes of them one by one. A chain is
a row of messages on one head, each below the one before, so that each column grows once.

Law: what `restore` makes of `columns_of` is what replay makes of the lines. Columns are the bytes of
the arrays in memory, so that a restore costs no step per entry in Python.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from msgspec import Raw, Struct

from sessiond.model.message_lines import MessageLines
from sessiond.model.problems import Problem
from sessiond.model.row import Kind, ModelName
from sessiond.model.usage import Usage
from sessiond.model.working.state import WorkingState
from sessiond.session.index import Head, LabelState, Session

_ASSISTANT: Final = int(Kind.ASSISTANT)
_ZERO: Final = array("i", (0,))

_ARRAYS: Final = (
    "parents",
    "depths",
    "compaction_refs",
    "model_refs",
    "thinking_refs",
    "setting_refs",
    "message_counts",
    "turn_counts",
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
    "annotations",
    "fact_seqs",
    "message_total",
    "skipped",
    "has_assistant",
    "usage",
    "first_message",
    "started_at",
    "problems",
    "problem_count",
    "read_only_line",
    "updated_at",
    "state",
)


def fold_lines(session: Session, lines: MessageLines) -> None:
    """Index messages of consecutive lines."""
    for first, end in lines.chains():
        # The first line of a chain may stand anywhere, and its id may be known.
        session.fold(lines.row(first))
        if first + 1 < end and not _fold_below(session, lines, first + 1, end):
            for at in range(first + 1, end):
                session.fold(lines.row(at))


def _fold_below(session: Session, lines: MessageLines, first: int, end: int) -> bool:
    """Index the lines from `first` up to `end` below the last line; False if an id is known."""
    part, count, above = slice(first, end), end - first, session.seq
    ids, kinds = lines.ids[part], lines.kinds[part]
    if not _give_seqs(session, ids):
        return False
    session.names += ids
    session.kinds += kinds
    session.parents.extend(_ascending(above, count))
    depth, messages = session.depths[above], session.message_counts[above]
    depths = _ascending(depth + 1, count)
    session.depths.extend(depths)
    counts = depths if messages == depth else _ascending(messages + 1, count)
    session.message_counts.extend(counts)
    for column in (session.compaction_refs, session.thinking_refs):
        column.extend(column[above:] * count)
    session.extend_turns(kinds)
    _extend_models(session, None if lines.models is None else lines.models[part], count)
    session.message_total += count
    session.heads[lines.head(first)] = Head(session.seq, session.seq)
    session.take_times(lines.times[part])
    if _ASSISTANT in kinds:
        session.has_assistant = True
        for usage in filter(None, lines.usages[part] if lines.usages else ()):
            session.take_answer(usage)
    return True


def _give_seqs(session: Session, ids: Sequence[str]) -> bool:
    """Give the ids the next seqs; give none and return False if an id is known or comes twice."""
    known, first = len(session.ids), session.seq + 1
    # `all` goes through them all, since no id has the seq 0.
    all(map(session.ids.setdefault, ids, range(first, first + len(ids))))
    if len(session.ids) == known + len(ids):
        return True
    for entry_id in ids:
        if session.ids.get(entry_id, 0) >= first:
            del session.ids[entry_id]
    return False


def _extend_models(session: Session, models: Sequence[ModelName | None] | None, count: int) -> None:
    """Extend the columns of models and settings by a chain of messages."""
    refs = session.model_refs
    if models is None:
        refs.extend(refs[-1:] * count)
        session.setting_refs.extend(_ZERO * count)
        return
    # The model of a message is its own, or that of its parent.
    at, named, setting = refs[-1], None, 0
    own: list[int] = []
    settings: list[int] = []
    for seq, model in enumerate(models, len(refs)):
        if model is None:
            settings.append(0)
        else:
            if model is not named:
                named = model
                setting = session.setting_ids.setdefault(model, len(session.settings))
                if setting == len(session.settings):
                    session.settings.append(model)
            at = seq
            settings.append(setting)
        own.append(at)
    refs.extend(array("i", own))
    session.setting_refs.extend(array("i", settings))


def _ascending(first: int, count: int) -> array[int]:
    """Return a column of the numbers from `first` on."""
    # An array takes a list in a fifth of the time of a range.
    return array("i", list(range(first, first + count)))


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
    annotations: dict[int, list[int]]
    facts: dict[str, str | bool | list[str] | None]
    raw_facts: dict[str, bytes]
    """The facts that are JSON, as they were sent."""
    fact_seqs: dict[str, int]
    message_total: int
    skipped: int
    has_assistant: bool
    usage: Usage | None
    first_message: str | None
    started_at: str
    problems: list[Problem]
    problem_count: int
    read_only_line: int | None
    updated_at: str
    state: WorkingState


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
    session.ids = _seqs(columns.names)


def tree_before(session: Session, seq: int, heads: Mapping[str, Head]) -> Session:
    """Return an index of the tree as it was before a line, where the heads were these, and of nothing else."""
    made = Session(session.rules)
    for name in ("names", "kinds", *_ARRAYS):
        setattr(made, name, getattr(session, name)[:seq])
    made.ids, made.heads = _seqs(made.names), dict(heads)
    return made


def _seqs(names: Sequence[str]) -> dict[str, int]:
    """Return the line of each name, where a later line takes the place of an earlier one."""
    found = dict(zip(names, count(), strict=False))
    # The header and lines that are no entries have an empty name, and no entry has.
    del found[""]
    return found


def _array(column: bytes) -> array[int]:
    made = array("i")
    made.frombytes(column)
    return made
