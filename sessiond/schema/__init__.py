"""Machine-readable protocol: one document per format, generated from the types the daemon runs on.

Law: no fact is written down twice. Names, parameters and results come from `METHODS`, notifications
and entries from the model, errors from `ERRORS`. A test compares the checked-in documents with the
generated text (`make schema` writes them).

    shapes.py      every shape on the wire as JSON Schema
    jsonschema.py  protocol.schema.json
    openrpc.py     protocol.openrpc.json
    typescript.py  protocol.d.ts
    error_data.py  the data of each error
    python/        parts of the Python client
    typescript_client.py  parts of the TypeScript client
    __main__.py    writes the parts of the clients
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from sessiond.schema.jsonschema import json_schema
from sessiond.schema.openrpc import openrpc_document
from sessiond.schema.python import FILES, FOLDER
from sessiond.schema.typescript import typescript_text
from sessiond.schema.typescript_client import FILES as TYPESCRIPT_FILES
from sessiond.schema.typescript_client import FOLDER as TYPESCRIPT_FOLDER

__all__ = ["CLIENTS", "FORMATS", "openrpc_bytes"]


def _indented(document: object) -> str:
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"


FORMATS: Final[dict[str, Callable[[], str]]] = {
    "jsonschema": lambda: _indented(json_schema()),
    "openrpc": lambda: _indented(openrpc_document()),
    "typescript": typescript_text,
}
"""Function that returns the text of each format, identical in every run."""

CLIENTS: Final[dict[str, Callable[[], str]]] = {
    **{f"{FOLDER}/{name}": text for name, text in FILES.items()},
    **{f"{TYPESCRIPT_FOLDER}/{name}": text for name, text in TYPESCRIPT_FILES.items()},
}
"""Function that returns the text of each generated file of a client, by its path in the checkout."""


@cache
def openrpc_bytes() -> bytes:
    """Return the answer of `rpc.discover`, made once."""
    return msgspec.json.encode(openrpc_document())
