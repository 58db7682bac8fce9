"""Parameters drawn from protocol.schema.json: right, nearly right, and wrong ones.

Law: pure but for the dice. The values of names (`session_id`, `head`, `path`, …) come from answers
that the walk has seen, so that most calls make sense. A mutation breaks one place.
"""

from __future__ import annotations

import copy
import json
import random
import re
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator, FormatChecker

from tests.fuzz.pools import Pools

__all__ = ["METHODS", "fits", "mutated_params", "params_for", "result_faults"]

_SCHEMA: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent.parent / "protocol.schema.json").read_text("utf-8")
)
_DEFS: Final[dict[str, Any]] = _SCHEMA["$defs"]
# These methods end the connection or the daemon.
_ENDING: Final = frozenset({"exit", "server/stop"})
METHODS: Final = tuple(name for name in _SCHEMA["methods"] if name not in _ENDING)
_OPTIONAL: Final = 0.35
_DEPTH_MAX: Final = 6

_TIMES: Final = (
    *("2026-01-15T10:30:00.000Z", "2026-01-15T10:30:00+14:00", "1970-01-01T00:00:00Z"),
    *("2026-02-30T10:30:00Z", "2026-01-15", "yesterday", "2026-01-15T24:00:00Z", "-1", "1e400"),
    *("9999-12-31T23:59:60Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", ""),
    *("2026-01-15t10:30:00z", "2026-01-15T10:30:00,5Z", "2026-01-15T10:30:00", "20260115T103000Z"),
    *("2026-W03-4", "2026-01-15 10:30:00Z", "2026-01-15T10:30:60Z", "2016-12-31T23:59:60Z"),
)
_TIME: Final = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)"
    r"(?:\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_IDS: Final = (
    *("..", ".", "a/b", "CON", "nul", "x" * 300, "x" * 128, "x" * 129, "short", "session-a\n"),
    *("../../etc/passwd", "%2e%2e", "session a", "SESSION-A", "séssion-1", "\0", "-", "--help"),
)
_TEXTS: Final = (
    *(
        "",
        " ",
        "a",
        "word",
        "\0",
        "a\nb",
        "\r\n",
        "\u2028\u2029",
        "\u202eabc",
        "\ufeffx",
        "\U0001f9e0",
    ),
    *("e\u0301", "\ud800", "x\udc00", "x" * 5000, "*", '"', "' OR 1=1 --", "{}", "%s%n", "\x1b[2J"),
    *("main", "user", "null", "NEAR(", 'a"b', "-a", "a*", "^a", "sessiond.x", "\uffff", "a:b/c.d"),
)
_NUMBERS: Final = (
    *(
        0,
        1,
        -1,
        2,
        99,
        100,
        101,
        512,
        10_000,
        10_001,
        2**31,
        2**53 - 1,
        2**53,
        2**53 + 1,
        2**63,
        2**64,
    ),
    *(-(2**63) - 1, 10**400, 0.5, 1.0, -0.0, 1e308, 5e-324, 3600000, 3600001),
)


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


_OTHERS: Final[tuple[Any, ...]] = (
    *(None, True, False, [], {}, [[]], {"": None}, [None], {"role": "user"}, {"type": "message"}),
    *(
        _deep(100),
        ["x"] * 1000,
        {f"k{n}": n for n in range(300)},
        {"role": 1},
        {"type": "zz", "id": 1},
    ),
)


def params_for(method: str, pools: Pools, dice: random.Random) -> Any:
    """Parameters that the schema allows, and that mostly mean something."""
    return _value(_SCHEMA["methods"][method]["params"], "", pools, dice, 0)


def _value(schema: dict[str, Any], name: str, pools: Pools, dice: random.Random, depth: int) -> Any:
    if "$ref" in schema:
        return _value(_DEFS[schema["$ref"].rpartition("/")[2]], name, pools, dice, depth)
    if "enum" in schema:
        return dice.choice(schema["enum"])
    if "allOf" in schema:
        return _value(schema["allOf"][0], name, pools, dice, depth)
    if "anyOf" in schema and schema.get("type") != "string":
        made = _value(dice.choice(schema["anyOf"]), name, pools, dice, depth)
        barred = {one for one, part in schema.get("properties", {}).items() if part is False}
        if isinstance(made, dict) and dice.random() < 0.9:
            return {one: made[one] for one in made if one not in barred}
        return made
    match schema.get("type"):
        case "object":
            return _object(schema, pools, dice, depth)
        case "array":
            return _array(schema, name, pools, dice, depth)
        case _:
            return _scalar(schema, name, pools, dice)


