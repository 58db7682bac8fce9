"""JSON as JavaScript's `JSON.stringify` writes it, and text as it counts characters.

Law: exact. The programs whose estimates and prompts are followed here measure what
JavaScript makes of a value, so `1.50` is `1.5`, `1e21` keeps its exponent, and an emoji
is two characters.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final, cast

from msgspec import Raw

__all__ = ["compact_json", "cut_units", "members_of", "utf16_units", "written"]

_LONE: Final = re.compile("[\ud800-\udfff]")
_SAFE_INTEGER: Final = 2**53
_DIGITS_MAX: Final = 21
"""A number of more digits before its point is written with an exponent."""
_ZEROS_MAX: Final = 6


def utf16_units(text: str) -> int:
    """How many characters JavaScript counts."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut_units(text: str, units: int) -> str:
    """At most so many of them from the start, and no half of a character."""
    if utf16_units(text) <= units:
        return text
    kept = text[:units]
    while utf16_units(kept) > units:
        kept = kept[:-1]
    return kept


def compact_json(raw: Raw) -> str:
    """The value without blanks, as JavaScript would write it; as it stands if it is none."""
    try:
        return written(json.loads(bytes(raw)))
    except (ValueError, RecursionError):
        return bytes(raw).decode(errors="replace")


def members_of(raw: Raw | None) -> dict[str, Any] | None:
    """The arguments of a call by name; None if they are no object. OpenAI's stand in a text."""
    try:
        found: Any = json.loads(bytes(raw or b""))
        if isinstance(found, str):
            found = json.loads(found)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def written(value: Any) -> str:
    """A decoded value, without blanks, as JavaScript would write it."""
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False)
        return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value) if abs(value) <= _SAFE_INTEGER else _number(_float(value))
    if isinstance(value, float):
        return _number(value)
    # What is left has members or items; nothing else comes out of JSON.
    return _object(value) if hasattr(value, "keys") else _array(value)


def _array(items: list[Any]) -> str:
    return f"[{','.join([written(item) for item in items])}]"


def _object(members: dict[str, Any]) -> str:
    said = [f"{written(name)}:{written(member)}" for name, member in members.items()]
    return f"{{{','.join(said)}}}"


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


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
