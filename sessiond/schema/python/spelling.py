"""JSON Schema to annotations of Python: as results are read, and as parameters are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sessiond.schema.shapes import Schema

_PLAIN: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
}
# Payloads that travel as the bytes a program has, if it has bytes.
_PAYLOADS: Final = frozenset({"AgentMessage", "SentEntry"})


def read_as(schema: Schema, names: Mapping[str, str]) -> list[str]:
    """Return the types that a field of a result may have; an object without a name is a dict."""

    def spell(part: Schema) -> list[str]:
        if "$ref" in part:
            return [names.get(part["$ref"], "dict[str, Any]")]
        if "enum" in part:
            return [type(value).__name__ for value in part["enum"]]
        if part.get("type") == "array":
            return [f"list[{joined(_alternatives(part.get('items', {}), spell))}]"]
        return [_plain(part)]

    return _alternatives(schema, spell)


def given(schema: Schema) -> list[str]:
    """Return the types that a parameter may have."""

    def spell(part: Schema) -> list[str]:
        if "$ref" in part:
            return ["Json", "Raw"] if part["$ref"] in _PAYLOADS else ["Json"]
        if "enum" in part:
            return [f"Literal[{', '.join(map(_quoted, part['enum']))}]"]
        if part.get("type") == "array":
            return [f"Sequence[{joined(_alternatives(part['items'], spell))}]"]
        return [_plain(part)]

    return _alternatives(schema, spell)


def is_nullable(schema: Schema) -> bool:
    """Return whether null means something else than leaving the parameter out."""
    return not ("default" in schema and schema["default"] is None)


def joined(types: list[str]) -> str:
    """Return the union of types, None last."""
    known = list(dict.fromkeys(types))
    if "Any" in known:
        return "Any"
    return " | ".join(sorted(known, key=lambda kind: kind == "None"))


def _alternatives(schema: Schema, spell: Callable[[Schema], list[str]]) -> list[str]:
    # Beside a type, alternatives are formats of that type.
    parts: list[Schema] = [schema] if "type" in schema else schema.get("anyOf", [schema])
    return [kind for part in parts for kind in spell(part)]


def _plain(part: Schema) -> str:
    kind = part.get("type")
    if kind is None:
        return "Any"
    assert kind in _PLAIN, f"no Python for the schema {part}"
    return _PLAIN[kind]


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
