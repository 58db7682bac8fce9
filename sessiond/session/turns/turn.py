"""One turn, made of its entries.

Law: what a writer stored beside a message (`blocks`, `turn_status`, `started_at`, `ended_at`) wins over
what the message says. The last message of a turn decides on its status. A turn that another turn
follows is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Raw, Struct

from sessiond.model.parsed_message import FAILED_STOPS, Block, ParsedMessage
from sessiond.model.row import Kind
from sessiond.model.usage import Usage
from sessiond.session.turns.blocks import ShownBlock, ToolBlock, command_block, plain_block

ENDED: Final = frozenset({"done", "error"})
"""Statuses of turns that are over."""

_PROMPTS: Final = frozenset({"system", "developer"})
_SAID: Final = frozenset({int(Kind.USER), int(Kind.ASSISTANT), int(Kind.TOOL)})

TurnPart = Raw | ShownBlock
"""A block that was stored, as bytes, or one that was made."""


class TurnEntry(Struct, kw_only=True):
    """The part of an entry that a turn needs."""

    id: str
    kind: int
    timestamp: str
    message: ParsedMessage | None = None
    """A message, or the content of an extension's message."""
    summary: str | None = None
    """Text of a compaction or branch summary; None if the entry is neither."""
    blocks: list[Raw] | None = None
    turn_status: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    error: str = ""
    """Text of the failure of an answer; "" if the answer did not fail, or says nothing."""


class ShownTurn(Struct, kw_only=True):
    """A request, its response, and how far the response is."""

    id: str
    status: str
    timestamp: str
    request: list[TurnPart]
    response: list[TurnPart]
    started_at: str
    ended_at: str | None
    usage: Usage | None


def make_turn(entries: Sequence[TurnEntry], *, is_last: bool) -> ShownTurn:
    """Return the turn of these entries; `is_last` says that no turn follows on the path."""
    making = _Making()
    for entry in entries:
        making.take(entry)
    status = making.status(is_last=is_last)
    is_over = status in ENDED
    first = entries[0]
    starts = (entry.started_at for entry in entries if entry.started_at)
    last = making.last or first
    return ShownTurn(
        id=first.id,
        status=status,
        timestamp=first.timestamp,
        request=[_shown(part, is_over=is_over) for part in making.request],
        response=[_shown(part, is_over=is_over) for part in making.response],
        started_at=next(starts, first.timestamp),
        ended_at=(last.ended_at or last.timestamp) if is_over else None,
        usage=making.usage,
    )


def _calls_tools(answer: TurnEntry | None) -> bool:
    message = None if answer is None else answer.message
    return message is not None and any(block.kind == "tool_call" for block in message.blocks)


def _shown(part: TurnPart | ToolBlock, *, is_over: bool) -> TurnPart:
    return part.shown(is_over=is_over) if isinstance(part, ToolBlock) else part


class _Making:
    """The turn so far."""

    def __init__(self) -> None:
        self.request: list[TurnPart | ToolBlock] = []
        self.response: list[TurnPart | ToolBlock] = []
        self.usage: Usage | None = None
        self.last: TurnEntry | None = None
        self._answer: TurnEntry | None = None
        # Calls that wait for a result, in their order; None for one that a stored block shows.
        self._open: list[tuple[Block, ToolBlock | None]] = []

    def take(self, entry: TurnEntry) -> None:
        """Add the next entry."""
        if entry.kind in _SAID:
            self.last = entry
        by_kind: dict[int, Callable[[TurnEntry], None]] = {
            Kind.USER: self._ask,
            Kind.ASSISTANT: self._answer_with,
            Kind.TOOL: self._resolve,
        }
        by_kind.get(entry.kind, self._add_other)(entry)

    def status(self, *, is_last: bool) -> str:
        """Return the status of the turn."""
        last = self.last
        if last is not None and last.turn_status is not None:
            return last.turn_status
        answer = self._answer
        message = None if answer is None else answer.message
        if message is not None and message.stop_reason in FAILED_STOPS:
            return "error"
        if not is_last or (last is answer and not _calls_tools(answer)):
            return "done"
        return "pending"

    def _ask(self, entry: TurnEntry) -> None:
        if entry.blocks is not None:
            self.request += entry.blocks
        else:
            self._add(self.request, entry.message)

    def _answer_with(self, entry: TurnEntry) -> None:
        self._answer = entry
        message = entry.message
        if entry.blocks is not None:
            self.response += entry.blocks
            calls = () if message is None else message.blocks
            self._open += [(call, None) for call in calls if call.kind == "tool_call"]
        else:
            self._add(self.response, message)
            if message is not None and message.stop_reason in FAILED_STOPS:
                self.response.append(ShownBlock.of("error", entry.error or message.stop_reason))
        if message is not None and message.usage is not None:
            self.usage = message.usage if self.usage is None else self.usage.plus(message.usage)

    def _resolve(self, entry: TurnEntry) -> None:
        if entry.blocks is not None:
            self.response += entry.blocks
            for block in () if entry.message is None else entry.message.blocks:
                self._take_call(block)
        else:
            self._add(self.response, entry.message)

    def _add_other(self, entry: TurnEntry) -> None:
        message = entry.message
        if entry.summary is not None:
            word = "compaction" if entry.kind == Kind.COMPACTION else "branch_summary"
            if entry.summary or entry.kind == Kind.COMPACTION:
                self.response.append(ShownBlock.of("status", entry.summary, {"kind": word}))
        elif entry.blocks is not None:
            self.response += entry.blocks
        elif message is None or message.role in _PROMPTS:
            return
        elif message.command is not None:
            self.response.append(command_block(message.command))
        elif message.text:
            self.response.append(ShownBlock.of("custom", message.text, {"role": message.role}))

    def _add(self, parts: list[TurnPart | ToolBlock], message: ParsedMessage | None) -> None:
        for block in () if message is None else message.blocks:
            if block.kind == "tool_call":
                made = ToolBlock(block)
                self._open.append((block, made))
                parts.append(made)
            elif block.kind == "tool_result":
                self._add_result(block)
            elif (shown := plain_block(block)) is not None:
                parts.append(shown)

    def _add_result(self, block: Block) -> None:
        called = self._take_call(block)
        if called is None:
            self.response.append(ToolBlock(None, block))
        elif called[1] is not None:
            called[1].result = block
        for image in (part for part in block.parts if part.kind == "image"):
            if (shown := plain_block(image)) is not None:
                self.response.append(shown)

    def _take_call(self, result: Block) -> tuple[Block, ToolBlock | None] | None:
        """Return the call that a result answers, which waits no longer; None if there is none."""
        for at, (call, _) in enumerate(self._open):
            if call.id == result.id:
                return self._open.pop(at)
        return None
