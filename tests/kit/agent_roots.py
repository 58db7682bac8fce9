"""Folders of other agents, as tests make them of the samples."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

from sessiond.testing.wire import Wire
from tests.kit.opencode import TREE, database
from tests.kit.roots import add_root

SAMPLES: Final = Path(__file__).resolve().parent.parent / "other_agents"
CLAUDE: Final = "5e55a1d0-0000-4000-8000-00000000000{}"
CODEX: Final = "019f5000-0000-7000-8000-0000000000{}"
GEMINI: Final = ("7d3c1a20-0000-4000-8000-000000000001", "8e4d2b31-0000-4000-8000-000000000002")
_CLAUDE_FILES: Final = ("branch-compact", "parallel-rewind", "anchor-child-torn")


def claude_root(home: Path) -> Path:
    """Return a folder of Claude Code's projects, with the samples in one of them."""
    root = home / "claude" / "projects"
    project = root / "-home-ann-ping"
    project.mkdir(parents=True)
    for number, name in enumerate(_CLAUDE_FILES, 1):
        path = project / f"{CLAUDE.format(number)}.jsonl"
        shutil.copyfile(SAMPLES / f"claude-{name}.jsonl", path)
        os.utime(path, (number, number))
    shutil.copytree(SAMPLES / "claude-subagent", project, dirs_exist_ok=True)
    return root


def codex_root(home: Path) -> Path:
    """Return the folder of Codex's rollouts, with the samples, in a home of Codex."""
    shutil.copytree(SAMPLES / "codex", home / "codex")
    return home / "codex" / "sessions"


def gemini_root(home: Path) -> Path:
    """Return the folder of Gemini CLI's projects, with the samples."""
    shutil.copytree(SAMPLES / "gemini", home / "gemini")
    return home / "gemini" / "tmp"


def opencode_root(home: Path) -> Path:
    """Return the folder of opencode's data, with the samples: a database of each version, and a tree."""
    root = home / "opencode"
    shutil.copytree(TREE, root)
    database(root / "opencode.db")
    database(root / "opencode-beta.db", "v2")
    return root


async def add_all(wire: Wire, home: Path) -> list[Path]:
    """Make the folders of all agents roots; return the folders."""
    roots = [claude_root(home), codex_root(home), gemini_root(home), opencode_root(home)]
    for root in roots:
        await add_root(wire, root)
    return roots


def claude_line(uuid: str, parent: str | None, text: str, **more: Any) -> bytes:
    """Return a prompt as a line of Claude Code, with its newline."""
    said = {"role": "user", "content": text}
    place = {"uuid": uuid, "parentUuid": parent, "sessionId": CLAUDE.format(1), "cwd": "/p"}
    time = {"timestamp": "2026-11-02T00:00:00.000Z"}
    line = {"type": "user", "isSidechain": False, **place, **time, "message": said, **more}
    return json.dumps(line).encode() + b"\n"


def claude_talk(turns: int) -> bytes:
    """Return a session of Claude Code with so many prompts of a kilobyte, each below the one before."""
    lines: list[bytes] = []
    parent: str | None = None
    for turn in range(turns):
        uuid = f"c1a0de00-0000-4000-8000-{turn:012}"
        lines.append(claude_line(uuid, parent, f"turn {turn} " + "x" * 1000))
        parent = uuid
    return b"".join(lines)
