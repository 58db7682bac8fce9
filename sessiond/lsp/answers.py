"""Answers of the server, encoded by a thread.

Law: pygls encodes an answer on the event loop, which for an outline takes longer than a step may. An
answer encoded here is put into its message as it is.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from cattrs import Converter
from msgspec import Struct

__all__ = ["Encoded", "encoded"]


class Encoded(Struct, frozen=True):
    """An answer as JSON."""

    body: bytes

    def message(self, request_id: str | int) -> bytes:
        """Return the whole message that answers a request."""
        numbered = json.dumps(request_id).encode()
        content = b'{"id":%b,"jsonrpc":"2.0","result":%b}' % (numbered, self.body)
        return b"Content-Length: %d\r\n\r\n%b" % (len(content), content)


def encoded(converter: Converter, answer: object) -> Encoded:
    """Return an answer as JSON."""
    plain: Any = converter.unstructure(answer)
    try:
        return Encoded(msgspec.json.encode(plain))
    except UnicodeEncodeError:
        # Half of a pair, from an editor's text or address: only `json` has a spelling for it.
        return Encoded(json.dumps(plain).encode())
