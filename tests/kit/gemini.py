"""Lines of Gemini CLI, as tests make them: messages, calls, tokens and lists that replace others."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["TIME", "call", "model", "replaced", "tokens", "user"]

TIME: Final = "2026-01-15T10:01:00.000Z"
"""The time of each message."""


def user(message_id: str, text: str) -> Any:
    """Return a message of the user."""
    return {"id": message_id, "timestamp": TIME, "type": "user", "content": [{"text": text}]}


def model(message_id: str, text: str, **more: Any) -> Any:
    """Return a message of the model."""
    return {"id": message_id, "timestamp": TIME, "type": "gemini", "content": text, **more}


def call(call_id: str, output: str | None = None, status: str = "success") -> Any:
    """Return a tool call; without an output it runs or was interrupted."""
    response = {"id": call_id, "name": "ls", "response": {"output": output}}
    result = None if output is None else [{"functionResponse": response}]
    return {"id": call_id, "name": "ls", "args": {}, "status": status, "result": result}


def tokens(sent: int, got: int, cached: int = 0, thoughts: int = 0) -> Any:
    """Return the tokens of an answer."""
    total = sent + got + thoughts
    return {"input": sent, "output": got, "cached": cached, "thoughts": thoughts, "total": total}


def replaced(*messages: Any, **more: Any) -> Any:
    """Return the line that makes these messages the list."""
    return {"$set": {"messages": list(messages), **more}}
