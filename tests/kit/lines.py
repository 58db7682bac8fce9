"""Lines of session files, and what dialects make of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st
from msgspec import Raw

from sessiond.dialects.base import ContextLine, Dialect
from sessiond.model.parsed_message import ParsedMessage
from sessiond.service.log.indexer import Indexer
from sessiond.session.context.context import ContextPlan, plan_context
from sessiond.session.index import Session
from sessiond.testing.dialects import lines_of
from tests.kit.sessions import SESSION, stored_entry

__all__ = [
    "JSON",
    "SAMPLES",
    "Atom",
    "atom_line",
    "context_at",
    "context_lines",
    "folded",
    "indexer_of",
    "leaf_of",
    "line_of",
    "lines_in",
    "parsed",
    "pi_vectors",
    "sample",
    "spelled",
    "state_of",
]

SAMPLES: Final = Path(__file__).resolve().parents[1] / "samples"
"""The folder of the files that real programs wrote, with one folder for each dialect."""


Atom = tuple[int, int]

JSON: Final[st.SearchStrategy[Any]] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
"""Any value that JSON can hold."""


def line_of(**members: Any) -> bytes:
    """Return the line of an entry; its id is e1 unless `members` say otherwise."""
    return json.dumps({"id": "e1", **members}, separators=(",", ":")).encode()


def spelled(*lines: Any) -> list[bytes]:
    """Return values as the lines of a file."""
    return [json.dumps(line).encode() for line in lines]


def atom_line(entry_id: str, atom: Atom | None = None, atom_of: str = SESSION) -> bytes:
    """Return the line of a message, which may be one of several of one append: its number, and theirs."""
    line = stored_entry("message", entry_id, None, message={"role": "user"})
    append = {} if atom is None else {"atom": atom, "atom_of": atom_of}
    return json.dumps(line | append, separators=(",", ":")).encode()


def lines_in(folder: Path, end: str = "") -> list[bytes]:
    """Return the whole lines of a file, or of the only file in a folder whose name has this end."""
    (path,) = folder.glob(f"*{end}.jsonl") if end else [folder]
    return path.read_bytes().split(b"\n")[:-1]


def sample(dialect: Dialect, name: str) -> list[bytes]:
    """Return the lines of a sample of a dialect."""
    return lines_of(dialect, (SAMPLES / dialect.name / f"{name}.jsonl").read_bytes())


def pi_vectors(shared: Path, function: str, count: int = 1) -> list[dict[str, Any]]:
    """Return what pi's own functions gave for their inputs, of one function.

    There must be no less of them than `count`.
    """
    every = json.loads((shared / "vectors" / "pi-vectors.json").read_bytes())
    found = [vector for vector in every if vector["function"] == function]
    assert len(found) >= count
    return found


def parsed(dialect: Dialect, message: Any) -> ParsedMessage:
    """Return a message as a dialect reads it; fail if the dialect reads none."""
    found = dialect.read(json.dumps(message).encode())
    assert found is not None
    return found


def folded(dialect: Dialect, lines: Iterable[bytes]) -> Session:
    """Return the session of the lines of entries."""
    session = Session(dialect.rules)
    for line in lines:
        session.fold(dialect.row(line))
    return session


def leaf_of(session: Session) -> str | None:
    """Return the id of the leaf of main."""
    return session.id_of(session.heads["main"].leaf)


def state_of(session: Session, *left_out: str) -> dict[str, Any]:
    """Return all that a session knows but for some of its fields, in a form that can be compared."""
    known = {name: getattr(session, name) for name in Session.__slots__ if name not in left_out}
    facts = {
        name: bytes(value) if isinstance(value, Raw) else value
        for name, value in session.facts.items()
    }
    return known | {"facts": facts}


def indexer_of(lines: Iterable[bytes], path: Path = Path("/x/file.jsonl")) -> Indexer:
    """Return the indexer of a file with these lines, header first."""
    indexer = Indexer(path)
    for seq, line in enumerate(lines):
        indexer.visit(seq, line)
    return indexer


def context_at(
    dialect: Dialect, lines: Sequence[bytes], leaf_id: str | None = None
) -> list[tuple[str, Any]]:
    """Return sources and messages of the context of entries, at an entry or at the leaf."""
    session = folded(dialect, lines)
    leaf = session.heads["main"].leaf if leaf_id is None else session.node(leaf_id)
    given = context_lines(session, plan_context(session, leaf), lines)
    return [(one.source, json.loads(one.body)) for one in dialect.context(given)]


def context_lines(
    session: Session, plan: ContextPlan, lines: Sequence[bytes], first: int = 1
) -> list[ContextLine]:
    """Return the lines of a context as a dialect takes them; `lines` begin with the seq `first`."""
    return [
        ContextLine(
            session.names[seq], session.kinds[seq], lines[seq - first], seq < plan.compaction
        )
        for seq in plan.seqs
    ]
