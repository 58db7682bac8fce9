"""The client's types of results, notifications and requests, as modules of structs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from sessiond.model.events import NOTIFICATIONS
from sessiond.model.requests import CLIENT_REQUESTS
from sessiond.schema.python.layout import all_names, braced, docstring, header, imports
from sessiond.schema.python.names import (
    ALIASES,
    BASES,
    INSTEAD,
    MEMBERS,
    MESSAGES,
    NOTES,
    REQUESTS,
    RESULTS,
    SETTINGS,
    TYPES,
    Row,
)
from sessiond.schema.python.spelling import joined, read_as
from sessiond.schema.shapes import Schema, Shapes

_PACKAGE: Final = "sessiond_client.generated"
_FIELD: Final = re.compile(r"(?P<name>\w+)(?P<mark>!\?|[?~!]|=\w*|)")
_EMPTY: Final = {"str": '""', "int": "0", "float": "0.0", "bool": "False"}
_MODULES: Final[dict[str, tuple[Row, ...]]] = {
    "messages": MESSAGES,
    "results": RESULTS,
    "requests": REQUESTS,
}
HOMES: Final = {
    **{row[0]: module for module, rows in _MODULES.items() for row in rows},
    **{name: module for module, names in ALIASES.items() for name in names},
}
"""The module of each type."""
_NAMES: Final = {
    component: row[0] for rows in _MODULES.values() for row in rows for component in row[1].split()
}
# Of a module: the types of what the daemon sends, by method, the name of that table, and its type.
_TABLES: Final = {
    "messages": (NOTIFICATIONS, "NOTIFICATIONS", "Struct"),
    "requests": (
        {method: asked.params for method, asked in CLIENT_REQUESTS.items()},
        "REQUESTS",
        "Subject",
    ),
}


class _Field(Struct, frozen=True):
    """A field of a struct as it is written, and the property that decodes it, if one does."""

    line: str
    reading: str = ""


def messages_text() -> str:
    """Return the module of the daemon's notifications, and of its answers to subscriptions."""
    return _module(
        "messages", "Notifications of the daemon to its subscribers, as the client reads them."
    )


def results_text() -> str:
    """Return the module of the daemon's answers."""
    return _module("results", "Answers of the daemon, as the client reads them.")


def requests_text() -> str:
    """Return the module of the daemon's requests to a client."""
    return _module("requests", "Requests of the daemon to a client that offered to answer.")


def _module(module: str, told: str) -> str:
    components = Shapes("{name}").components
    rows = _MODULES[module]
    body = "".join(f"\n\n{_struct(row, components)}" for row in rows)
    aliases = ALIASES.get(module, {})
    if aliases:
        body += "\n\n" + "".join(f"{name} = {kind}\n" for name, kind in aliases.items())
    names = [*(row[0] for row in rows), *aliases]
    if module in _TABLES:
        kinds, name, about = _TABLES[module]
        known = [
            f'"{method}": {_NAMES[kind.__name__]}'
            for method, kind in kinds.items()
            if kind.__name__ in _NAMES
        ]
        body += f"\n{name}: Final[dict[str, type[{about}]]] = {braced('', known)}\n"
        body += '"""Types of the parameters, by method."""\n'
        names.append(name)
    return (
        "\n".join(part for part in (header(told), _imports(module, body), all_names(names)) if part)
        + body
    )


def _imports(module: str, body: str) -> str:
    """Return the imports that the structs of a module need, block by block."""
    used = set(re.findall(r"\w+", re.sub(r'""".*?"""', "", body, flags=re.DOTALL)))
    outside = {name for name, home in HOMES.items() if home != module and name in used}
    standard = imports("collections.abc", used & {"Mapping"})
    standard += imports("functools", used & {"cached_property"})
    standard += imports("typing", used & {"Any", "Final", "Literal"})
    third = "import msgspec\n" if "msgspec.field" in body else ""
    third += imports("msgspec", used & {"UNSET", "Raw", "Struct", "UnsetType"})
    own = imports("sessiond_client", used & {"wire"})
    for home in _MODULES:
        own += imports(f"{_PACKAGE}.{home}", (name for name in outside if HOMES[name] == home))
    return "\n".join(block for block in (standard, third, own) if block)


def _struct(row: Row, components: Mapping[str, Schema]) -> str:
    name, sources, fields = row
    found = [components[source] for source in sources.split()]
    written = [
        _field(name, match["name"], match["mark"], _schemas(name, match["name"], found))
        for match in map(_FIELD.fullmatch, fields.split())
        if match is not None
    ]
    assert len(written) == len(fields.split()), f"{name}: {fields}"
    readings = [field.reading for field in written if field.reading]
    settings = ["frozen=True", *(["dict=True"] if readings else [])]
    settings += [SETTINGS[name]] if name in SETTINGS else []
    head = f"class {name}({BASES.get(name, 'Struct')}, {', '.join(settings)}):\n"
    told = docstring(
        [
            *(INSTEAD.get(name) or found[0].get("description", "")).split("\n\n"),
            NOTES.get(name, ""),
        ]
    )
    members = [*readings, *([MEMBERS[name]] if name in MEMBERS else [])]
    return "\n".join([head + told, "".join(field.line for field in written), *members])


def _schemas(owner: str, field: str, components: Iterable[Schema]) -> list[Schema]:
    """Return what the components say of a field; those without the field say nothing."""
    parts = [one["properties"][field] for one in components if field in one["properties"]]
    assert parts, f"{owner}.{field} is in no component"
    return parts


def _field(owner: str, name: str, mark: str, schemas: list[Schema]) -> _Field:
    kind = TYPES.get(f"{owner}.{name}") or joined(
        [kind for schema in schemas for kind in read_as(schema, _NAMES)]
    )
    if mark.startswith("!"):
        return _raw(name, kind, is_optional=mark == "!?")
    line = f"    {name}: {_with_default(kind, mark)}\n"
    note = NOTES.get(f"{owner}.{name}")
    return _Field(line + (docstring([note]) if note else ""))


def _with_default(kind: str, mark: str) -> str:
    optional = kind if kind == "Any" or kind.endswith("None") else f"{kind} | None"
    match mark:
        case "":
            return kind
        case "?":
            return f"{optional} = None"
        case "~":
            return f"{joined([*kind.split(' | '), 'UnsetType'])} = UNSET"
        case _:
            return f"{kind} = {_default(kind, mark[1:])}"


def _default(kind: str, word: str) -> str:
    if word:
        return word.capitalize() if kind == "bool" else f'"{word}"'
    if kind == "list[Any]":
        return "msgspec.field(default_factory=list[Any])"
    return _EMPTY.get(kind) or ("[]" if kind.startswith("list[") else f"{kind}()")


def _raw(name: str, kind: str, *, is_optional: bool) -> _Field:
    """Return a field that is kept as bytes, and the property that reads them."""
    if kind.startswith("list["):
        line = (
            f'    raw_{name}: list[Raw] = msgspec.field(name="{name}", default_factory=list[Raw])\n'
        )
        reading = f"[wire.READ_ANY(one) for one in self.raw_{name}]"
        kind = "list[Any]"
    else:
        default = ', default=Raw(b"null")' if is_optional else ""
        line = f'    raw: Raw = msgspec.field(name="{name}"{default})\n'
        reading = f"wire.{'READ_ANY' if kind == 'Any' else 'READ_OBJECT'}(self.raw)"
    told = f'"""The {name}, decoded at the first use."""'
    property_ = f"    @cached_property\n    def {name}(self) -> {kind}:\n        {told}\n        return {reading}\n"
    return _Field(line, property_)
