"""The protocol as JSON Schema, generated from the types that the daemon decodes with.

Law: nothing is written down twice. Names, parameters and results come from
`METHODS`, notifications and entries from the model, errors from `ERRORS`; the
checked-in protocol.schema.json is compared with this text by a test.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Final, get_args

import msgspec

from sessiond.errors import ERRORS, SessiondError
from sessiond.methods import METHODS
from sessiond.methods.common import Client, Method
from sessiond.methods.initialize import PROTOCOL_VERSIONS
from sessiond.model.entries import ENTRY_TYPES, Header
from sessiond.model.events import NOTIFICATIONS

__all__ = ["schema_text"]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema_text() -> str:
    """The whole document, the same in every run."""
    entries: dict[str, Any] = {"session_header": Header, **ENTRY_TYPES}
    types = [
        *(kind for method in METHODS for kind in (method.params, *_forms(method.result))),
        *NOTIFICATIONS.values(),
        *entries.values(),
    ]
    schemas, components = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    schema_of = dict(zip(types, schemas, strict=True))
    document = {
        "$schema": _DIALECT,
        "title": "The protocol of sessiond",
        "protocol_version": PROTOCOL_VERSIONS[0],
        "methods": {method.name: _method(method, schema_of) for method in METHODS},
        "notifications": {
            name: {"params": schema_of[kind]} for name, kind in NOTIFICATIONS.items()
        },
        "entries": {word: schema_of[kind] for word, kind in entries.items()},
        "errors": [_error(kind) for kind in ERRORS],
        "$defs": dict(sorted(components.items())),
    }
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"


def _method(method: Method[Client, Any], schema_of: dict[Any, Any]) -> dict[str, Any]:
    forms = [schema_of[form] for form in _forms(method.result)]
    return {
        "summary": _summary(method),
        "aliases": list(method.aliases),
        "access": method.access,
        "params": schema_of[method.params],
        "result": forms[0] if len(forms) == 1 else {"anyOf": forms},
    }


def _forms(result: Any) -> tuple[Any, ...]:
    """The types that a result may have: msgspec takes no union of them."""
    return get_args(result) or (result,)


def _summary(method: Method[Client, Any]) -> str:
    """What the method's module says it does: its first line, behind the method's name."""
    text = inspect.getdoc(sys.modules[method.handle.__module__]) or ""
    return text.partition("\n")[0].removeprefix(f"{method.name}: ")


def _error(kind: type[SessiondError]) -> dict[str, Any]:
    return {
        "code": kind.code,
        "kind": kind.kind,
        "retryable": kind.retryable,
        "meaning": " ".join((inspect.getdoc(kind) or "").split()),
    }
