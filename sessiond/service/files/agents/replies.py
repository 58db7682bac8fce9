"""One answer out of the parts in which an agent writes it, and names for its calls' results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.usage import Usage

__all__ = ["calls_in", "joined", "named"]


def joined(parts: Sequence[ParsedMessage]) -> ParsedMessage:
    """Return the answer that is written in these parts.

    Each part may state the usage of the whole so far: the part with the most output counts, and of
    several such parts the last.
    """
    usage: Usage | None = None
    for part in parts:
        if part.usage is not None and (
            usage is None or part.usage.output_tokens >= usage.output_tokens
        ):
            usage = part.usage
    return ParsedMessage(
        role=parts[0].role,
        blocks=tuple(block for part in parts for block in part.blocks),
        model_id=next((part.model_id for part in parts if part.model_id), None),
        provider=next((part.provider for part in parts if part.provider), None),
        usage=usage,
        stop_reason=next((p.stop_reason for p in reversed(parts) if p.stop_reason), ""),
    )


def calls_in(message: ParsedMessage) -> dict[str, str]:
    """Return the names of the tools that a message calls, by the ids of the calls."""
    return {block.id: block.name for block in message.blocks if block.kind == "tool_call"}


def named(message: ParsedMessage, calls: Mapping[str, str]) -> ParsedMessage:
    """Return a message whose tool results name their tools."""

    def name(block: Block) -> Block:
        if block.kind != "tool_result" or block.name:
            return block
        return structs.replace(block, name=calls.get(block.id, ""))

    return structs.replace(message, blocks=tuple(map(name, message.blocks)))
