"""Shapes of the payloads that Codex writes, without any order among them."""

from __future__ import annotations

import json
from typing import Final

from tests.kit.agent_files.dice import PIXEL, Dice
from tests.kit.agent_files.said import Json

MODELS: Final = ("gpt-5.5-codex", "gpt-5.5", "gpt-6-mini")
WINDOW: Final = 272_000


def message(role: str, *texts: str, image: bool = False) -> Json:
    """Return an item with a message."""
    kind = "output_text" if role == "assistant" else "input_text"
    content: list[Json] = [{"type": kind, "text": text} for text in texts]
    if image:
        content.append({"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"})
    return {"type": "message", "role": role, "content": content}


def reasoning(dice: Dice, *texts: str) -> Json:
    """Return an item with the summary of a model's reasoning."""
    return {
        "type": "reasoning",
        "id": f"rs_{dice.hex(8)}",
        "summary": [{"type": "summary_text", "text": text} for text in texts],
        "content": None,
        "encrypted_content": dice.hex(16),
    }


def call(dice: Dice, words: str) -> tuple[Json, str]:
    """Return an item with a call, of one of three kinds, and the type of the item with its output."""
    call_id = f"call_{dice.hex(12)}"
    kind = dice.number(0, 9)
    if kind == 0:
        patch: Json = {
            "type": "custom_tool_call",
            "call_id": call_id,
            "name": "apply_patch",
            "input": f"*** Begin Patch\n{words}\n*** End Patch",
        }
        return patch, "custom_tool_call_output"
    if kind == 1:
        shell: Json = {
            "type": "local_shell_call",
            "call_id": call_id,
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"]},
        }
        return shell, "function_call_output"
    asked: Json = {
        "type": "function_call",
        "name": "exec_command",
        "arguments": json.dumps({"cmd": f"cat {dice.hex(4)}.py"}),
        "call_id": call_id,
    }
    return asked, "function_call_output"


def output(dice: Dice, kind: str, call_id: str, words: str) -> Json:
    """Return an item with the output of a call, in one of the three shapes."""
    said: object = dice.pick(
        (
            words,
            words,
            [{"type": "input_text", "text": words}],
            {"content": words, "success": True},
        )
    )
    return {"type": kind, "call_id": call_id, "output": said}


def context(turn_id: str, cwd: str, model: str) -> Json:
    """Return the payload of a turn_context line."""
    return {
        "turn_id": turn_id,
        "cwd": cwd,
        "approval_policy": "on-request",
        "sandbox_policy": {"type": "workspace-write"},
        "model": model,
        "effort": "medium",
        "summary": "auto",
    }


def used(dice: Dice) -> dict[str, int]:
    """Return the tokens of one request."""
    fresh, cached = dice.number(1, 4000), dice.number(0, 9000)
    out, thought = dice.number(20, 800), dice.number(0, 20)
    return {
        "input_tokens": fresh + cached,
        "cached_input_tokens": cached,
        "output_tokens": out,
        "reasoning_output_tokens": thought,
        "total_tokens": fresh + cached + out,
    }


def bookkeeping(dice: Dice) -> list[tuple[str, Json]]:
    """Return lines that no display shows: their types and payloads."""
    return [
        ("world_state", {"state": {"files": [dice.hex(4)]}}),
        ("inter_agent_communication", {"from": dice.uuid(), "text": dice.text(10)}),
        ("inter_agent_communication_metadata", {"from": dice.uuid()}),
        ("token_usage_record", {"input_tokens": 5, "output_tokens": 1}),
        ("retained_context", {"items": []}),
        ("security_risk_score", {"score": 0.1}),
        ("realtime_item", {"item": {}}),
        ("response_item", {"type": "ghost_snapshot", "ghost_commit": {"id": dice.hex(8)}}),
        ("event_msg", {"type": "thread_goal_updated", "goal": dice.text(10)}),
        ("event_msg", {"type": "patch_apply_end", "call_id": "call_x", "success": True}),
        ("event_msg", {"type": "token_count", "info": None, "rate_limits": {"primary": None}}),
    ]


def unknown(dice: Dice) -> list[tuple[str, Json]]:
    """Return lines that no reader knows: their types and payloads."""
    return [
        ("aurora", {"night": [1, None, {}]}),
        ("event_msg", {"type": "aurora_seen", "at": dice.hex(4)}),
    ]
