"""The messages of the sessions whose contexts are fuzzed: a few, so that each one repeats.

Law: pure data. Tool calls and results share a few ids, also those without a counterpart.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["ENTRIES", "INFO", "MESSAGES"]

_CALL: Final = {"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}
_IMAGE: Final = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
_RESULT: Final = {"type": "tool_result", "tool_use_id": "c", "content": "out"}
# A few messages, so that each is sent again and again, also on other branches.
MESSAGES: Final[tuple[dict[str, Any], ...]] = (
    {"role": "user", "content": "continue"},
    {"role": "user", "content": "continue"},
    {"role": "user", "content": [_RESULT, {"type": "text", "text": "and this"}]},
    {"role": "assistant", "content": "done", "model": "m-1", "provider": "p"},
    {"role": "assistant", "content": [_CALL]},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "look"}, _CALL, _CALL | {"id": "d"}],
    },
    {"role": "assistant", "content": [_CALL, _RESULT]},
    {"role": "toolResult", "toolCallId": "c", "content": "out"},
    {"role": "toolResult", "toolCallId": "d", "content": [{"type": "text", "text": "out"}, _IMAGE]},
    {"role": "system", "content": "be brief"},
)
ENTRIES: Final[tuple[dict[str, Any], ...]] = (
    {"type": "custom_message", "custom_type": "x", "content": "note", "display": True},
    {"type": "branch_summary", "summary": "there was more", "from_id": None},
    {"type": "model_change", "model_id": "m-2"},
    {"type": "thinking_level_change", "thinking_level": "high"},
    {"type": "custom", "custom_type": "x", "data": 1},
)
INFO: Final[tuple[dict[str, Any], ...]] = (
    {"name": "a title"},
    {"model": "m-3"},
    {"model": None, "provider": "q"},
    {"thinking_level": "low"},
    {"thinking_level": None},
    {"system_prompt": "Be brief."},
    {"system_prompt": None},
)
