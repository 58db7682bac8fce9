"""Answers of the server, encoded by a thread.

Law: pygls encodes an answer on the event loop, which for an outline takes longer than a step may. An
answer encoded here is put into its message as it is.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from anyio import to_thread
from cattrs import Converter
from lsprotocol import types
from msgspec import Struct
from pygls.exceptions import JsonRpcException, JsonRpcRequestCancelled

from sessiond.lsp.features.desk import Refusal
from sessiond.lsp.progress import Cancelled

Handler = Callable[[Any], Any]


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


class Refused(JsonRpcException):
    """A command that could not be carried out, as the editor is told."""

    CODE = types.LSPErrorCodes.RequestFailed.value


def answering(answer: Callable[[Any], Awaitable[Any]], converter: Converter) -> Handler:
    """Return a handler whose answers are encoded by a thread.

    Refusals and cancellations become errors of the protocol.
    """

    async def wait(params: Any) -> Any:
        try:
            found = await answer(params)
        except Refusal as refusal:
            raise Refused(str(refusal)) from refusal
        except Cancelled as cancelled:
            raise JsonRpcRequestCancelled from cancelled
        return await to_thread.run_sync(encoded, converter, found)

    return wait


def handler_of(handler: Handler, converter: Converter) -> Handler:
    """Return a function of its own for pygls to mark, since a bound method takes no marks."""
    if inspect.iscoroutinefunction(handler):
        return answering(handler, converter)

    def act(params: Any) -> Any:
        return handler(params)

    return act
