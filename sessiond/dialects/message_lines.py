"""The usual message lines of a file, decoded as columns.

Law: a line is usual if one decode of a few short fields gives its row. The first other line ends the
columns; `row` of the dialect takes that line, as every line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import compress
from typing import Annotated, Final, Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import require_readable
from sessiond.dialects.usage import usage_in
from sessiond.model.message_lines import MessageLines
from sessiond.model.nesting import SHALLOW_BYTES, nests_too_deeply
from sessiond.model.row import Kind, ModelName
from sessiond.model.usage import Usage

DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_ASSISTANT: Final = int(Kind.ASSISTANT)
_OTHER_ROLE: Final = int(Kind.OTHER_ROLE)
_IS_ASSISTANT: Final = bytes(kind == _ASSISTANT for kind in range(256))


class Said(Struct, gc=False):
    """The members of a payload that the index reads."""

    role: str
    model: str | None = None
    provider: str | None = None
    usage: Raw | UnsetType = UNSET


class UsualLine(Struct, frozen=True, gc=False):
    """The members of a usual message line that the index reads."""

    type: Literal["message"]
    id: Annotated[str, Meta(min_length=1)]
    message: Said
    parent_id: str | None = None
    timestamp: str | float | None = None


class NamedSaid(Said, gc=False):
    """The members of a payload that has a role which is not empty."""

    role: Annotated[str, Meta(min_length=1)]


class SpokenLine(UsualLine, frozen=True, gc=False, kw_only=True):
    """The members of a usual line whose payload has a role which is not empty."""

    message: NamedSaid


class _Answer(Protocol):
    """The members of an assistant's message that the index reads."""

    @property
    def model(self) -> str | None: ...

    @property
    def provider(self) -> str | None: ...

    @property
    def usage(self) -> Raw | UnsetType: ...


_Line = TypeVar("_Line", bound=UsualLine)
_T = TypeVar("_T")


class UsualLines(Generic[_Line]):
    """The decoder of a dialect's usual message lines."""

    def __init__(self, line: type[_Line], kinds: Mapping[str, int]) -> None:
        self._line = line
        self._kinds = kinds

    @cached_property
    def _decoder(self) -> typed.Decoder[_Line]:
        # A start of the daemon reads no line.
        return typed.decoder(self._line)

    def read(self, lines: Sequence[bytes]) -> list[_Line]:
        """Return the lines up to the first one that is not usual."""
        return readable(self._decoder, lines)

    def columns(self, found: Sequence[_Line]) -> MessageLines:
        """Return the columns of decoded lines."""
        kind_of = self._kinds.get
        kinds = bytes([kind_of(line.message.role, _OTHER_ROLE) for line in found])
        made = MessageLines(
            [line.id for line in found],
            [line.parent_id for line in found],
            kinds,
            [line.timestamp for line in found],
        )
        if _ASSISTANT in kinds:
            made.models, made.usages = answers([line.message for line in found], kinds)
        return made


def readable(decoder: typed.Decoder[_T], lines: Sequence[bytes]) -> list[_T]:
    """Return the decoded lines up to the first one that the decoder, or a client, does not take."""
    found: list[_T] = []
    with suppress(*DECODE_ERRORS):
        # What was decoded before a failure stays in the list.
        found.extend(map(decoder.decode, lines))
    del found[_readable(lines[: len(found)]) :]
    return found


def _readable(lines: Sequence[bytes]) -> int:
    """Return how many of the lines at the beginning can be sent to clients."""
    # The decoder does not check the encoding of skipped members, but clients get the whole line.
    if all(map(bytes.isascii, lines)):
        for at, line in enumerate(lines):
            if len(line) > SHALLOW_BYTES and nests_too_deeply(line):
                return at
        return len(lines)
    for at, line in enumerate(lines):
        try:
            require_readable(line)
        except BadLine:
            return at
    return len(lines)


def answers(
    said: Sequence[_Answer], kinds: bytes, usage_of: Callable[[Raw], Usage | None] = usage_in
) -> tuple[list[ModelName | None], list[Usage | None]]:
    """Return the models and usages that assistants name; None for each message that names none."""
    models: list[ModelName | None] = [None] * len(said)
    usages: list[Usage | None] = [None] * len(said)
    model, provider, named = "", None, None
    for at in compress(range(len(said)), kinds.translate(_IS_ASSISTANT)):
        one = said[at]
        if one.model:
            if one.model != model or one.provider != provider:
                model, provider = one.model, one.provider
                named = ModelName(model, provider or None)
            models[at] = named
        if isinstance(one.usage, Raw):
            usages[at] = usage_of(one.usage)
    return models, usages
