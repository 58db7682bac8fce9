"""Messages of a context as a view shows them to a provider."""

from __future__ import annotations

import json
from typing import Any

from sessiond.dialects.native.dialect import NATIVE
from sessiond.session.providers.shapes import NOTHING, View, show
from sessiond.session.providers.tool_pairing import ContextMessage
from tests.kit.lines import parsed

__all__ = ["in_context", "viewed"]


def in_context(message: dict[str, Any], source: str = "e1", place: int = 0) -> ContextMessage:
    """Return a message as a context has it: with its entry, and with its place in the context."""
    return ContextMessage(source, json.dumps(message).encode(), parsed(NATIVE, message), place)


def viewed(view: View, *messages: dict[str, Any]) -> list[Any]:
    """Return what a view makes of messages, the entries of which are e0, e1 and so on."""
    told = [in_context(one, f"e{place}", place) for place, one in enumerate(messages)]
    part = show(view, told, NOTHING)
    assert part is not None
    return [json.loads(body) for _, body in (*part.settled, *part.rest)]
