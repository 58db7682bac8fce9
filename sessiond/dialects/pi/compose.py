"""Messages of pi's shape that say what messages of other dialects say."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from sessiond.dialects.compose import (
    STOP_REASONS,
    result_members,
    results_in,
    tagged,
    tagged_usage,
)
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.times import unix_ms


def compose(message: ParsedMessage, timestamp: str) -> list[Raw]:
    """Return the messages; a message for each tool result."""
    stamp = unix_ms(timestamp)
    results = results_in(message)
    if results:
        return [_encoded(result_members(block, tagged), stamp) for block in results]
    match message.role:
        case "user":
            return [_encoded({"role": "user", "content": tagged(message.blocks)}, stamp)]
        case "system":
            return [_encoded({"role": "system", "content": message.text}, stamp)]
        case "assistant":
            return [_encoded(_answer(message), stamp)]
        case _:
            return []


def _encoded(members: dict[str, Any], stamp: int | None) -> Raw:
    return Raw(msgspec.json.encode(members | {"timestamp": stamp}))


def _answer(message: ParsedMessage) -> dict[str, Any]:
    members: dict[str, Any] = {"role": "assistant", "content": tagged(message.blocks)}
    if message.model_id:
        members |= {"provider": message.provider or "", "model": message.model_id}
    members["usage"] = tagged_usage(message.usage)
    reason = message.stop_reason
    members["stopReason"] = STOP_REASONS.get(reason, reason) or "stop"
    return members
