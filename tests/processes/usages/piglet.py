"""piglet as a program whose usage is walked: its messages, and its own reading of its files."""

from __future__ import annotations

from typing import Any

from tests.kit.readers.piglet import PigletFile
from tests.processes.harness.program import Seen

__all__ = ["CWD", "PIGLET", "STAMP"]

Json = Any
CWD = "/home/ana/shop"
STAMP = "2026-04-24T10:00:02.104233817-04:00"
USAGE = {
    "inputTokens": 900,
    "outputTokens": 60,
    "cacheReadTokens": 0,
    "cacheWriteTokens": 0,
    "cost": 0.25,
}


class Piglet:
    """piglet's messages, and its own reading of its files."""

    name = "piglet"
    # A summary of a branch is told to a model by native files alone.
    unlike: frozenset[str] = frozenset({"branch_summary"})

    def see(self, data: bytes) -> Seen:
        file = PigletFile(data)
        assert file.skipped == 0
        facts = {"labels": file.set_labels(), "title": file.title or None}
        return Seen(file.leaf or None, file.messages(), facts)

    def spell(self, message: Json) -> Json:
        return message

    def user(self, text: str) -> Json:
        return {"role": "user", "content": text, "timestamp": STAMP}

    def assistant(self, *content: Json, stopped: str = "stop") -> Json:
        """Return a message of the model, with its usage; a string in it is a text."""
        made_by = {"model": "claude-opus-4-6", "provider": "anthropic", "usage": USAGE}
        end = {"stopReason": stopped, "timestamp": STAMP}
        blocks = [{"text": one} if isinstance(one, str) else one for one in content]
        return {"role": "assistant", "content": blocks, **made_by, **end}


PIGLET = Piglet()
