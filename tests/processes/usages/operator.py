"""Operator as a program whose usage is walked: its messages, and its own reading of its files."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from tests.kit.readers.operator import OperatorReader
from tests.processes.harness.program import Seen

__all__ = ["ANSWERED", "CWD", "OPERATOR", "READ", "USAGE", "block", "said"]

Json = Any
CWD = "/home/ana/shop"


class Operator:
    """Operator's messages, and its own reading of its files."""

    name = "operator"
    unlike: frozenset[str] = frozenset()

    def see(self, data: bytes) -> Seen:
        reader = OperatorReader(data)
        level, model = reader.settings()
        facts = {"labels": reader.labels, "thinking_level": level, "model": model}
        context = [(role, contents) for _, role, contents in reader.context()]
        return Seen(reader.leaf_id, context, facts)

    def spell(self, message: Json) -> Json:
        return message["role"], message["contents"]

    def user(self, text: str) -> Json:
        return said("user", block(text))

    def assistant(self, text: str) -> Json:
        return said("assistant", block(text), **ANSWERED)


def block(content: str, kind: str = "text", **more: Json) -> Json:
    """Return a block of a message, which is a text unless `kind` says otherwise."""
    return {"type": kind, "content": content, **more}


def said(role: str, *contents: Json, **more: Json) -> Json:
    """Return a message of any role."""
    place = {"id": str(uuid4()), "timestamp": 1784000000.25, "role": role}
    return {"contents": list(contents), **place, **more}


USAGE = {"input_tokens": 100, "output_tokens": 10, "cache_read_tokens": 0, "cache_write_tokens": 0}
ANSWERED = {"usage": USAGE, "stop_reason": "stop", "error": ""}
READ = {"type": "tool_call", "name": "read", "kind": "read"}
"""A call that reads a file, without its id and its arguments."""
OPERATOR = Operator()
