"""The usage that an assistant message reports, under any common names of the numbers.

Law: only the member `usage` of a payload is decoded, and no value there is an error: a
member that is no sensible number counts as 0.

    {"input":1200,"output":80,"cacheRead":9000,"cacheWrite":0,"totalTokens":10280,"cost":{"total":0.02}}
    {"prompt_tokens":1200,"completion_tokens":80,"total_tokens":1280}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.dialects.lenient_json import lenient
from sessiond.model.usage import Usage

_INPUT: Final = ("input", "input_tokens", "inputTokens", "prompt_tokens", "promptTokens")
_OUTPUT: Final = (
    "output",
    "output_tokens",
    "outputTokens",
    "completion_tokens",
    "completionTokens",
)
_CACHE_READ: Final = (
    "cacheRead",
    "cache_read_tokens",
    "cacheReadTokens",
    "cache_read_input_tokens",
)
_CACHE_WRITE: Final = (
    "cacheWrite",
    "cache_write_tokens",
    "cacheWriteTokens",
    "cache_creation_input_tokens",
)
_TOTAL: Final = ("totalTokens", "total_tokens", "total")
# Far above the real figures of any call; a greater number is no count.
_TOKENS_MAX: Final = 10**12
_COST_MAX: Final = 1e9


class _Cost(Struct, gc=False):
    total: float


class _Counts(Struct, gc=False):
    """The usual members with values of the usual types."""

    input: int | None = None
    output: int | None = None
    cacheRead: int | None = None  # noqa: N815 - as pi spells it
    cacheWrite: int | None = None  # noqa: N815
    totalTokens: int | None = None  # noqa: N815
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    total_tokens: int | None = None
    cost: _Cost | float | None = None
    total: Raw | UnsetType = UNSET
    prompt_tokens_details: Raw | UnsetType = UNSET
    cacheReadTokens: Raw | UnsetType = UNSET  # noqa: N815
    cacheWriteTokens: Raw | UnsetType = UNSET  # noqa: N815


_Members = Mapping[str, Raw]
_decoder: Final = typed.decoder(int | float)
_DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def usage_in(usage: Raw) -> Usage | None:
    """Return the usage in a message's member `usage`; None for no object or an empty one."""
    try:
        usual = _counted(typed.decode(usage, _Counts))
    except _DECODE_ERRORS:
        usual = None
    if usual is not None:
        return usual
    found = lenient(usage)
    return _usage(found) if found else None


def _counted(counts: _Counts) -> Usage | None:
    """Return the usage from the usual members; None if each member must be examined."""
    cost = counts.cost.total if isinstance(counts.cost, _Cost) else counts.cost or 0.0
    # The first number counts that is stated.
    sent = (counts.input_tokens or 0) if counts.input is None else counts.input
    got = (counts.output_tokens or 0) if counts.output is None else counts.output
    read = counts.cache_read_tokens if counts.cacheRead is None else counts.cacheRead
    read = (counts.cache_read_input_tokens or 0) if read is None else read
    written = counts.cache_write_tokens if counts.cacheWrite is None else counts.cacheWrite
    written = (counts.cache_creation_input_tokens or 0) if written is None else written
    total = (counts.total_tokens or 0) if counts.totalTokens is None else counts.totalTokens
    if not total and _states_parts(counts):
        total = sent + got + read + written
    if counts.cacheReadTokens is counts.cacheWriteTokens is UNSET and (
        0 < sent <= _TOKENS_MAX
        and 0 < got <= _TOKENS_MAX
        and 0 <= read <= _TOKENS_MAX
        and 0 <= written <= _TOKENS_MAX
        and 0 < total <= _TOKENS_MAX
        and 0 <= cost <= _COST_MAX
    ):
        return Usage(sent, got, read, written, total, cost)
    return None


def _states_parts(counts: _Counts) -> bool:
    """Return whether the members are Operator's or Anthropic's, which state every part and no sum."""
    operators = None not in (counts.cache_read_tokens, counts.cache_write_tokens)
    anthropics = None not in (counts.cache_read_input_tokens, counts.cache_creation_input_tokens)
    is_told = operators or anthropics
    return is_told and counts.total is counts.prompt_tokens_details is UNSET


def _usage(found: _Members) -> Usage:
    read, within = _tokens(found, _CACHE_READ), 0
    if not read and "prompt_tokens_details" in found:
        # These cached tokens are part of the prompt tokens; each token counts only once.
        read = within = _tokens(lenient(found["prompt_tokens_details"]), ("cached_tokens",))
    sent, got = _tokens(found, _INPUT), _tokens(found, _OUTPUT)
    sent = max(0, sent - within)
    written = _tokens(found, _CACHE_WRITE)
    total = _tokens(found, _TOTAL) or sent + got + read + written
    return Usage(sent, got, read, written, total, _cost(found.get("cost")))


def _tokens(found: _Members, names: tuple[str, ...]) -> int:
    for name in names:
        if (count := _number(found.get(name), _TOKENS_MAX)) is not None:
            return int(count)
    return 0


def _cost(raw: Raw | None) -> float:
    """Return the cost: a number, an object's `total`, or the sum of an object's members."""
    if raw is None:
        return 0.0
    parts = lenient(raw)
    whole = _number(parts.get("total") if parts else raw, _COST_MAX)
    if whole is not None:
        return float(whole)
    return float(sum(_number(part, _COST_MAX) or 0.0 for part in parts.values()))


def _number(raw: Raw | None, most: float) -> float | None:
    if raw is None:
        return None
    try:
        found = _decoder.decode(raw)
    except _DECODE_ERRORS:
        return None
    return found if 0 <= found <= most else None
