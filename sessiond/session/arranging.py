"""The turns of a context, each result where an API wants it: right behind what called for it.

Law: a turn is the assistant's, or everybody else's; the two alternate. What says nothing to a
provider is in no turn, nor is what the assistant only thought before the others went on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

from msgspec import Struct, field

from sessiond.model.reading import Block, Reading
from sessiond.session.mending import Told, paired
from sessiond.session.naming import Legal

__all__ = ["ProviderShape", "Says", "Turn", "turns_of"]

Says = Literal["nothing", "thoughts", "something"]


class Turn(Struct):
    """What one side says before the other has its turn."""

    is_assistant: bool
    results: list[tuple[Told, Block]] = field(default_factory=list[tuple[Told, Block]])
    """Of the calls in the assistant's turn before this one; they come first."""
    messages: list[Told] = field(default_factory=list[Told])
    has_calls: bool = False
    is_said: bool = False

    @property
    def place(self) -> int:
        """Of the first message of the context that it is made of."""
        told = [*self.messages[:1], *(told for told, _ in self.results[:1])]
        return min(one.place for one in told)


class ShowTurn(Protocol):
    """Makes messages of a turn, each with the entry it comes from."""

    def __call__(self, turn: Turn, *, is_first: bool) -> Iterable[tuple[str, bytes]]:
        """`is_first`: nothing is shown before it."""
        ...


class ProviderShape(Struct, frozen=True):
    """How one API wants a conversation."""

    says: Callable[[Reading], Says]
    """What of a message, results aside, is shown."""
    messages: ShowTurn
    legal: Legal
    splits: bool
    """Of a turn without results, each message is shown as one."""


def turns_of(messages: Sequence[Told], says: Callable[[Reading], Says]) -> list[Turn]:
    """The turns in order."""
    calls = paired(messages)
    turns: list[Turn] = []
    turn_of: dict[int, Turn] = {}
    for at, told in enumerate(messages):
        for number, block in enumerate(told.reading.blocks):
            if block.kind == "tool_result":
                called = calls.get((at, number))
                caller = None if called is None else turn_of.get(called[0])
                _answers(turns, caller).results.append((told, block))
        said = says(told.reading)
        if said != "nothing":
            turn = _turn(turns, is_assistant=told.reading.role == "assistant")
            turn.messages.append(told)
            turn.is_said |= said == "something"
            turn.has_calls |= any(block.kind == "tool_call" for block in told.reading.blocks)
            turn_of[at] = turn
    if turns and not turns[-1].is_said:
        turns.pop()
    return turns


def _turn(turns: list[Turn], *, is_assistant: bool) -> Turn:
    """The turn that goes on, or a new one."""
    if turns and not is_assistant and not turns[-1].is_said:
        turns.pop()
    if not turns or turns[-1].is_assistant != is_assistant:
        turns.append(Turn(is_assistant, is_said=not is_assistant))
    return turns[-1]


def _answers(turns: list[Turn], caller: Turn | None) -> Turn:
    """The turn for a result: behind that of its call, or where it stands when it has none."""
    if caller is None or caller is turns[-1]:
        return _turn(turns, is_assistant=False)
    # Few turns lie between a call and its result.
    at = next(at for at in range(len(turns) - 1, -1, -1) if turns[at] is caller)
    return turns[at + 1]
