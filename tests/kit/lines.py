"""Lines of session files, and what dialects make of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sessiond.dialects.base import ContextLine, Dialect
from sessiond.model.parsed_message import ParsedMessage
from sessiond.session.context.context import ContextPlan
from sessiond.session.index import Session

__all__ = ["context_lines", "folded", "lines_in", "parsed", "spelled"]


def spelled(*lines: Any) -> list[bytes]:
    """Return values as the lines of a file."""
    return [json.dumps(line).encode() for line in lines]


def lines_in(folder: Path, end: str = "") -> list[bytes]:
    """Return the whole lines of a file, or of the only file in a folder whose name has this end."""
    (path,) = folder.glob(f"*{end}.jsonl") if end else [folder]
    return path.read_bytes().split(b"\n")[:-1]


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
