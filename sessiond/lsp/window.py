"""Window: what the server asks and tells an editor of its own accord.

Law: an editor is asked only for what its capabilities name, and an editor that refuses is no error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from sessiond.lsp.progress import Token, Work, Works

T = TypeVar("T")


class Window:
    """The editor's window."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._works = Works(_Wire(server))

    @property
    def shows_disabled(self) -> bool:
        """Return whether the editor shows actions that cannot be chosen, with the reason."""
        documents = self._server.client_capabilities.text_document
        actions = None if documents is None else documents.code_action
        return bool(actions and actions.disabled_support)

    def warn(self, text: str) -> None:
        """Show a warning."""
        self._show(types.MessageType.Warning, text)

    def tell(self, text: str) -> None:
        """Show the outcome of a command."""
        self._show(types.MessageType.Info, text)

    async def ask(self, text: str, choices: Sequence[str]) -> str | None:
        """Return the choice of the editor's user; None without one."""
        items = [types.MessageActionItem(choice) for choice in choices]
        params = types.ShowMessageRequestParams(types.MessageType.Info, text, items)
        chosen = await _or_none(self._server.window_show_message_request_async(params))
        return chosen.title if chosen is not None and chosen.title in choices else None

    async def show(self, path: Path) -> bool:
        """Show a file; return whether the editor did."""
        window = self._server.client_capabilities.window
        if window is None or window.show_document is None or not window.show_document.support:
            return False
        params = types.ShowDocumentParams(path.as_uri())
        shown = await _or_none(self._server.window_show_document_async(params))
        return shown is not None and shown.success

    def refresh(self) -> None:
        """Have the editor ask again for what depends on the session."""
        workspace = self._server.client_capabilities.workspace
        if workspace is None:
            return
        for capability, method in (
            (workspace.code_lens, types.WORKSPACE_CODE_LENS_REFRESH),
            (workspace.inlay_hint, types.WORKSPACE_INLAY_HINT_REFRESH),
            (workspace.semantic_tokens, types.WORKSPACE_SEMANTIC_TOKENS_REFRESH),
        ):
            if capability is not None and capability.refresh_support:
                self._server.protocol.send_request(method)

    def work(self, title: str, token: Token | None = None) -> AbstractAsyncContextManager[Work]:
        """Run work that the editor shows and may cancel. Raises Cancelled."""
        return self._works.work(title, token)

    def cancel(self, token: Token) -> None:
        """Cancel work because the editor's user did."""
        self._works.cancel(token)

    def _show(self, kind: types.MessageType, text: str) -> None:
        self._server.window_show_message(types.ShowMessageParams(kind, text))


class _Wire:
    """Progress as notifications."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server

    @property
    def can_create(self) -> bool:
        window = self._server.client_capabilities.window
        return window is not None and bool(window.work_done_progress)

    async def create(self, token: Token) -> bool:
        params = types.WorkDoneProgressCreateParams(token)
        try:
            await self._server.window_work_done_progress_create_async(params)
        except JsonRpcException:
            return False
        return True

    def begin(self, token: Token, title: str) -> None:
        self._tell(token, types.WorkDoneProgressBegin(f"sessiond: {title}", cancellable=True))

    def report(self, token: Token, text: str, percentage: int | None) -> None:
        report = types.WorkDoneProgressReport(cancellable=True, message=text, percentage=percentage)
        self._tell(token, report)

    def end(self, token: Token) -> None:
        self._tell(token, types.WorkDoneProgressEnd())

    def _tell(self, token: Token, value: Any) -> None:
        self._server.progress(types.ProgressParams(token, value))


async def _or_none(asked: Awaitable[T]) -> T | None:
    try:
        return await asked
    except JsonRpcException:
        return None
