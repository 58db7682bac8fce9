"""Lines of pi's dialect, read for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sessiond.dialects.base import ContextMessage
from sessiond.dialects.pi.dialect import PI
from sessiond.session.context.context import plan_context
from tests.kit.lines import context_lines, folded

LAST = object()


def context_at(lines: Sequence[bytes], leaf_id: object = LAST) -> dict[str, Any]:
    """Return the daemon's context of entry lines, with the arguments of pi's own function."""
    session = folded(PI, lines)
    leaf = session.heads["main"].leaf
    if leaf_id is None:
        leaf = 0
    elif isinstance(leaf_id, str):
        leaf = session.node(leaf_id) or session.seq
    plan = plan_context(session, leaf)
    named = PI.model(lines[plan.model - 1]) if plan.model else None
    level = PI.thinking_level(lines[plan.thinking - 1]) if plan.thinking else "off"
    found: list[ContextMessage] = PI.context(context_lines(session, plan, lines))
    return {
        "sources": [message.source for message in found],
        "messages": [json.loads(message.body) for message in found],
        "thinkingLevel": level,
        "model": named and {"provider": named.provider, "modelId": named.model_id},
    }
