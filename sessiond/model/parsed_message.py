"""What a message says, the same for every dialect.

Law: pure data. A dialect makes a `Reading` of a payload; whoever estimates, plans or
shows works on readings and knows no dialect.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Raw, Struct

from sessiond.model.usage import Usage

__all__ = ["Block", "Command", "Reading", "Summary"]


class Block(Struct, frozen=True):
    """One part of what a message says."""

    kind: Literal["text", "thinking", "image", "tool_call", "tool_result", "other"]
    text: str = ""
    id: str = ""
    """Of a call, or of the call that a result answers."""
    name: str = ""
    arguments: Raw | None = None
    is_error: bool = False
    spelling: str = ""
    """Of a call, and of what is of another kind: its writer's word; "function" for OpenAI's calls."""
    signature: str = ""
    """Of a thought: by which its provider knows it as its own."""
    redacted: bool = False
    """Of a thought: its signature is all there is."""
    data: str = ""
    """Of an image: its bytes in base64, if they are here."""
    mime_type: str = ""
    url: str = ""
    """Of an image: where it is, if it is elsewhere."""
    raw: Raw | None = None
    """Of what is of another kind: all of it."""
    size: int = 0
    """Of an image: how many characters its data has as it is stored."""
    parts: tuple[Block, ...] = ()
    """Of a result: what it consists of; `text` is the texts among them, a line each."""

    @property
    def said(self) -> str:
        """Of a result: its texts, one after the other."""
        if not self.parts:
            return self.text
        return "".join(part.text for part in self.parts if part.kind == "text")


class Command(Struct, frozen=True):
    """What a user ran beside the conversation, and what came of it."""

    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    excluded: bool = False
    """It is shown to the user only."""


class Reading(Struct, frozen=True):
    """What a message says."""

    role: str
    blocks: tuple[Block, ...]
    model_id: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    stop_reason: str = ""
    """Why the model stopped, in its writer's word; "" where it does not say."""
    command: Command | None = None

    @property
    def text(self) -> str:
        """Its texts, one after the other."""
        return "".join(block.text for block in self.blocks if block.kind == "text")

    @property
    def is_result(self) -> bool:
        """Whether it answers a tool call, so that it makes no sense without the call."""
        return any(block.kind == "tool_result" for block in self.blocks)


class Summary(Struct, frozen=True):
    """What a compaction, or the summary of a branch, says of the messages it stands for."""

    text: str | None = None
    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
