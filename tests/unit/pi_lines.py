"""Lines of pi's dialect, read for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sessiond.dialects.base import ContextLine, ContextMessage
from sessiond.dialects.pi.dialect import PI
from sessiond.session.context.context import plan_context
from sessiond.session.index import Session
from sessiond.testing.dialects import lines_of

SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "pi"
LAST = object()


def sample(name: str) -> list[bytes]:
    return lines_of(PI, (SAMPLES / f"{name}.jsonl").read_bytes())


def replay(lines: Sequence[bytes]) -> Session:
    session = Session(PI.rules)
    for line in lines:
        session.fold(PI.row(line))
    return session


def context_at(lines: Sequence[bytes], leaf_id: object = LAST) -> dict[str, Any]:
    """Return the daemon's context of entry lines, with the arguments of pi's own function."""
    session = replay(lines)
    leaf = session.heads["main"].leaf
    if leaf_id is None:
        leaf = 0
    elif isinstance(leaf_id, str):
        leaf = session.node(leaf_id) or session.seq
    plan = plan_context(session, leaf)
    given = [
        ContextLine(session.names[seq], session.kinds[seq], lines[seq - 1], seq < plan.compaction)
        for seq in plan.seqs
    ]
    named = PI.model(lines[plan.model - 1]) if plan.model else None
    level = PI.thinking_level(lines[plan.thinking - 1]) if plan.thinking else "off"
    found: list[ContextMessage] = PI.context(given)
    return {
        "sources": [message.source for message in found],
        "messages": [json.loads(message.body) for message in found],
        "thinkingLevel": level,
        "model": named and {"provider": named.provider, "modelId": named.model_id},
    }
