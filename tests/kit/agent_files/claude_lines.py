"""Shapes of the lines that Claude Code writes, without any order among them."""

from __future__ import annotations

from typing import Final

from tests.kit.agent_files.dice import PIXEL, Dice
from tests.kit.agent_files.said import Json

VERSION: Final = "2.1.330"
MODELS: Final = ("claude-sonnet-5", "claude-opus-5")


def envelope(session_id: str, cwd: str, agent_id: str | None) -> Json:
    """Return the members that all tree lines of a session have."""
    shared: Json = {
        "userType": "external",
        "entrypoint": "cli",
        "cwd": cwd,
        "sessionId": session_id,
        "version": VERSION,
        "gitBranch": "main",
    }
    return shared if agent_id is None else shared | {"agentId": agent_id}


def usage(dice: Dice) -> Json:
    """Return what a reply cost."""
    written = dice.number(0, 900)
    return {
        "input_tokens": dice.number(1, 40),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": dice.number(0, 50_000),
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": dice.number(2, 700),
        "service_tier": "standard",
    }


def nothing_used() -> Json:
    """Return the usage of a reply that no model gave."""
    return {
        "input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
    }


def image() -> Json:
    """Return an image block."""
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    }


def text(words: str) -> Json:
    """Return a text block."""
    return {"type": "text", "text": words}


def call(dice: Dice, name: str) -> Json:
    """Return a call of a tool."""
    given = {"Bash": {"command": "ls", "description": "List files"}}.get(
        name, {"file_path": f"/p/{dice.hex(4)}.txt"}
    )
    return {"type": "tool_use", "id": f"toolu_{dice.hex(12)}", "name": name, "input": given}


def bookkeeping(dice: Dice, session_id: str, leaf: str | None) -> list[Json]:
    """Return one line of each kind that has no place in the tree."""
    bare: list[tuple[str, Json]] = [
        ("agent-name", {"agentName": "scout"}),
        ("agent-color", {"agentColor": "blue"}),
        ("agent-setting", {"agentSetting": "default"}),
        ("mode", {"mode": "normal"}),
        ("permission-mode", {"permissionMode": "acceptEdits"}),
        ("queue-operation", {"operation": "enqueue", "content": dice.text(20)}),
        (
            "file-history-snapshot",
            {"messageId": leaf, "snapshot": {"trackedFileBackups": {}}, "isSnapshotUpdate": False},
        ),
        ("file-history-delta", {"messageId": leaf, "delta": {}}),
        ("content-replacement", {"replacements": []}),
        ("attribution-snapshot", {"fileStates": {}}),
        ("cost-state", {"costUsd": 0.25}),
        ("pr-link", {"prNumber": 7, "prUrl": "https://example.org/pull/7"}),
        ("worktree-state", {"worktreeSession": None}),
        ("relocated", {"relocatedCwd": "/p/other"}),
        ("bridge-session", {"bridgeSessionId": dice.hex(8)}),
        ("history-suppression", {"uuids": []}),
        ("frame-link", {"frame": dice.hex(6)}),
        ("task-summary", {"summary": dice.text(20)}),
        ("marble-origami-commit", {"collapsed": []}),
        ("continued-in", {"continuedInSessionId": dice.uuid(), "timestamp": dice.tick()}),
    ]
    return [{"type": kind, "sessionId": session_id, **more} for kind, more in bare]


def unknown(dice: Dice, session_id: str) -> list[Json]:
    """Return lines of kinds that no reader knows."""
    return [
        {"type": "quantum-latch", "sessionId": session_id, "latched": True},
        {"type": "weather", "uuid": dice.uuid(), "timestamp": dice.tick(), "rain": [1, None, {}]},
        {"kind": "line without a type", "n": dice.number(1, 9)},
    ]
