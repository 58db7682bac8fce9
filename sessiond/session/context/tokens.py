"""Estimates of how many tokens messages have, without the model that counts them.

Law: pure; equal messages give equal estimates. `Characters` follows pi and its descendants: a token
is four characters of Latin text (fewer in other scripts, where pi counts too little), and the usage in
an assistant's message, the tokens of the whole request, takes precedence over any estimate. `Bytes`
follows sharur. `Counted` asks a plugged-in tokenizer.

    {"role":"user","content":"abcde"}                  2
    {"role":"user","content":[{"type":"image",…}]}     1200
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.scripts import QUARTERS_PER_TOKEN, quarters, quarters_at_most
from sessiond.session.context.stringify import compact_json

_BYTES_PER_TOKEN: Final = 4
_IMAGE_TOKENS: Final = 1200
_FAILED: Final = frozenset({"aborted", "abort", "error"})
_SUMMARIES: Final = frozenset(
    {"branchSummary", "branch_summary", "compactionSummary", "compaction_summary"}
)
_SAID_TO_THE_MODEL: Final = _SUMMARIES | {
    "user",
    "custom",
    "system",
    "developer",
    "tool",
    "toolResult",
    "tool_result",
}


class Estimator(Protocol):
    """A way to estimate tokens."""

    @property
    def name(self) -> str:
        """Name of the estimator; estimates under different names are not comparable."""
        ...

    @property
    def believes_usage(self) -> bool:
        """True if the last good assistant message's usage replaces all estimates up to it."""
        ...

    def message(self, reading: ParsedMessage) -> int:
        """Return the tokens of one message."""
        ...

    def at_most(self, size: int, messages: int) -> int | None:
        """Return an upper bound on the tokens of messages, images aside; None if unknown.

        `size` is the number of stored bytes, `messages` the number of messages.
        """
        ...


class Characters(Struct, frozen=True):
    """Estimator: texts count by their script, an image is 1200 tokens, an unknown role 0 tokens."""

    name: str = "characters"
    believes_usage: bool = True

    def message(self, reading: ParsedMessage) -> int:
        """Implement `Estimator.message`."""
        texts, images = _counted(reading)
        return images * _IMAGE_TOKENS - (-sum(map(quarters, texts)) // QUARTERS_PER_TOKEN)

    def at_most(self, size: int, messages: int) -> int | None:
        """Implement `Estimator.at_most`: each message is rounded up."""
        return quarters_at_most(size) // QUARTERS_PER_TOKEN + messages


class Counted(Struct, frozen=True):
    """Estimator that lets a tokenizer count the texts; images count as with `Characters`.

    `count` is a plugin's code. Its exceptions pass through `message`.
    """

    name: str
    count: Callable[[str], int]
    believes_usage: bool = True

    def message(self, reading: ParsedMessage) -> int:
        """Implement `Estimator.message`."""
        texts, images = _counted(reading)
        tokens = sum(max(0, int(self.count(text))) for text in texts if text)
        return tokens + images * _IMAGE_TOKENS

    def at_most(self, size: int, messages: int) -> int | None:
        """Implement `Estimator.at_most`: a tokenizer gives no bound."""
        del size, messages
        return None


class Bytes(Struct, frozen=True):
    """Sharur's estimator: text by characters or, beyond ASCII, by bytes, plus a fifth of all."""

    name: str = "bytes"
    believes_usage: bool = False

    def message(self, reading: ParsedMessage) -> int:
        """Implement `Estimator.message`."""
        if reading.usage is not None and reading.usage.total_tokens:
            tokens = reading.usage.total_tokens
        else:
            tokens = sum(map(_block_by_bytes, reading.blocks))
        return tokens * 6 // 5

    def at_most(self, size: int, messages: int) -> int | None:
        """Implement `Estimator.at_most`: beyond ASCII a token is a byte."""
        del messages
        return size * 6 // 5


CHARACTERS: Final = Characters()
BYTES: Final = Bytes()


def spent(reading: ParsedMessage) -> int:
    """Return the tokens of the whole request as reported by the assistant's message; 0 if unknown.

    A failed or aborted call reports no usable figure.
    """
    if reading.role != "assistant" or reading.usage is None or reading.stop_reason in _FAILED:
        return 0
    return reading.usage.total_tokens


def _counted(reading: ParsedMessage) -> tuple[list[str], int]:
    """Return the texts of a message that count for its role, and the number of images."""
    if reading.command is not None:
        return [reading.command.command, reading.command.output], 0
    if reading.role == "assistant":
        return _spoken(reading), 0
    if reading.role in _SAID_TO_THE_MODEL:
        return _heard(reading.blocks)
    return [], 0


def _spoken(reading: ParsedMessage) -> list[str]:
    texts: list[str] = []
    for block in reading.blocks:
        if block.kind in {"text", "thinking"}:
            texts.append(block.text)
        elif block.kind == "tool_call":
            texts.append(block.name)
            if block.arguments is not None:
                texts.append(compact_json(block.arguments))
    return texts


def _heard(blocks: Sequence[Block]) -> tuple[list[str], int]:
    texts: list[str] = []
    images = 0
    for block in blocks:
        if block.kind == "text":
            texts.append(block.text)
        elif block.kind == "image":
            images += 1
        elif block.kind == "tool_result":
            if not block.parts:
                texts.append(block.text)
            within, shown = _heard(block.parts)
            texts += within
            images += shown
    return texts, images


def _block_by_bytes(block: Block) -> int:
    match block.kind:
        case "text" | "thinking":
            return _by_bytes(block.text)
        case "tool_call":
            arguments = "" if block.arguments is None else compact_json(block.arguments)
            return len((block.name + arguments).encode(errors="replace")) // _BYTES_PER_TOKEN
        case "tool_result":
            return _by_bytes(block.text) + len(block.id) // _BYTES_PER_TOKEN
        case "image":
            return max(1024, block.size // 750)
        case _:
            return 0


def _by_bytes(text: str) -> int:
    if text.isascii():
        return len(text) // _BYTES_PER_TOKEN
    return len(text.encode(errors="replace"))