def _scalar(schema: dict[str, Any], name: str, pools: Pools, dice: random.Random) -> Any:
    match schema.get("type"):
        case "string":
            return _text(schema, name, pools, dice)
        case "integer" | "number":
            return _number(schema, dice)
        case "boolean":
            return dice.random() < 0.5
        case "null":
            return None
        case None:
            return dice.choice([*_OTHERS, "x", 1])
        case other:
            raise AssertionError(f"the schema has a new type, {other}")


def _array(schema: dict[str, Any], name: str, pools: Pools, dice: random.Random, depth: int) -> Any:
    parts = schema.get("prefixItems") or [schema.get("items", {})] * dice.choice([0, 1, 1, 2, 3])
    return [_value(part, name, pools, dice, depth + 1) for part in parts]


def _object(schema: dict[str, Any], pools: Pools, dice: random.Random, depth: int) -> Any:
    made = {}
    for name, part in schema.get("properties", {}).items():
        # Deep down, where types name themselves, only what has to be there.
        wanted = name in schema.get("required", ()) or name == "session_id"
        if wanted or (depth < _DEPTH_MAX and name != "_meta" and dice.random() < _OPTIONAL):
            made[name] = _value(part, name, pools, dice, depth + 1)
    if not schema.get("properties"):
        made = {"role": dice.choice(pools.of("role")), "content": dice.choice(["x", "word"])}
    return made


def _text(schema: dict[str, Any], name: str, pools: Pools, dice: random.Random) -> str:
    known = pools.of(name)
    if known and dice.random() < 0.9:
        return dice.choice(known)
    if name.endswith(("_after", "_before", "timestamp", "_at")):
        return dice.choice(_TIMES)
    if "pattern" in schema:
        names = ["session-1", "session-2", "session-new", "main", "two", "x"]
        return dice.choice([one for one in names if re.search(schema["pattern"], one)])
    least, most = schema.get("minLength", 0), schema.get("maxLength", 10**6)
    return dice.choice([one for one in _TEXTS if least <= len(one) <= most])


def _number(schema: dict[str, Any], dice: random.Random) -> float:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -(2**31)))
    high = schema.get("maximum", 2**53 - 1)
    whole = schema["type"] == "integer"
    fitting = [
        one for one in _NUMBERS if low <= one <= high and (isinstance(one, int) or not whole)
    ]
    chosen = dice.choice(fitting)
    # Emacs and Lua write whole numbers so: 1.0, which the schema calls an integer.
    return float(chosen) if abs(chosen) < 2**53 and dice.random() < 0.2 else chosen


def mutated_params(params: Any, dice: random.Random) -> Any:
    """Return the parameters with one fault, at any depth."""
    if dice.random() < 0.03 or not isinstance(params, dict) or not params:
        return dice.choice(_OTHERS)
    params = copy.deepcopy(params)
    place: Any = params
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = dice.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and dice.random() < 0.6:
            place = inner
            continue
        break
    match dice.randrange(6):
        case 0:
            del place[key]
        case 1 if isinstance(place, dict):
            place[dice.choice(["typo", "", "session_Id", "__proto__", "_meta", "\ud800"])] = 1
        case 2:
            place[key] = dice.choice([*_IDS, *_TIMES])
        case 3:
            place[key] = dice.choice(_TEXTS)
        case 4:
            place[key] = dice.choice(_NUMBERS)
        case _:
            place[key] = dice.choice(_OTHERS)
    return params


_formats: Final = FormatChecker(formats=())


@_formats.checks("date-time")
def _is_time(value: object) -> bool:
    """RFC 3339, section 5.6; where in a year a leap second may be is left open."""
    if not isinstance(value, str):
        return True
    found = _TIME.fullmatch(value)
    if found is None:
        return False
    year, month, day = map(int, found["day"].split("-"))
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    return 1 <= month <= 12 and 1 <= day <= days[month - 1]


@_formats.checks("date-time-local")
def _is_local_time(value: object) -> bool:
    """Return whether a value is a time of RFC 3339 without its offset."""
    return not isinstance(value, str) or (not _is_time(value) and _is_time(f"{value}Z"))


def _validator(
    schema: dict[str, Any], formats: FormatChecker | None = None
) -> Draft202012Validator:
    return Draft202012Validator({**schema, "$defs": _DEFS}, format_checker=formats)


# Answers may contain times from foreign files in any spelling.
_PARAMS: Final = {
    name: _validator(one["params"], _formats) for name, one in _SCHEMA["methods"].items()
}
_RESULTS: Final = {name: _validator(one["result"]) for name, one in _SCHEMA["methods"].items()}


def fits(method: str, params: Any) -> bool:
    """Return whether the schema allows these parameters; null and [] count as {}."""
    return _PARAMS[method].is_valid({} if params is None or params == [] else params)


def result_faults(method: str, result: Any) -> list[str]:
    """Return the ways in which a result breaks the published schema."""
    return [f"{one.json_path}: {one.message}"[:300] for one in _RESULTS[method].iter_errors(result)]
