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
from typing import Any, Final

from msgspec import Raw

__all__ = ["compact_json", "cut_units", "utf16_units"]

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
        return _written(json.loads(bytes(raw)))
    except (ValueError, RecursionError):
        return bytes(raw).decode(errors="replace")


def _written(value: Any) -> str:
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
    return f"[{','.join([_written(item) for item in items])}]"


def _object(members: dict[str, Any]) -> str:
    written = [f"{_written(name)}:{_written(member)}" for name, member in members.items()]
    return f"{{{','.join(written)}}}"


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
    written = "".join(map(str, digits))
    point = len(written) + exponent
    minus = "-" if sign else ""
    if len(written) <= point <= _DIGITS_MAX:
        return minus + written + "0" * (point - len(written))
    if 0 < point <= _DIGITS_MAX:
        return f"{minus}{written[:point]}.{written[point:]}"
    if -_ZEROS_MAX < point <= 0:
        return f"{minus}0.{'0' * -point}{written}"
    mantissa = written if len(written) == 1 else f"{written[0]}.{written[1:]}"
    return f"{minus}{mantissa}e{point - 1:+d}"
