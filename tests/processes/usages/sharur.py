"""sharur as a program whose usage is walked: its messages, and its own reading of its files."""

from __future__ import annotations

from typing import Any

from tests.kit.readers.sharur import load
from tests.processes.harness.program import Seen

__all__ = ["CWD", "RESULT", "SHARUR", "USAGE"]

Json = Any
CWD = "/home/ana/shop"
STAMP = "2026-05-01T09:00:00Z"
USAGE = {"promptTokens": 90, "completionTokens": 10, "totalTokens": 100}


class Sharur:
    """sharur's messages, and its own reading of its files."""

    name = "sharur"
    unlike: frozenset[str] = frozenset()

    def see(self, data: bytes) -> Seen:
        file = load(data)
        facts: dict[str, Json] = {"thinking_level": file.thinking or "off"}
        if file.model:
            facts["model"] = {"provider": file.provider, "model_id": file.model}
        leaf = None if file.leaf == file.session_id else file.leaf
        return Seen(leaf, [self.spell(message) for message in file.llm], facts)

    def spell(self, message: Json) -> Json:
        return message["role"], message["content"]

    def user(self, text: str) -> Json:
        return {"role": "user", "content": text, "timestamp": STAMP}

    def assistant(self, text: str, /, *calls: Json) -> Json:
        """Return a message of the model, with its calls of tools."""
        called = {"toolCalls": list(calls)} if calls else {}
        return {"role": "assistant", "content": text, **called, "timestamp": STAMP}


RESULT = {"role": "tool", "timestamp": STAMP}
"""The message with a result of a tool, without its text and the id of the call."""
SHARUR = Sharur()
