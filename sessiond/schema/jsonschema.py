"""The protocol as JSON Schema, draft 2020-12."""

from __future__ import annotations

import inspect
from typing import Any, Final

from sessiond.errors import ERRORS, SessiondError
from sessiond.methods import METHODS
from sessiond.methods.initialize import PROTOCOL_VERSIONS
from sessiond.model.events import NOTIFICATIONS
from sessiond.model.requests import CLIENT_REQUESTS
from sessiond.schema.shapes import CLIENT_NOTIFICATIONS, ENTRIES, Shapes, summary_of

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return methods, notifications, entries and errors, each with its schemas."""
    shapes = Shapes("#/$defs/{name}")
    return {
        "$schema": _DIALECT,
        "title": "The protocol of sessiond",
        "protocol_version": PROTOCOL_VERSIONS[0],
        "methods": {
            method.name: {
                "summary": summary_of(method),
                "aliases": list(method.aliases),
                "access": method.access,
                "params": shapes.of(method.params),
                "result": shapes.of(method.result),
            }
            for method in METHODS
        },
        "client_notifications": {
            name: {"params": shapes.of(kind)} for name, kind in CLIENT_NOTIFICATIONS.items()
        },
        "notifications": {
            name: {"params": shapes.of(kind)} for name, kind in NOTIFICATIONS.items()
        },
        "client_requests": {
            name: {"params": shapes.of(asked.params), "result": shapes.of(asked.result)}
            for name, asked in CLIENT_REQUESTS.items()
        },
        "entries": {word: shapes.of(kind) for word, kind in ENTRIES.items()},
        "errors": [_error(kind) for kind in ERRORS],
        "$defs": shapes.components,
    }


def _error(kind: type[SessiondError]) -> dict[str, Any]:
    return {
        "code": kind.code,
        "kind": kind.kind,
        "retryable": kind.retryable,
        "meaning": " ".join((inspect.getdoc(kind) or "").split()),
    }
