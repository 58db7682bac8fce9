"""Machine-readable protocol: one document per format, generated from the types the daemon runs on.

Law: no fact is written down twice. Names, parameters and results come from `METHODS`, notifications
and entries from the model, errors from `ERRORS`. A test compares the checked-in documents with the
generated text (`make schema` writes them).

    shapes.py      every shape on the wire as JSON Schema
    jsonschema.py  protocol.schema.json
    openrpc.py     protocol.openrpc.json
    typescript.py  protocol.d.ts
    error_data.py  the data of each error
    repeats.py     which mutations may be sent again
    python/        parts of the Python client
    typescript_client.py  parts of the TypeScript client
    clients.py     every generated file of a client
    __main__.py    writes the parts of the clients
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from sessiond.schema.jsonschema import json_schema
from sessiond.schema.openrpc import openrpc_document
from sessiond.schema.typescript import typescript_text


def _indented(document: object) -> str:
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"


FORMATS: Final[dict[str, Callable[[], str]]] = {
    "jsonschema": lambda: _indented(json_schema()),
    "openrpc": lambda: _indented(openrpc_document()),
    "typescript": typescript_text,
}
"""Function that returns the text of each format, identical in every run."""


@cache
def openrpc_bytes() -> bytes:
    """Return the answer of `rpc.discover`, made once."""
    return msgspec.json.encode(openrpc_document())
