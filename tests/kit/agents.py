"""Files of other agents, as tests make them, and what their copies say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sessiond.testing.wire import Wire

SAMPLES = Path(__file__).resolve().parent.parent / "other_agents"
CODEX = SAMPLES / "codex" / "sessions" / "2026" / "11" / "02"
CHATS = SAMPLES / "gemini" / "tmp" / "notes" / "chats"


def write_lines(path: Path, lines: Sequence[Any], tail: bytes = b"") -> Path:
    """Write a file of JSON lines; a line that is bytes is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    spelled = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
    path.write_bytes(b"".join(one + b"\n" for one in spelled) + tail)
    return path


def read_lines(path: Path) -> list[Any]:
    """Return the whole lines of a file, decoded."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def claude_line(number: int, above: int | None, text: Any, role: str = "user", **more: Any) -> Any:
    """Return a message as Claude Code writes it; its uuid ends in the number."""
    message: dict[str, Any] = {"role": role, "content": text}
    if role == "assistant":
        message |= {
            "id": f"msg_{number}",
            "model": "m-1",
            "content": [{"type": "text", "text": text}],
        }
    return {
        "parentUuid": None if above is None else f"u-{above}",
        "isSidechain": False,
        "type": role,
        "uuid": f"u-{number}",
        "timestamp": f"2026-01-15T10:{number // 60:02}:{number % 60:02}.000Z",
        "cwd": "/p",
        "sessionId": "5e55a1d0-0000-4000-8000-0000000000aa",
        "version": "2.1.330",
        "message": message,
    } | more


def codex_line(kind: str, minute: int = 0, **payload: Any) -> Any:
    """Return a line of a rollout."""
    return {"timestamp": f"2026-01-15T10:{minute:02}:00.000Z", "type": kind, "payload": payload}


def codex_event(kind: str, **more: Any) -> Any:
    """Return an event of a rollout."""
    return codex_line("event_msg", type=kind, **more)


def codex_item(kind: str, **more: Any) -> Any:
    """Return an item of a rollout."""
    return codex_line("response_item", type=kind, **more)


def codex_said(text: str, role: str = "user") -> Any:
    """Return an item with a message."""
    kind = "input_text" if role == "user" else "output_text"
    return codex_line(
        "response_item", type="message", role=role, content=[{"type": kind, "text": text}]
    )


def codex_asked(text: str) -> list[Any]:
    """Return the lines of a user's prompt."""
    return [codex_said(text), codex_event("user_message", message=text)]


def codex_turn(number: int, text: str, answer: str) -> list[Any]:
    """Return the lines of a turn that marks its beginning."""
    start = codex_event("task_started", turn_id=f"t{number}")
    return [start, *codex_asked(text), codex_said(answer, "assistant")]


def codex_tokens(total: int, *, sent: int, got: int) -> Any:
    """Return a count of tokens."""
    last = {"input_tokens": sent, "output_tokens": got, "total_tokens": sent + got}
    info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": last}
    return codex_event("token_count", info=info)


async def copied(wire: Wire, path: Path, **more: Any) -> dict[str, Any]:
    """Import a file; return the answer."""
    answer: dict[str, Any] = await wire.call("session/import", path=str(path), **more)
    return answer


async def context_of(wire: Wire, session_id: str, **more: Any) -> list[str]:
    """Return what the model sees of a session, a text for each message."""
    built = await wire.call("build_context", session_id=session_id, **more)
    return [said(message) for message in built["messages"]]


def said(message: dict[str, Any]) -> str:
    """Return a message as one text: its role, and what each block says."""
    role = message["role"]
    if role == "compaction_summary":
        return f"summary: {message['summary']}"
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    words = " + ".join(map(_block, blocks))
    if role == "toolResult":
        failed = " failed" if message["isError"] else ""
        return f"result of {message['toolName']} {message['toolCallId']}{failed}: {words}"
    return f"{role}: {words}"


def _block(block: dict[str, Any]) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "thinking":
            return f"thinking {block['thinking']}".strip()
        case "toolCall":
            return f"{block['name']} {block['id']} {json.dumps(block['arguments'])}"
        case kind:
            return str(kind)
