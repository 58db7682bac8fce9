"""The turns of a context, each result where an API wants it: right behind what called for it.

Law: a turn is the assistant's, or everybody else's; the two alternate. What says nothing to a
provider is in no turn, nor is what the assistant only thought before the others went on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct, field

from sessiond.model.parsed_message import Block, Reading
from sessiond.session.providers.call_ids import Legal
from sessiond.session.providers.tool_pairing import Told, paired

__all__ = ["ProviderShape", "Result", "Says", "Turn", "turns_of"]

Says = Literal["nothing", "thoughts", "something"]


class Result(NamedTuple):
    """A result of a tool, and the message that it stands in."""

    told: Told
    block: Block


class Turn(Struct):
    """What one side says before the other has its turn."""

    is_assistant: bool
    answers: list[Result] = field(default_factory=list[Result])
    """The results of the calls in the assistant's turn before this one; they come first."""
    said: list[Told | Result] = field(default_factory=list[Told | Result])
    """The messages, and the results without a call, in the order of the context."""
    has_calls: bool = False
    is_said: bool = False

    @property
    def messages(self) -> list[Told]:
        """The messages that say more than results."""
        return [one for one in self.said if isinstance(one, Told)]

    @property
    def results(self) -> list[Result]:
        """Every result of the turn: first those of calls, then those without one."""
        return [*self.answers, *(one for one in self.said if isinstance(one, Result))]

    @property
    def place(self) -> int:
        """The place of the first message of the context that the turn is made of."""
        told = [*self.messages[:1], *(result.told for result in self.results)]
        return min(one.place for one in told)

    def pieces(self) -> Iterator[Turn]:
        """Yield turns that say one thing each, the answers to calls together."""
        if self.answers:
            yield Turn(self.is_assistant, self.answers)
        for one in self.said:
            yield Turn(self.is_assistant, said=[one])


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
    """Each message of the user's turn is shown as one of its own."""


def turns_of(messages: Sequence[Told], says: Callable[[Reading], Says]) -> list[Turn]:
    """The turns in order."""
    calls = paired(messages)
    turns: list[Turn] = []
    turn_of: dict[int, Turn] = {}
    for at, told in enumerate(messages):
        own: list[Result] = []
        for number, block in enumerate(told.reading.blocks):
            if block.kind == "tool_result":
                result = Result(told, block)
                called = calls.get((at, number))
                if called is None:
                    _turn(turns, is_assistant=False).said.append(result)
                elif called[0] == at:
                    own.append(result)
                else:
                    _answers(turns, turn_of[called[0]]).answers.append(result)
        said = says(told.reading)
        if said != "nothing":
            turn = _turn(turns, is_assistant=told.reading.role == "assistant")
            turn.said.append(told)
            turn.is_said |= said == "something"
            turn.has_calls |= any(block.kind == "tool_call" for block in told.reading.blocks)
            turn_of[at] = turn
        for result in own:
            _answers(turns, turn_of[at]).answers.append(result)
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


def _answers(turns: list[Turn], caller: Turn) -> Turn:
    """Return the turn behind that of the call, which is the place of the call's result."""
    if caller is turns[-1]:
        return _turn(turns, is_assistant=False)
    # Few turns lie between a call and its result.
    at = next(at for at in range(len(turns) - 1, -1, -1) if turns[at] is caller)
    return turns[at + 1]
