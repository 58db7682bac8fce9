"""piglet's usual message lines, as columns: one short decode a line, without a translation.

Law: the columns say what the translated row says of each line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.dialects.message_lines import DECODE_ERRORS, answers, readable
from sessiond.dialects.usage import usage_in
from sessiond.model.message_lines import MessageLines
from sessiond.model.row import Kind
from sessiond.model.times import rfc3339
from sessiond.model.usage import Usage

_KIND_OF_TYPE: Final = {
    "user": int(Kind.USER),
    "assistant": int(Kind.ASSISTANT),
    "tool_result": int(Kind.TOOL),
}
_TIME: Final = (
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2})(:[0-5][0-9]:[0-5][0-9])(?:\.([0-9]{1,9}))?"
    r"([+-][0-9]{2}:00|Z)"
)


class _Data(Struct, gc=False):
    """The members of a message's data that the index reads."""

    model: str | None = None
    provider: str | None = None
    usage: Raw | UnsetType = UNSET


class _UsualLine(Struct, frozen=True, gc=False):
    """The members of a usual message line that the index reads."""

    type: Literal["user", "assistant", "tool_result"]
    id: Annotated[str, Meta(min_length=1)]
    ts: str
    data: _Data
    parentId: str | None = None  # noqa: N815 - as piglet spells it


_Tokens = Annotated[int, Meta(ge=0, le=10**12)]


class _Usage(Struct, gc=False, forbid_unknown_fields=True):
    """The usage as piglet writes it."""

    inputTokens: _Tokens  # noqa: N815 - as piglet spells it
    outputTokens: _Tokens  # noqa: N815
    cacheReadTokens: _Tokens  # noqa: N815
    cacheWriteTokens: _Tokens  # noqa: N815
    cost: Annotated[float, Meta(ge=0, le=1e9)]


# A start of the daemon reads no line, so these are built at the first one.
@cache
def _time() -> re.Pattern[str]:
    return re.compile(_TIME)


@cache
def _usage() -> typed.Decoder[_Usage]:
    return typed.decoder(_Usage)


@cache
def _line() -> typed.Decoder[_UsualLine]:
    return typed.decoder(_UsualLine)


def message_lines(lines: Sequence[bytes]) -> MessageLines:
    """Return the columns of the usual messages up to the first line that needs a closer look."""
    found = readable(_line(), lines)
    times = _times([line.ts for line in found])
    del found[len(times) :]
    kinds = bytes([_KIND_OF_TYPE[line.type] for line in found])
    made = MessageLines(
        [line.id for line in found], [line.parentId or None for line in found], kinds, times
    )
    if Kind.ASSISTANT in kinds:
        made.models, made.usages = answers([line.data for line in found], kinds, _usage_of)
    return made


def _usage_of(raw: Raw) -> Usage | None:
    """Return the usage in a message, as `usage_in` does."""
    try:
        found = _usage().decode(raw)
    except DECODE_ERRORS:
        return usage_in(raw)
    sent, got = found.inputTokens, found.outputTokens
    read, written = found.cacheReadTokens, found.cacheWriteTokens
    return Usage(sent, got, read, written, sent + got + read + written, found.cost)


def _times(spelled: Sequence[str]) -> list[str]:
    """Return the times in the daemon's spelling, up to the first one that is not usual."""
    hours: dict[tuple[str, str], str] = {}
    times: list[str] = []
    usual = _time().fullmatch
    for one in spelled:
        found = usual(one)
        if found is None:
            break
        hour, rest, fraction, offset = found.groups()
        begins = hours.get((hour, offset))
        if begins is None:
            # An offset of whole hours changes no minute.
            begins = hours[hour, offset] = rfc3339(f"{hour}:00:00{offset}")[:13]
        if not begins:
            break
        times.append(f"{begins}{rest}.{(fraction or '')[:3]:0<3}Z")
    return times
