"""The protocol as an OpenRPC document, which `rpc.discover` answers.

`x-` members hold the parts that OpenRPC has no place for: a method's `x-aliases`, `x-access` and `x-repeat`,
the daemon's notifications in `x-notifications`, and its requests to clients that offered to answer
them in `x-client-requests` (OpenRPC's methods are what a client calls). A method without a result
is a notification to the daemon.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

import msgspec
from msgspec import Struct

from sessiond.errors import (
    ERRORS,
    Cancelled,
    Draining,
    Internal,
    InvalidParams,
    Overloaded,
    PermissionDenied,
    SessionCorrupt,
    SessiondError,
    SessionLocked,
    SessionNotFound,
    StorageError,
    TooLarge,
)
from sessiond.methods import METHODS
from sessiond.methods.initialize import PROTOCOL_VERSIONS
from sessiond.model.events import NOTIFICATIONS
from sessiond.model.requests import CLIENT_REQUESTS
from sessiond.rpc.dispatch import Method
from sessiond.schema.repeats import REPEATS
from sessiond.schema.shapes import CLIENT_NOTIFICATIONS, Schema, Shapes, respelled, summary_of
from sessiond.service.client import Client

_SPECIFICATION: Final = "1.3.2"
_DESCRIPTION: Final = (
    "sessiond owns agent sessions: it keeps each as a tree of entries in one append-only file, and any number "
    "of clients write, read and watch it. Spoken over a Unix socket or stdio, as newline-delimited JSON or with "
    "Content-Length headers; parameters go by name. protocol.md explains the shapes."
)
_ANY_METHOD: Final = (InvalidParams, PermissionDenied, TooLarge, Internal, Cancelled)
_ANY_SESSION: Final = (
    SessionNotFound,
    SessionCorrupt,
    SessionLocked,
    StorageError,
    Overloaded,
    Draining,
)


def openrpc_document() -> dict[str, Any]:
    """Return the document, identical in every run."""
    shapes = Shapes("#/components/schemas/{name}")
    return {
        "openrpc": _SPECIFICATION,
        "info": {
            "title": "The protocol of sessiond",
            "version": PROTOCOL_VERSIONS[0],
            "description": _DESCRIPTION,
        },
        "methods": [
            *(_method(method, shapes) for method in METHODS),
            *(
                {"name": name, **_params(kind, shapes), "x-access": "status"}
                for name, kind in CLIENT_NOTIFICATIONS.items()
            ),
        ],
        "components": {
            "schemas": {name: _draft_07(schema) for name, schema in shapes.components.items()},
            "errors": {kind.kind: _error(kind) for kind in ERRORS},
        },
        "x-notifications": [
            {"name": name, "summary": _sentence(kind), **_params(kind, shapes)}
            for name, kind in NOTIFICATIONS.items()
        ],
        "x-client-requests": [
            {
                "name": name,
                "summary": _sentence(asked.params),
                **_params(asked.params, shapes),
                "result": {"name": "result", "schema": _draft_07(shapes.of(asked.result))},
            }
            for name, asked in CLIENT_REQUESTS.items()
        ],
    }


def general_errors(method: Method[Client, Any]) -> tuple[type[SessiondError], ...]:
    """Return the errors that any method may answer, with those of any method on a session.

    The latter are included if the method has a `session_id`.
    """
    on_session = "session_id" in method.params.__struct_fields__
    return (*_ANY_METHOD, *(_ANY_SESSION if on_session else ()))


def _method(method: Method[Client, Any], shapes: Shapes) -> dict[str, Any]:
    # In the order of `ERRORS`, each once.
    may_be = {*general_errors(method), *method.errors}
    errors = [error for error in ERRORS if error in may_be]
    repeat = REPEATS.get(method.name)
    return {
        "name": method.name,
        "summary": summary_of(method),
        **_params(method.params, shapes),
        "result": {"name": "result", "schema": _draft_07(shapes.of(method.result))},
        "errors": [{"$ref": f"#/components/errors/{error.kind}"} for error in errors],
        "x-aliases": list(method.aliases),
        "x-access": method.access,
        "x-repeat": None if repeat is None else {"kind": repeat.kind, "check": repeat.check},
    }


def _params(kind: type[Struct], shapes: Shapes) -> dict[str, Any]:
    """Return one content descriptor per parameter.

    They keep the order of the type, but required ones come first.
    """
    schema = shapes.components[kind.__name__]
    required = set(schema["required"])
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    params: list[dict[str, Any]] = []
    for name in sorted(names, key=lambda name: name not in required):
        part = dict(_draft_07(schema["properties"][name]))
        told = part.pop("description", None)
        params.append(
            {
                "name": name,
                **({"summary": told} if told else {}),
                "required": name in required,
                "schema": part,
            }
        )
    return {"paramStructure": "by-name", "params": params}


def _draft_07(schema: Schema) -> Schema:
    """Return the schema in draft 7, which OpenRPC uses and which spells tuples otherwise."""
    spelled: Schema = respelled(schema, _with_items)
    return spelled


def _with_items(schema: Schema) -> Schema:
    if "prefixItems" not in schema:
        return schema
    rest = {name: part for name, part in schema.items() if name not in {"prefixItems", "items"}}
    return {**rest, "items": schema["prefixItems"], "additionalItems": schema.get("items", True)}


def _error(kind: type[SessiondError]) -> dict[str, Any]:
    return {
        "code": kind.code,
        "message": _sentence(kind),
        "data": {"kind": kind.kind, "retryable": kind.retryable},
    }


def _sentence(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").split())
