"""Protocol: pygls' protocol of a language server, with an error for each broken request.

Law: each request gets one answer. pygls takes a message apart before it looks at the id, so a broken
request would get none; here a message stays plain JSON until its envelope is checked. A log line
names a method that the server knows, and nothing else of a message.

pygls keeps no text here, since its documents split lines where the protocol does not.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from cattrs import BaseValidationError, transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from sessiond.lsp.answers import Encoded, Handler

_PARSE_ERROR: Final = "the body of the message is not JSON"
_BATCH: Final = "a batch is not supported: send each message in a frame of its own"
_NO_MESSAGE: Final = 'a message is an object with "jsonrpc": "2.0"'
_NO_METHOD: Final = "a request has a method, and the method is a string"
_NO_ID: Final = "the id of a request is a string or an integer"
_NOT_BEGUN: Final = "the first request is initialize"
_BEGUN: Final = "initialize was answered before, and is sent once"
_ENDED: Final = "no request is answered after shutdown; only exit may follow"


class Protocol(LanguageServerProtocol):
    """Protocol of pygls without the documents of pygls: `Editor` keeps the texts."""

    def __init__(self, server: LanguageServer, converter: Any) -> None:
        super().__init__(server, converter)
        self._is_begun = False
        # pygls runs a command apart from its request, and then a cancelled request does not end it.
        self.fm.add_builtin_feature(  # pyright: ignore[reportUnknownMemberType]
            types.WORKSPACE_EXECUTE_COMMAND, self._execute_command
        )

    async def _execute_command(self, params: types.ExecuteCommandParams) -> Any:
        return await self._feature(types.WORKSPACE_EXECUTE_COMMAND)(params)

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Return a JSON object as it is: pygls calls this for each object within a message."""
        return data

    def handle_message(self, message: Any) -> None:
        """Handle a message, which is plain JSON."""
        if not isinstance(message, dict):
            text = _BATCH if isinstance(message, list) else _NO_MESSAGE
            self._refuse(JsonRpcInvalidRequest(text))
            return
        found = cast("dict[str, Any]", message)
        if found.get("jsonrpc") != self.VERSION:
            self._refuse(JsonRpcInvalidRequest(_NO_MESSAGE), found.get("id"))
        elif "method" not in found:
            self._take_response(found)
        elif not isinstance(found["method"], str):
            self._refuse(JsonRpcInvalidRequest(_NO_METHOD), found.get("id"))
        elif "id" in found and found["method"] != types.EXIT:
            self._take_request(found)
        else:
            self._take_notification(found)

    def refuse_body(self) -> None:
        """Answer a message that is not JSON."""
        self._refuse(JsonRpcParseError(_PARSE_ERROR))

    def _take_request(self, message: dict[str, Any]) -> None:
        try:
            request = self._request(message)
        except JsonRpcException as error:
            self._refuse(error, message["id"])
            return
        self._is_begun = True
        super().handle_message(request)

    def _request(self, message: dict[str, Any]) -> Any:
        """Return a request for pygls. Raises JsonRpcException if the request is refused."""
        method = message["method"]
        if not _is_id(message["id"]):
            raise JsonRpcInvalidRequest(_NO_ID)
        if self._shutdown:
            raise JsonRpcInvalidRequest(_ENDED)
        if self._is_begun and method == types.INITIALIZE:
            raise JsonRpcInvalidRequest(_BEGUN)
        if not self._is_begun and method != types.INITIALIZE:
            raise JsonRpcServerNotInitialized(_NOT_BEGUN)
        if not self._knows(method):
            raise JsonRpcMethodNotFound.of(method)
        request = self._structured(method, message)
        if not hasattr(request, "id"):
            raise JsonRpcInvalidRequest(f"{method} is a notification, and has no id")
        return request

    def _take_notification(self, message: dict[str, Any]) -> None:
        method = message["method"]
        is_in_turn = method == types.EXIT or (self._is_begun and not self._shutdown)
        if not is_in_turn or not self._knows(method):
            return
        try:
            notification = self._structured(method, message)
        except JsonRpcException:
            logging.getLogger("sessiond").warning("broken_notification", extra={"method": method})
            return
        super().handle_message(notification)

    def _take_response(self, message: dict[str, Any]) -> None:
        response_id = message.get("id")
        # pygls keeps requests of both sides in one table; types are kept for the server's only.
        if not isinstance(response_id, str) or response_id not in self._result_types:
            if "result" not in message and "error" not in message:
                self._refuse(JsonRpcInvalidRequest(_NO_METHOD), response_id)
            return
        if message.get("error") is None:
            # Editors leave out a result that is undefined, or state that there was no error.
            message = {"jsonrpc": self.VERSION, "id": response_id, "result": message.get("result")}
        try:
            response: Any = super().structure_message(message)
        except JsonRpcException as error:
            response = types.ResponseErrorMessage(response_id, error.to_response_error())
        self._result_types.pop(response_id, None)
        if self._request_futures[response_id].cancelled():
            del self._request_futures[response_id]
        else:
            super().handle_message(response)

    def _knows(self, method: str) -> bool:
        """Return whether the server does something for a method."""
        try:
            return method == types.CANCEL_REQUEST or bool(self._get_handler(method))
        except JsonRpcMethodNotFound:
            return False

    def _structured(self, method: str, message: dict[str, Any]) -> Any:
        """Return a message for pygls. Raises JsonRpcInvalidParams."""
        try:
            return super().structure_message(message)
        except JsonRpcException as error:
            problem = _first_problem(error.__cause__)
            text = f"the parameters of {method} are broken: {problem}"
            raise JsonRpcInvalidParams(text) from error

    def _refuse(self, error: JsonRpcException, request_id: object = None) -> None:
        """Answer a message with an error; an id that is no id becomes null."""
        # pygls leaves out an id of null.
        shown: Mapping[str, Any] = {"code": error.code, "message": error.message}
        named = request_id if _is_id(request_id) else None
        self._send_data({"jsonrpc": self.VERSION, "id": named, "error": shown})

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Any:
        """Give an opened document to the server's own handler."""
        yield self._feature(types.TEXT_DOCUMENT_DID_OPEN), (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Any:
        """Give a change to the server's own handler."""
        yield self._feature(types.TEXT_DOCUMENT_DID_CHANGE), (params,), None

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Any:
        """Give a closed document to the server's own handler."""
        yield self._feature(types.TEXT_DOCUMENT_DID_CLOSE), (params,), None

    def _send_response(
        self, msg_id: str | int, result: Any = None, error: types.ResponseError | None = None
    ) -> None:
        if isinstance(result, Encoded) and error is None and self.writer is not None:
            self.writer.write(result.message(msg_id))
        else:
            super()._send_response(msg_id, result, error)

    def _feature(self, name: str) -> Handler:
        features = cast("dict[str, Handler]", self.fm.features)  # pyright: ignore[reportUnknownMemberType]
        return features[name]


def _is_id(found: object) -> bool:
    return isinstance(found, str | int) and not isinstance(found, bool)


def _first_problem(error: BaseException | None) -> str:
    """Return the first problem of a message and its place, as the protocol spells the place."""
    if not isinstance(error, BaseValidationError):
        return "not as the protocol defines"
    problem, _, place = transform_error(error)[0].rpartition(" @ ")
    spelled = re.sub("_([a-z])", lambda found: found[1].upper(), place)
    return f"{spelled.removeprefix('$.params').removeprefix('.') or 'params'}: {problem}"
