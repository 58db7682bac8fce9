"""Decoded messages in one form for all dialects.

Law: pure data. A dialect decodes a payload into a `ParsedMessage`. Code that estimates, plans or
shows messages works on readings and knows no dialect.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Raw, Struct

from sessiond.model.usage import Usage

FAILED_STOPS: Final = frozenset({"error", "aborted", "abort"})
"""Stop reasons of an answer that failed, in the words of all programs."""

Outcome = Literal["said", "calls", "failed"]
"""Work that an answer leaves: none, tool calls, or a failure."""


class Block(Struct, frozen=True):
    """A content block of a message."""

    kind: Literal["text", "thinking", "image", "tool_call", "tool_result", "other"]
    text: str = ""
    id: str = ""
    """Id of a tool call, or of the call that a result answers."""
    name: str = ""
    arguments: Raw | None = None
    is_error: bool = False
    spelling: str = ""
    """Type of a tool call or of an "other" block in its writer's words; "function" for OpenAI."""
    signature: str = ""
    """Signature of a thinking block, by which its provider recognises the block."""
    redacted: bool = False
    """True for a thinking block that has only its signature."""
    data: str = ""
    """Bytes of an inline image, in base64."""
    mime_type: str = ""
    url: str = ""
    """Address of an image that is not inline."""
    raw: Raw | None = None
    """All of a block of the kind "other"."""
    size: int = 0
    """Number of characters of an image's data as stored."""
    parts: tuple[Block, ...] = ()
    """Blocks of a tool result; its `text` joins their texts, a line each."""

    @property
    def said(self) -> str:
        """Texts of a tool result, joined without separators."""
        if not self.parts:
            return self.text
        return "".join(part.text for part in self.parts if part.kind == "text")


class ShellCommand(Struct, frozen=True):
    """A shell command that a user ran beside the conversation, and its outcome."""

    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    excluded: bool = False
    """True if only the user sees the command, not the model."""


class ParsedMessage(Struct, frozen=True):
    """A decoded message."""

    role: str
    blocks: tuple[Block, ...]
    model_id: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    stop_reason: str = ""
    """Reason why the model stopped, in its writer's words; "" if unknown."""
    command: ShellCommand | None = None

    @property
    def text(self) -> str:
        """Text blocks of the message, joined without separators."""
        return "".join(block.text for block in self.blocks if block.kind == "text")

    @property
    def is_result(self) -> bool:
        """True if the message answers a tool call, so that it makes no sense without the call."""
        for block in self.blocks:  # noqa: SIM110 - asked twice for each line of an agent
            if block.kind == "tool_result":
                return True
        return False


class Summary(Struct, frozen=True):
    """The content of a compaction or branch summary: its text and the files it names."""

    text: str | None = None
    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
