"""A context as it is asked for: mended, or as the messages that a provider's API takes.

Law: made of readings, so it is the same for every dialect. It is shown in parts, so that the
next turn costs its own size: what is settled is changed by nothing that comes later, but for a
result that comes after its call was settled without one; then all is shown anew.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from sessiond.model.escapes import whole_characters
from sessiond.session.providers import anthropic, openai
from sessiond.session.providers.call_ids import ids_called, named
from sessiond.session.providers.tool_pairing import Told, mended, paired
from sessiond.session.providers.turns import ProviderShape, turns_of

__all__ = ["NOTHING", "STORED", "Part", "Settled", "Shape", "Shown", "View", "show"]

Shape = Literal["stored", "openai", "anthropic"]
Shown = tuple[str, bytes]
"""A message: the entry it comes from, and its JSON."""
_PROVIDERS: Final[Mapping[Shape, ProviderShape]] = {
    "openai": openai.SHAPE,
    "anthropic": anthropic.SHAPE,
}


class View(Struct, frozen=True):
    """How a context is to be shown."""

    repair: bool = False
    shape: Shape = "stored"

    @property
    def mark(self) -> str:
        """What tells this view's etags from those of others."""
        if self == STORED:
            return ""
        return f".{self.shape}{'.repaired' if self.repair else ''}"


STORED: Final = View()


class Settled(Struct, frozen=True):
    """What was shown before."""

    taken: int = 0
    """How many messages of the context."""
    shown: int = 0
    """How many messages they came to."""
    unanswered: frozenset[str] = frozenset()
    """The calls among them that have no result."""


class Part(Struct, frozen=True):
    """What some messages came to: those that stay whatever comes, and the rest."""

    settled: list[Shown]
    rest: list[Shown]
    after: Settled
    """All that is settled now."""
    system: tuple[list[str], list[str]]
    """What the system's messages say, the settled ones and the rest."""
    called: dict[str, int] = {}
    """The ids of the settled calls, and the message of the context that each is in."""


class _Unit(Struct, frozen=True):
    """Messages that are shown together."""

    begins: bool
    """What stands before it is not changed by it."""
    place: int
    """Of the first message of the context that they are made of."""
    messages: list[Shown]


NOTHING: Final = Settled()


def show(
    view: View, messages: Sequence[Told], before: Settled, used: Container[str] = ()
) -> Part | None:
    """Show the messages behind what is settled; None if one of them changes that.

    `used` are the ids of the calls that are settled.
    """
    pairs = paired(messages)
    alone = {
        block.id
        for at, told in enumerate(messages)
        for number, block in enumerate(told.reading.blocks)
        if block.kind == "tool_result" and (at, number) not in pairs
    }
    if alone & before.unanswered:
        return None
    told = mended(messages) if view.repair else messages
    provider = _PROVIDERS.get(view.shape)
    if provider is None:
        units = list(_as_stored(told))
    else:
        told = named(told, provider.legal, used)
        units = list(_as_provided(provider, told, is_first=not before.shown))
    cut = _cut(units)
    taken = units[cut].place if cut else before.taken
    taken_now = [one for one in messages if one.place < taken]
    settled = [message for unit in units[:cut] for message in unit.messages]
    unanswered = before.unanswered.union(_open_calls(taken_now))
    return Part(
        settled,
        [message for unit in units[cut:] for message in unit.messages],
        Settled(taken, before.shown + len(settled), unanswered),
        (list(_system(taken_now)), list(_system(messages[len(taken_now) :]))),
        {} if provider is None else ids_called(taken_now),
    )


def _as_stored(messages: Sequence[Told]) -> Iterator[_Unit]:
    """One message each. After a call, nothing is settled until the assistant speaks again."""
    was_assistant = has_calls = False
    for told in messages:
        is_assistant = told.reading.role == "assistant"
        if is_assistant and not was_assistant:
            has_calls = False
        yield _Unit(not has_calls, told.place, [(told.source, told.body)])
        has_calls |= any(block.kind == "tool_call" for block in told.reading.blocks)
        was_assistant = is_assistant


def _as_provided(
    provider: ProviderShape, messages: Sequence[Told], *, is_first: bool
) -> Iterator[_Unit]:
    has_calls = False
    place = -1
    for turn in turns_of(messages, provider.says):
        begins = turn.is_assistant or (provider.splits and not has_calls)
        has_calls = turn.has_calls
        is_split = provider.splits and not turn.is_assistant
        for piece in turn.pieces() if is_split else (turn,):
            shown = [
                (source, whole_characters(body))
                for source, body in provider.messages(piece, is_first=is_first)
            ]
            is_first = is_first and not shown
            # Pieces of one message of the context stay together.
            yield _Unit(begins and piece.place != place, piece.place, shown)
            place = piece.place


def _cut(units: Sequence[_Unit]) -> int:
    """How many units are settled: all before the last beginning."""
    return next((at for at in range(len(units) - 1, 0, -1) if units[at].begins), 0)


def _open_calls(messages: Sequence[Told]) -> Iterator[str]:
    answered = set(paired(messages).values())
    for at, told in enumerate(messages):
        for number, block in enumerate(told.reading.blocks):
            if block.kind == "tool_call" and (at, number) not in answered:
                yield block.id


def _system(messages: Iterable[Told]) -> Iterator[str]:
    for told in messages:
        if told.reading.role in {"system", "developer"} and (said := told.reading.text):
            yield said
