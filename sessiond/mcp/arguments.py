"""Arguments of tools and prompts: what is wrong with those of a call, so that a model can mend the call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import jsonschema

Schema = Mapping[str, Any]

_NAME_CHARS: Final = 64
_KINDS: Final = {"string": "a text", "integer": "an integer"}


def faults(name: str, schema: Schema, given: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the arguments of a call by the schema of its tool; None if they fit."""
    known, said = schema["properties"], dict[str, str]()
    rules: Any = jsonschema.Draft202012Validator(schema)
    for error in rules.iter_errors(dict(given)):
        match error.validator:
            case "required":
                missing = (one for one in schema["required"] if one not in given)
                said |= dict.fromkeys(missing, "is missing")
            case "additionalProperties":
                unknown = f"is unknown; there are {', '.join(known)}"
                said |= dict.fromkeys((one for one in given if one not in known), unknown)
            case _:
                argument = str(error.absolute_path[0])
                said[argument] = f"has to be {_kind(known[argument])}"
    return wrong(name, schema, said) if said else None


def wrong(name: str, schema: Schema, said: Mapping[str, str]) -> str:
    """Return an error that names a tool, each wrong argument, and a call that fits the schema."""
    shown = {
        one: rules["examples"][0]
        for one, rules in schema["properties"].items()
        if "examples" in rules and (one in schema["required"] or one in said)
    }
    told = "; ".join(f"the argument {one[:_NAME_CHARS]!r} {what}" for one, what in said.items())
    return f"{name}: {told}. Example: {name} {json.dumps(shown)}"


def _kind(rules: Schema) -> str:
    """Return what an argument has to be, in words."""
    if "enum" in rules:
        return f"one of {', '.join(rules['enum'])}"
    kind = _KINDS[rules["type"]]
    if "maximum" in rules:
        return f"{kind} from {rules['minimum']} to {rules['maximum']}"
    if "minimum" in rules:
        return f"{kind} from {rules['minimum']} on"
    return kind
