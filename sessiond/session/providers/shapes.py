"""Views of a context: mended, or as the messages that a provider's API takes.

Law: a view is made from readings, so it works alike for every dialect. A context is shown in parts,
so that the next turn costs only its own size. Later messages do not change a settled part. The one
exception is a result whose call was settled without one; then everything is shown anew.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from sessiond.model.escapes import whole_characters
from sessiond.session.providers import anthropic, openai
from sessiond.session.providers.call_ids import ids_called, named
from sessiond.session.providers.tool_pairing import ContextMessage, mended, paired
from sessiond.session.providers.turns import ProviderShape, turns_of

Shape = Literal["stored", "openai", "anthropic"]
Shown = tuple[str, bytes]
"""A message: the entry it comes from, and its JSON."""
_PROVIDERS: Final[Mapping[Shape, ProviderShape]] = {
    "openai": openai.SHAPE,
    "anthropic": anthropic.SHAPE,
}


class View(Struct, frozen=True):
    """A way to show a context."""

    repair: bool = False
    shape: Shape = "stored"

    @property
    def mark(self) -> str:
        """Part of an etag that separates this view from other views."""
        if self == STORED:
            return ""
        return f".{self.shape}{'.repaired' if self.repair else ''}"


STORED: Final = View()


class Settled(Struct, frozen=True):
    """The part of a context that was shown before and stays."""

    taken: int = 0
    """Number of messages of the context that are settled."""
    shown: int = 0
    """Number of messages that the settled ones became."""
    unanswered: frozenset[str] = frozenset()
    """Ids of the settled calls without a result."""


class ShapedPart(Struct, frozen=True):
    """Shown messages: the settled ones, which no later message changes, and the rest."""

    settled: list[Shown]
    rest: list[Shown]
    after: Settled
    """Settled part of the context, with these messages."""
    system: tuple[list[str], list[str]]
    """Texts of the system's messages: of the settled ones, and of the rest."""
    called: dict[str, int] = {}
    """Ids of the settled calls, each with the place of its message in the context."""


class _Unit(Struct, frozen=True):
    """Messages that are shown together."""

    begins: bool
    """True if the unit changes nothing that is shown before it."""
    place: int
    """Place of the first message of the context that the unit is made of."""
    messages: list[Shown]


NOTHING: Final = Settled()


def show(
    view: View, messages: Sequence[ContextMessage], before: Settled, used: Container[str] = ()
) -> ShapedPart | None:
    """Show the messages behind the settled ones; None if one of them changes the settled part.

    `used` holds the ids of the settled calls.
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
    return ShapedPart(
        settled,
        [message for unit in units[cut:] for message in unit.messages],
        Settled(taken, before.shown + len(settled), unanswered),
        (list(_system(taken_now)), list(_system(messages[len(taken_now) :]))),
        {} if provider is None else ids_called(taken_now),
    )


def _as_stored(messages: Sequence[ContextMessage]) -> Iterator[_Unit]:
    """Yield one unit per message. After a call nothing settles until the assistant speaks again."""
    was_assistant = has_calls = False
    for told in messages:
        is_assistant = told.reading.role == "assistant"
        if is_assistant and not was_assistant:
            has_calls = False
        yield _Unit(not has_calls, told.place, [(told.source, told.body)])
        has_calls |= any(block.kind == "tool_call" for block in told.reading.blocks)
        was_assistant = is_assistant


def _as_provided(
    provider: ProviderShape, messages: Sequence[ContextMessage], *, is_first: bool
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
    """Return the number of settled units: all before the last unit that begins anew."""
    return next((at for at in range(len(units) - 1, 0, -1) if units[at].begins), 0)


def _open_calls(messages: Sequence[ContextMessage]) -> Iterator[str]:
    answered = set(paired(messages).values())
    for at, told in enumerate(messages):
        for number, block in enumerate(told.reading.blocks):
            if block.kind == "tool_call" and (at, number) not in answered:
                yield block.id


def _system(messages: Iterable[ContextMessage]) -> Iterator[str]:
    for told in messages:
        if told.reading.role in {"system", "developer"} and (said := told.reading.text):
            yield said
