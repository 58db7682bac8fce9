"""The protocol for machines: one document per format, generated from the types the daemon runs on.

Law: nothing is written down twice. Names, parameters and results come from
`METHODS`, notifications and entries from the model, errors from `ERRORS`; what is
checked in is compared with today's text by a test (`make schema` writes it).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from sessiond.schema.jsonschema import json_schema
from sessiond.schema.openrpc import openrpc_document
from sessiond.schema.typescript import typescript_text

__all__ = ["FORMATS", "openrpc_bytes"]


def _indented(document: object) -> str:
    return msgspec.json.format(msgspec.json.encode(document)).decode() + "\n"


FORMATS: Final[dict[str, Callable[[], str]]] = {
    "jsonschema": lambda: _indented(json_schema()),
    "openrpc": lambda: _indented(openrpc_document()),
    "typescript": typescript_text,
}
"""The text of each format, the same in every run."""


@cache
def openrpc_bytes() -> bytes:
    """What `rpc.discover` answers; made once."""
    return msgspec.json.encode(openrpc_document())
