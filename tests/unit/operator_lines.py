"""Lines of the operator dialect, read for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sessiond.dialects.base import ContextLine
from sessiond.dialects.operator.dialect import OPERATOR
from sessiond.session.context.context import plan_context
from sessiond.session.index import Session
from sessiond.testing.dialects import lines_of

SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "operator"


def sample(name: str) -> list[bytes]:
    return lines_of(OPERATOR, (SAMPLES / f"{name}.jsonl").read_bytes())


def replay(lines: Sequence[bytes]) -> Session:
    session = Session(OPERATOR.rules)
    for line in lines:
        session.fold(OPERATOR.row(line))
    return session


def leaf_of(session: Session) -> str | None:
    return session.id_of(session.heads["main"].leaf)


def context_at(lines: Sequence[bytes], leaf_id: str | None = None) -> list[tuple[str, Any]]:
    """Return sources and messages of the context at an entry, or at the leaf."""
    session = replay(lines)
    leaf = session.heads["main"].leaf if leaf_id is None else session.node(leaf_id)
    plan = plan_context(session, leaf)
    given = [
        ContextLine(session.names[seq], session.kinds[seq], lines[seq - 1], seq < plan.compaction)
        for seq in plan.seqs
    ]
    return [(one.source, json.loads(one.body)) for one in OPERATOR.context(given)]
