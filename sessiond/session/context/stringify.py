"""JSON as JavaScript's `JSON.stringify` writes it, and text length as JavaScript counts it.

Law: exact. The programs whose estimates and prompts are followed here measure what JavaScript makes
of a value, so `1.50` is `1.5`, `1e21` keeps its exponent, members that are numbers come first, and
an emoji is two characters. A value that is only passed on (the arguments for a provider) is not
rewritten: see `object_in`.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final, NoReturn, cast

import msgspec
from msgspec import Raw

from sessiond.model.escapes import whole_characters

_LONE: Final = "[\ud800-\udfff]"
_INDEX: Final = "0|[1-9][0-9]{0,9}"
_INDEX_MAX: Final = 2**32 - 2
_SAFE_INTEGER: Final = 2**53
_SAFE_DIGITS: Final = 16
_DIGITS_MAX: Final = 21
"""Most digits before the point that a number has without an exponent."""
_ZEROS_MAX: Final = 6


def utf16_units(text: str) -> int:
    """Return the number of characters as JavaScript counts them."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut_units(text: str, units: int) -> str:
    """Return at most `units` characters from the start, as JavaScript counts, never half of one."""
    if utf16_units(text) <= units:
        return text
    kept = text[:units]
    while utf16_units(kept) > units:
        kept = kept[:-1]
    return kept


def whole_text(text: str) -> str:
    """Return the text with U+FFFD for each half character, which no answer could hold."""
    return re.sub(_LONE, "\ufffd", text)


def compact_json(raw: Raw) -> str:
    """Return JSON without blanks, as JavaScript would write it; invalid JSON stays unchanged."""
    try:
        return written(_decoded(bytes(raw)))
    except (ValueError, RecursionError):
        return bytes(raw).decode(errors="replace")


def members_of(raw: Raw | None) -> dict[str, Any] | None:
    """Return a call's arguments by name; None if they are no object.

    OpenAI's arguments are an object inside a string.
    """
    try:
        found: Any = _decoded(bytes(raw or b""))
        if isinstance(found, str):
            found = _decoded(found)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def object_in(raw: Raw | None) -> Raw:
    """Return a call's arguments on one line, each number as spelled; `{}` if they are no object.

    Half a character becomes U+FFFD.
    """
    if raw is None or members_of(raw) is None:
        return Raw(b"{}")
    found = bytes(raw).strip()
    if found[:1] == b'"':
        found = json.loads(found).strip().encode(errors="replace")
    found = whole_characters(found)
    return Raw(msgspec.json.format(found, indent=-1) if b"\n" in found else found)


def written(value: Any) -> str:
    """Return a decoded value without blanks, as JavaScript would write it."""
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False)
        return re.sub(_LONE, lambda found: f"\\u{ord(found[0]):04x}", quoted)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value) if abs(value) <= _SAFE_INTEGER else _number(float(value))
    if isinstance(value, float):
        return _number(value)
    # The remaining JSON types are objects and arrays.
    return _object(value) if hasattr(value, "keys") else _array(value)


def _array(items: list[Any]) -> str:
    return f"[{','.join([written(item) for item in items])}]"


def _object(members: dict[str, Any]) -> str:
    said = [f"{written(name)}:{written(member)}" for name, member in members.items()]
    return f"{{{','.join(said)}}}"


def _decoded(text: str | bytes) -> Any:
    return json.loads(
        text, parse_int=_integer, parse_constant=_no_json, object_pairs_hook=_in_their_order
    )


def _integer(digits: str) -> int | float:
    # Python refuses to read an integer of thousands of digits.
    return int(digits) if len(digits) <= _SAFE_DIGITS else float(digits)


def _no_json(word: str) -> NoReturn:
    raise ValueError(word)


def _in_their_order(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return members in JavaScript's order: first those that could index an array, by number."""
    found = dict(pairs)
    indices = [name for name in found if re.fullmatch(_INDEX, name) and int(name) <= _INDEX_MAX]
    return {name: found[name] for name in sorted(indices, key=int)} | found


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "it is finite"
    said = "".join(map(str, digits))
    point = len(said) + exponent
    minus = "-" if sign else ""
    if len(said) <= point <= _DIGITS_MAX:
        return minus + said + "0" * (point - len(said))
    if 0 < point <= _DIGITS_MAX:
        return f"{minus}{said[:point]}.{said[point:]}"
    if -_ZEROS_MAX < point <= 0:
        return f"{minus}0.{'0' * -point}{said}"
    mantissa = said if len(said) == 1 else f"{said[0]}.{said[1:]}"
    return f"{minus}{mantissa}e{point - 1:+d}"
