"""Messages of a native file that say what messages of other dialects say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from sessiond.dialects.compose import result_members, results_in, tagged, tagged_usage
from sessiond.model.parsed_message import Block, ParsedMessage

_NOTHING: Final[Mapping[str, Any]] = {}


def compose(message: ParsedMessage, more: Mapping[str, Any] = _NOTHING) -> list[Raw]:
    """Return the messages, each with further members behind its own; a message for each tool result."""
    results = results_in(message)
    if results:
        each = (result_members(block, _content) for block in results)
        return [Raw(msgspec.json.encode({**members, **more})) for members in each]
    if not message.role:
        return []
    members: dict[str, Any] = {"role": message.role, "content": _content(message.blocks)}
    if message.model_id:
        members["model"] = message.model_id
        if message.provider:
            members["provider"] = message.provider
    if message.usage is not None:
        members["usage"] = tagged_usage(message.usage)
    if message.stop_reason:
        members["stopReason"] = message.stop_reason
    return [Raw(msgspec.json.encode({**members, **more}))]


def _content(blocks: Sequence[Block]) -> Any:
    if len(blocks) == 1 and blocks[0].kind == "text":
        return blocks[0].text
    return tagged(blocks)
