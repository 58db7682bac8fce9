"""JSON Schemas of all shapes on the wire, for every document format.

msgspec derives schemas from the types. This module adds two facts that msgspec cannot know: the
type inside a `Raw` field (its `x-holds` mark), and that a member which is always sent is required
there, although the struct that it is encoded from has a default for it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any, Final, get_args

import msgspec
from msgspec import NODEFAULT, UNSET, Struct

from sessiond.methods import METHODS
from sessiond.methods._shared.common import ASSIGNED, SENT_TYPES
from sessiond.model.entries import ENTRY_TYPES, HEADER_TYPES, HOLDS, Header
from sessiond.model.events import NOTIFICATIONS
from sessiond.model.requests import CLIENT_REQUESTS
from sessiond.rpc.dispatch import CancelParams, Method
from sessiond.service.client import Client

Schema = dict[str, Any]
Json = dict[str, Any] | list[Any] | str | float | None

ENTRIES: Final[dict[str, type[Struct]]] = {"session_header": Header, **ENTRY_TYPES}
"""Types that a line of a native file may have, by type word."""

CLIENT_NOTIFICATIONS: Final[dict[str, type[Struct]]] = {"$/cancelRequest": CancelParams}
"""Notifications that a client may send besides the methods; they are never answered."""


class Shapes:
    """The schemas of all types, which refer to each other by `ref_template`."""

    def __init__(self, ref_template: str) -> None:
        self._ref_template = ref_template
        types = [
            *(kind for method in METHODS for kind in (method.params, *_forms(method.result))),
            *NOTIFICATIONS.values(),
            *CLIENT_NOTIFICATIONS.values(),
            *(kind for asked in CLIENT_REQUESTS.values() for kind in asked),
            *ENTRIES.values(),
            *SENT_TYPES.values(),
        ]
        schemas, components = msgspec.json.schema_components(types, ref_template=ref_template)
        self._schema_of = dict(zip(types, schemas, strict=True))
        for kind in _only_sent():
            if kind.__name__ in components:
                components[kind.__name__]["required"] = _always_sent(kind)
        components |= self._held()
        self.components: dict[str, Schema] = {
            name: self._resolved(components[name]) for name in sorted(components)
        }
        """Schemas by the name of their type."""
        self.parents = {kind.__name__: self._parent_of(kind) for kind in _reached(types)}
        """Names of the nearest parents whose members the types have, as they are there."""

    def of(self, kind: Any) -> Schema:
        """Return a reference to the schema of a type, or to those of its forms."""
        forms = [self._resolved(self._schema_of[form]) for form in _forms(kind)]
        return forms[0] if len(forms) == 1 else {"anyOf": forms}

    def ref(self, name: str) -> Schema:
        """Return a reference to a component."""
        return {"$ref": self._ref_template.format(name=name)}

    def _parent_of(self, kind: type[Struct]) -> str | None:
        own, *parents = (_members(self.components.get(one.__name__, {})) for one in kind.__mro__)
        for parent, members in zip(kind.__mro__[1:], parents, strict=True):
            # A parent of one member is not worth its name.
            if len(members) > 1:
                return parent.__name__ if own >= members else None
        return None

    def _held(self) -> dict[str, Schema]:
        """Return the schemas of the types inside `Raw` fields."""
        known = [self.ref(kind.__name__) for kind in ENTRY_TYPES.values()]
        unknown = {"not": {"enum": [*SENT_TYPES, *sorted(HEADER_TYPES)]}}
        return {
            "AnyEntry": {"anyOf": [self.ref("KnownEntry"), self.ref("OpaqueEntry")]},
            "SentEntry": {
                "description": "An entry as a client sends it; the daemon decides on its place.",
                "type": "object",
                "properties": dict.fromkeys(ASSIGNED, False),
                "anyOf": [
                    *(self.ref(kind.__name__) for kind in SENT_TYPES.values()),
                    {"allOf": [self.ref("OpaqueEntry"), {"properties": {"type": unknown}}]},
                ],
            },
            "KnownEntry": {
                "description": "An entry of a type that sessiond knows, told apart by `type`.",
                "anyOf": known,
            },
            "OpaqueEntry": {
                "description": "An entry of a type that sessiond does not know, kept as it came.",
                "type": "object",
                "properties": {"type": {"type": "string"}},
                "required": ["type"],
                "additionalProperties": True,
            },
            "AgentMessage": {
                "description": "A message as its writer spelled it; only `role` is looked at.",
                "type": "object",
                "properties": {"role": {"type": "string"}},
                "required": ["role"],
                "additionalProperties": True,
            },
        }

    def _resolved(self, schema: Schema) -> Schema:
        """Return the schema with each `x-holds` mark replaced and each description unindented.

        Python 3.13 takes the indentation out of docstrings when it compiles them, 3.12 does not.
        """

        def resolve(part: Schema) -> Schema:
            if HOLDS in part:
                return self.ref(part[HOLDS])
            told = part.get("description")
            return part | {"description": inspect.cleandoc(told)} if isinstance(told, str) else part

        resolved: Schema = respelled(schema, resolve)
        return resolved


def _members(schema: Schema) -> set[tuple[str, bytes, bool]]:
    parts = schema.get("properties", {}).items()
    return {(name, msgspec.json.encode(part), name in schema["required"]) for name, part in parts}


def respelled(schema: Json, respell: Callable[[Schema], Schema]) -> Any:
    """Return the schema with `respell` applied to every object in it, the inner ones first."""
    if isinstance(schema, list):
        return [respelled(part, respell) for part in schema]
    if isinstance(schema, dict):
        return respell({name: respelled(part, respell) for name, part in schema.items()})
    return schema


def summary_of(method: Method[Client, Any]) -> str:
    """Return the summary of a method: the first line of its module, without the method's name."""
    text = inspect.getdoc(sys.modules[method.handle.__module__]) or ""
    return text.partition("\n")[0].removeprefix(f"{method.name}: ")


def _forms(result: Any) -> tuple[Any, ...]:
    """Return the types that a result may have, since msgspec takes no union of them."""
    return get_args(result) or (result,)


def _only_sent() -> set[type[Struct]]:
    """Return the types that only results and notifications use; the daemon never decodes them."""
    asked = CLIENT_REQUESTS.values()
    sent = [*(method.result for method in METHODS), *NOTIFICATIONS.values()]
    taken = [*(method.params for method in METHODS), *ENTRIES.values()]
    return _reached([*sent, *(one.params for one in asked)]) - _reached(
        [*taken, *(one.result for one in asked)]
    )


def _reached(roots: Iterable[Any]) -> set[type[Struct]]:
    found: set[type[Struct]] = set()
    waiting = list(roots)
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, Struct) and kind not in found:
            found.add(kind)
            waiting += [field.type for field in msgspec.structs.fields(kind)]
    return found


def _always_sent(kind: type[Struct]) -> list[str]:
    """Return the members that are always sent, even with their default values."""
    omits = kind.__struct_config__.omit_defaults
    return [
        field.encode_name
        for field in msgspec.structs.fields(kind)
        if field.required
        or not (
            omits or field.default is UNSET or field.default is field.default_factory is NODEFAULT
        )
    ]
