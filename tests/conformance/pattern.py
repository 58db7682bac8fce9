"""The JSON of cases: numbers by their spelling, names to fill in, patterns to match.

Law: this module knows no client, daemon or step. README.md has the list of patterns.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["Mismatch", "fill", "match", "read", "write"]

KINDS = {"string": str, "object": dict, "array": list, "boolean": bool, "null": type(None)}


class Number(str):
    """A number as it is spelled: 1.50 is not 1.5 here."""


class Mismatch(Exception):
    """Failure of a match: the received value is not the one in the case."""


def read(text: str | bytes) -> Any:
    """JSON, with numbers as they are spelled and members in their order."""
    return json.loads(text, parse_int=Number, parse_float=Number)


def write(value: Any) -> str:
    """Return the JSON text of a value from `read`, without blanks."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{write(key)}:{write(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return str(value) if type(value) is Number else json.dumps(value, ensure_ascii=False)


def fill(value: Any, names: dict[str, Any]) -> Any:
    """`${name}` replaced: by the value if it is the whole text, else inside the text."""
    if isinstance(value, dict):
        return {key: fill(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, names) for item in value]
    if type(value) is not str:
        return value
    if (whole := re.fullmatch(r"\$\{(\w+)\}", value)) is not None:
        return names[whole[1]]
    return re.sub(r"\$\{(\w+)\}", lambda found: str(names[found[1]]), value)


def match(want: Any, got: Any, names: dict[str, Any], at: str) -> None:
    """Raise Mismatch unless `got` fits the pattern; binds what the pattern names."""
    if isinstance(want, dict) and any(key.startswith("$") for key in want):
        for rule, item in want.items():
            match_rule(rule, item, got, names, at)
    elif isinstance(want, dict) and isinstance(got, dict):
        for key, item in want.items():
            is_there = item != {"$absent": True}
            require((key in got) == is_there, f"{at}.{key} is{' not' * is_there} there", got)
            if is_there:
                match(item, got[key], names, f"{at}.{key}")
    elif isinstance(want, list) and isinstance(got, list):
        require(len(want) == len(got), f"{at} has {len(got)} elements, not {len(want)}", got)
        for index, item in enumerate(want):
            match(item, got[index], names, f"{at}[{index}]")
    else:
        want = fill(want, names)
        require(type(want) is type(got) and want == got, f"{at} is not {write(want)}", got)


def match_rule(rule: str, item: Any, got: Any, names: dict[str, Any], at: str) -> None:
    """Match a pattern that starts with `$`. Raises Mismatch."""
    if rule == "$bind":
        names[item] = got
    elif rule == "$any":
        require(type(got) is ({"number": Number} | KINDS)[item], f"{at} is no {item}", got)
    elif rule == "$not":
        require(fill(item, names) != got, f"{at} is {write(got)}", got)
    elif rule == "$exact":
        text = write(fill(item, names))
        require(text == write(got), f"{at} is not exactly {text}", got)
    elif rule in {"$has", "$unordered"}:
        require(isinstance(got, list), f"{at} is no list", got)
        require(rule == "$has" or len(item) == len(got), f"{at} has {len(got)} elements", got)
        left = list(got)
        for one in item:
            found = next((other for other in left if fits(one, other, names, at)), None)
            require(found is not None, f"{at} has no {write(one)}", got)
            left.remove(found)
    else:
        raise ValueError(f"the case has an unknown pattern: {rule}")


def fits(want: Any, got: Any, names: dict[str, Any], at: str) -> bool:
    try:
        match(want, got, names, at)
    except Mismatch:
        return False
    return True


def require(holds: bool, reason: str, got: Any) -> None:
    if not holds:
        raise Mismatch(f"{reason}: {write(got)[:2000]}")
