"""Folders of other programs, as tests make them: files as pi writes them, in pi's folders."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sessiond.testing.wire import Wire
from tests.kit.sessions import SESSION, TIME

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
_NAMES = {
    "parent_id": "parentId",
    "custom_type": "customType",
    "from_id": "fromId",
    "first_kept_entry_id": "firstKeptEntryId",
}
"""Names of members of entries, in native files and in those of pi."""


def pi_line(entry_id: str, parent_id: str | None, text: str, role: str = "user") -> dict[str, Any]:
    """Return a message as a line of a pi file."""
    content: Any = text
    message: dict[str, Any] = {"role": role, "content": content, "timestamp": 1769936401000}
    if role == "assistant":
        message["content"] = [{"type": "text", "text": text}]
    place = {"id": entry_id, "parentId": parent_id, "timestamp": TIME}
    return {"type": "message", **place, "message": message}


def pi_file(session_id: str, *texts: str, cwd: str = "/p") -> bytes:
    """Return a pi file: questions and answers in turn."""
    header = {"type": "session", "version": 3, "id": session_id, "timestamp": TIME, "cwd": cwd}
    lines: list[dict[str, Any]] = [header]
    for number, text in enumerate(texts):
        parent = f"1000000{number - 1}" if number else None
        role = "assistant" if number % 2 else "user"
        lines.append(pi_line(f"1000000{number}", parent, text, role))
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def spelled_by_pi(entries: Sequence[dict[str, Any]]) -> bytes:
    """Return a pi file of the test's only session, with entries that are spelled as in a native file."""
    header = {"type": "session", "version": 3, "id": SESSION, "timestamp": TIME, "cwd": "/p"}
    lines = [header, *({_NAMES.get(name, name): one[name] for name in one} for one in entries)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def put(folder: Path, name: str, data: bytes, *, old: bool = True) -> Path:
    """Put a file into a folder, which is made; its time is long past if `old`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_bytes(data)
    if old:
        os.utime(path, (0, 0))
    return path


async def add_root(wire: Wire, folder: Path, kind: str | None = None) -> dict[str, Any]:
    """Add a root; return what the answer says of it."""
    return one_root(
        await wire.call("catalog/roots", action="add", path=str(folder), kind=kind), folder
    )


def one_root(answer: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return what an answer says of a folder."""
    (found,) = [one for one in answer["roots"] if one["path"] == str(folder)]
    return dict(found)


async def ids(wire: Wire, **more: Any) -> Sequence[str]:
    """Return the ids of a list, sorted."""
    page = await wire.call("session/list", **more)
    return sorted(one["id"] for one in page["sessions"])
