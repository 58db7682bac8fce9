"""Lines of Claude Code, as tests make them: each has a number, with which its uuid ends."""

from __future__ import annotations

from typing import Any

from tests.kit.agents import claude_line
from tests.kit.sessions import tool_result

__all__ = ["assistant", "boundary", "no_message", "pin", "result", "summary"]


def assistant(number: int, above: int | None, *content: Any, answer: str = "m", **more: Any) -> Any:
    """Return a line of an answer; the lines of one answer have its id in common."""
    line = claude_line(number, above, "", "assistant", **more)
    line["message"] |= {"id": answer, "content": list(content)}
    return line


def result(
    number: int, above: int, call_id: str, said: str = "x", *beside: Any, **more: Any
) -> Any:
    """Return a line with the result of a call."""
    line = claude_line(number, above, "", **more)
    line["message"]["content"] = [tool_result(call_id, said), *beside]
    return line


def no_message(number: int, above: int | None, kind: str, **more: Any) -> Any:
    """Return a line of the tree without a message."""
    line = claude_line(number, above, "", **more)
    del line["message"]
    return line | {"type": kind}


def boundary(number: int, *kept: int, **metadata: Any) -> Any:
    """Return the boundary of a compaction, which keeps the lines with these numbers."""
    found: dict[str, Any] = {"trigger": "auto"}
    if kept:
        found["preservedMessages"] = {"uuids": [f"u-{one}" for one in kept]}
    return no_message(
        number, None, "system", subtype="compact_boundary", compactMetadata=found | metadata
    )


def summary(number: int, above: int | None) -> Any:
    """Return the summary of a compaction."""
    return claude_line(number, above, "short", isCompactSummary=True)


def pin(leaf: str | None, **more: Any) -> Any:
    """Return the line that names the leaf."""
    return {"type": "last-prompt", "lastPrompt": "x", "leafUuid": leaf, "sessionId": "s"} | more
