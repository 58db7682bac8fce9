"""Elided answers of transcripts: `…` in an object stands for members that are not shown.

    < {"jsonrpc":"2.0","id":1,"result":{"session":{"id":"my-session","seq":0,…},"created":true}}

The shown part is checked: each member, its value with the spelling of its numbers, and the order.
"""

from __future__ import annotations

import json
import re
from typing import Final, cast

__all__ = ["ELLIPSIS", "fits"]

ELLIPSIS: Final = "…"
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|…')


def fits(shown: str, body: str) -> bool:
    """Return whether a body matches an elided text; False for a text that elides nothing."""
    elided = _TOKEN.sub(
        lambda found: f'"{ELLIPSIS}":0' if found[0] == ELLIPSIS else found[0], shown
    )
    if elided == shown:
        return False
    try:
        return _fits(_value(elided), _value(body))
    except json.JSONDecodeError:
        return False


def _value(text: str) -> object:
    """Return the JSON value, its numbers as they are spelled."""
    return json.loads(text, parse_int=_Number, parse_float=_Number)


class _Number(str):
    """A number's spelling, unequal to every text."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Number) and str.__eq__(self, other)


def _fits(shown: object, value: object) -> bool:
    if type(shown) is not type(value):
        return False
    if isinstance(shown, dict):
        return _members_fit(cast("dict[str, object]", shown), cast("dict[str, object]", value))
    if isinstance(shown, list):
        items, found = cast("list[object]", shown), cast("list[object]", value)
        return len(items) == len(found) and all(map(_fits, items, found))
    return shown == value


def _members_fit(shown: dict[str, object], value: dict[str, object]) -> bool:
    members = [name for name in shown if name != ELLIPSIS]
    found = [name for name in value if name in shown or ELLIPSIS not in shown]
    return members == found and all(_fits(shown[name], value[name]) for name in members)
