"""Protocol: pygls' protocol of a language server, without the documents of pygls.

Law: pygls keeps no text here, since its documents split lines where the protocol does not.
"""

from __future__ import annotations

from typing import Any, cast

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from sessiond.lsp.answers import Encoded, Handler

__all__ = ["Protocol"]


class Protocol(LanguageServerProtocol):
    """Protocol of pygls without its own documents: `Editor` keeps the texts."""

    def __init__(self, server: LanguageServer, converter: Any) -> None:
        super().__init__(server, converter)
        # pygls runs a command apart from its request, and then a cancelled request does not end it.
        self.fm.add_builtin_feature(  # pyright: ignore[reportUnknownMemberType]
            types.WORKSPACE_EXECUTE_COMMAND, self._execute_command
        )

    async def _execute_command(self, params: types.ExecuteCommandParams) -> Any:
        return await self._feature(types.WORKSPACE_EXECUTE_COMMAND)(params)

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
