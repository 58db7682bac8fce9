"""Turns of a context, with each result where an API wants it: right behind its call.

Law: a turn belongs to the assistant or to everyone else; the two sides alternate. A message that
gives a provider nothing is in no turn, and neither are the assistant's thoughts without an answer
before the other side goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct, field

from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.session.providers.call_ids import Legal
from sessiond.session.providers.tool_pairing import ContextMessage, paired

Says = Literal["nothing", "thoughts", "something"]


class Result(NamedTuple):
    """A tool result and the message that holds it."""

    told: ContextMessage
    block: Block


class Turn(Struct):
    """A run of messages from one side, until the other side has its turn."""

    is_assistant: bool
    answers: list[Result] = field(default_factory=list[Result])
    """Results of the calls in the assistant's turn before this one; they come first."""
    said: list[ContextMessage | Result] = field(default_factory=list[ContextMessage | Result])
    """Messages, and results without a call, in the order of the context."""
    has_calls: bool = False
    is_said: bool = False

    @property
    def messages(self) -> list[ContextMessage]:
        """Messages that say more than results."""
        return [one for one in self.said if isinstance(one, ContextMessage)]

    @property
    def results(self) -> list[Result]:
        """Every result of the turn: first those of calls, then those without a call."""
        return [*self.answers, *(one for one in self.said if isinstance(one, Result))]

    @property
    def place(self) -> int:
        """Place of the turn's first message in the context."""
        told = [*self.messages[:1], *(result.told for result in self.results)]
        return min(one.place for one in told)

    def pieces(self) -> Iterator[Turn]:
        """Yield one turn per item said; the answers to calls are one turn together."""
        if self.answers:
            yield Turn(self.is_assistant, self.answers)
        for one in self.said:
            yield Turn(self.is_assistant, said=[one])


class ShowTurn(Protocol):
    """Function that makes messages of a turn, each with the entry it comes from."""

    def __call__(self, turn: Turn, *, is_first: bool) -> Iterable[tuple[str, bytes]]:
        """Return the turn's messages. `is_first`: no message is shown before this turn."""
        ...


class ProviderShape(Struct, frozen=True):
    """Form in which one API takes a conversation."""

    says: Callable[[ParsedMessage], Says]
    """Function that tells whether a message, results aside, gives nothing, thoughts or more."""
    messages: ShowTurn
    legal: Legal
    splits: bool
    """True if each message of the user's turn is shown as a message of its own."""


def turns_of(
    messages: Sequence[ContextMessage], says: Callable[[ParsedMessage], Says]
) -> list[Turn]:
    """Return the turns in order."""
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
    """Return the turn that goes on, or a new one."""
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
