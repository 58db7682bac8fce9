"""The answers that a daemon owes for a stream of bytes, by JSON-RPC 2.0 and protocol.md alone.

Law: this module uses no code of sessiond. The standard library reads JSON. Where the standard
leaves room (a duplicate member, half a surrogate pair), every lawful answer is allowed. At
the least, each id that could be read gets exactly one answer.

    debts(b'{"id":1,"method":"server/ping"}\\n')  ->  [Debt({b"1"}, codes=None)]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

__all__ = [
    "FRAME_BYTES_MAX",
    "Debt",
    "NotStrict",
    "debt_of",
    "elements",
    "members",
    "nesting",
    "strict",
]

FRAME_BYTES_MAX: Final = 32 << 20
BATCH_MAX: Final = 100
NESTING_MAX: Final = 512
BLANK: Final = b" \t\r\n"
PARSE, REQUEST, LARGE = -32700, -32600, -32014
NULL: Final = b"null"


class Debt(NamedTuple):
    """A body that must be answered: by one of these ids, once each, or as a batch.

    `codes` are the codes of a refusal, None if the method decides. `members` are the debts of a
    batch, which one array answers in that order. `optional`: no answer is lawful, too.
    """

    ids: frozenset[bytes]
    codes: frozenset[int] | None = None
    members: tuple[Debt, ...] = ()
    optional: bool = False


class NotStrict(ValueError):
    """Refusal of a body that is no JSON by RFC 8259."""


class _Number(str):
    """A number as it was written: its value may be more than any machine holds."""

    __slots__ = ()


def _refuse(word: str) -> Any:
    raise NotStrict(word)


_PAIR: Final = re.compile(r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}")
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F][\da-fA-F]{2}")
_decoder: Final = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_refuse)


def strict(body: bytes) -> Any:
    """Return the value of a body of strict JSON, with numbers as texts. Raises NotStrict."""
    try:
        text = body.decode("utf-8")
        if text.startswith("\ufeff"):
            raise NotStrict("a byte order mark")
        value, end = _decoder.raw_decode(text, _blank(text, 0))
    except (ValueError, RecursionError) as error:
        raise NotStrict(str(error)) from error
    if _blank(text, end) != len(text):
        raise NotStrict("something follows")
    return value


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def nesting(body: bytes) -> int:
    """Return the depth of nested arrays and objects, without strings."""
    depth = deepest = 0
    is_inside = escaped = False
    for byte in body:
        if is_inside:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                is_inside = False
        elif byte == 0x22:
            is_inside = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def members(text: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the members of an object in its text, duplicates too: name, text, value."""
    at = _blank(text, 0) + 1
    while text[at := _blank(text, at)] != "}":
        name, at = _decoder.raw_decode(text, at)
        start = _blank(text, _blank(text, at) + 1)
        value, end = _decoder.raw_decode(text, start)
        yield name, text[start:end], value
        at = _blank(text, end)
        if text[at] == ",":
            at += 1


def elements(text: str) -> Iterator[str]:
    """Yield the texts of an array's elements."""
    at = _blank(text, 0) + 1
    while text[at := _blank(text, at)] != "]":
        _, end = _decoder.raw_decode(text, at)
        yield text[at:end]
        at = _blank(text, end)
        if text[at] == ",":
            at += 1


_NOBODY: Final = frozenset({NULL})


def refusal(*codes: int, ids: frozenset[bytes] = _NOBODY) -> Debt:
    return Debt(ids, frozenset(codes))


def debt_of(body: bytes) -> Debt | None:
    """Return the answer that a body is owed; None for a body that is never answered."""
    if len(body) > FRAME_BYTES_MAX:
        return refusal(LARGE)
    if body.count(b"[") + body.count(b"{") > NESTING_MAX and nesting(body) > NESTING_MAX:
        return refusal(PARSE)
    try:
        value = strict(body)
    except NotStrict:
        # The daemon may refuse a batch as too long before it sees that the batch is no JSON.
        return refusal(PARSE, LARGE) if body.lstrip(BLANK)[:1] == b"[" else refusal(PARSE)
    text = body.decode()
    if isinstance(value, list):
        return _batch_debt(text)
    return _message_debt(text, value)


def _batch_debt(text: str) -> Debt | None:
    parts = list(elements(text))
    if not parts:
        return refusal(REQUEST)
    if len(parts) > BATCH_MAX:
        return refusal(LARGE)
    owed = [_message_debt(part, _decoder.raw_decode(part)[0]) for part in parts]
    if _has_half_surrogate(text):
        # The batch may be refused as a whole: by one answer, or one per member, notifications too.
        loose = [debt or Debt(_NOBODY, None, optional=True) for debt in owed]
        # A batch of notifications only is owed nothing, whatever is in their texts.
        silent = all(debt.optional for debt in loose)
        parts_owed = tuple(one._replace(codes=None) for one in loose)
        return Debt(_NOBODY, None, parts_owed, optional=silent)
    kept = tuple(debt for debt in owed if debt is not None)
    if not kept:
        return None
    return Debt(frozenset(), None, kept, optional=all(debt.optional for debt in kept))


def _message_debt(text: str, value: Any) -> Debt | None:
    if not isinstance(value, dict):
        return refusal(REQUEST)
    found = list(members(text))
    names = [name for name, _, _ in found]
    ids = frozenset(raw.encode() for name, raw, one in found if name == "id" and _is_id(one))
    if len({*names}) != len(names):
        # Unpredictable (RFC 8259, section 4): one answer at most, under one of these ids.
        return Debt(ids | _NOBODY, None, optional=True)
    if _has_half_surrogate(text):
        if type(value.get("method")) is str and "id" not in value and value.get("jsonrpc") is None:
            # A notification is never answered, even if it is wrong.
            return None
        # Unpredictable as well (section 8.2), but a body with an id is answered.
        named = ids if not any(map(_has_half_surrogate, map(bytes.decode, ids))) else frozenset()
        return Debt(named or _NOBODY, None, optional=not named or "result" in value)
    if value.get("jsonrpc", "2.0") != "2.0" or type(value.get("jsonrpc", "")) is _Number:
        return refusal(REQUEST, ids=ids or _NOBODY)
    if type(value.get("method")) is str:
        if "id" not in value:
            return None
        return Debt(ids) if ids else refusal(REQUEST)
    if "method" not in value and ids and ("result" in value) != ("error" in value):
        return None
    return refusal(REQUEST, ids=ids or _NOBODY)


def _is_id(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _has_half_surrogate(text: str) -> bool:
    """Return whether a JSON text has an escape that is no character (RFC 8259, section 8.2)."""
    escapes = _PAIR.sub("", text.replace(r"\\", ""))
    return _HALF.search(escapes) is not None
