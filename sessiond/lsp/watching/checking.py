"""Checking of a document's file: finds its problems and shows them.

Law: a check asks the daemon about the file, and compares the file with the editor's text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import anyio
from anyio import CancelScope, to_thread

from sessiond import typed
from sessiond.lsp.document import Document
from sessiond.lsp.findings import (
    CHANGED_ON_DISK,
    Finding,
    LastTurn,
    Verdict,
    changed_on_disk,
    findings,
    open_call_findings,
    open_calls,
    refusal,
)
from sessiond.lsp.text.text import Text
from sessiond_client import Client, RpcError, SessiondClientError

# A check reads the whole file, so checks get at most a fifth of the time.
REST_PER_CHECK: Final = 4
_DEBOUNCE_SECONDS: Final = 0.2

Publish = Callable[[Document, Sequence[Finding]], None]


def show_refusal(document: Document, error: RpcError, publish: Publish) -> None:
    """Show why the daemon does not read the file."""
    found = refusal(error.kind, error.message, error.data, document.text)
    _show(document, [] if found is None else [found], publish, of_file=True)


def _show(
    document: Document, found: Sequence[Finding], publish: Publish, *, of_file: bool = False
) -> None:
    document.file_problem = found[0].code if of_file and found else None
    publish(document, found)


class Check:
    """Checks of the file, limited in frequency."""

    def __init__(
        self,
        document: Document,
        client: Client,
        session: Mapping[str, Any],
        publish: Publish,
        *,
        is_stale: bool,
    ) -> None:
        self._document = document
        self._client = client
        self._session_id: str = session["id"]
        self._reason = session.get("read_only_reason")
        self._publish = publish
        self._is_stale = is_stale
        self._clean_version = document.text.version
        self._rest = _DEBOUNCE_SECONDS

    async def run(self, scope: CancelScope) -> None:
        """Check once after each burst of changes."""
        document = self._document
        try:
            while True:
                await document.changed.wait()
                await anyio.sleep(self._rest)
                await self.now()
        except RpcError as error:
            show_refusal(document, error, self._publish)
        except SessiondClientError:
            pass
        scope.cancel()

    async def now(self) -> None:
        """Show the problems of the file. Raises SessiondClientError."""
        document, began = self._document, anyio.current_time()
        document.changed = anyio.Event()
        stored, version = await document.stored_lines(), document.text.version
        if self._is_unsaved(stored):
            if document.file_problem not in {None, CHANGED_ON_DISK}:
                # The daemon reads the file that it refused before.
                _show(document, [], self._publish)
            return
        answer = await self._client.call("session/verify", session_id=self._session_id)
        verdict = typed.convert({**answer, "reason": self._reason}, Verdict)
        calls = [] if verdict.read_only else await self._open_calls()
        found = await to_thread.run_sync(self._found, verdict, document.text.copy(), stored, calls)
        if document.text.version != version:
            return
        if stored is not None or found or document.file_problem is not None:
            _show(document, found, self._publish, of_file=stored is None)
        took = anyio.current_time() - began
        self._rest = max(_DEBOUNCE_SECONDS, took * REST_PER_CHECK)

    def _is_unsaved(self, stored: int | None) -> bool:
        """Return whether the editor's user made the difference between the text and the file."""
        text = self._document.text
        if stored is None:
            return text.version != self._clean_version
        return text.version != 0 and stored < len(text)

    def _found(
        self, verdict: Verdict, text: Text, stored: int | None, calls: Sequence[str]
    ) -> list[Finding]:
        if stored is None:
            return changed_on_disk(verdict, text)
        cut_at = stored if stored < len(text) else None
        found = findings(verdict, text, is_stale=self._is_stale, cut_at=cut_at)
        return found + open_call_findings(calls, text)

    async def _open_calls(self) -> list[str]:
        """Return the tool calls at the end of the session that have no result."""
        try:
            turns = await self._turns("agent")
            if turns and turns[-1].status == "pending":
                turns = await self._turns("chat")
        except RpcError:
            # A turn may be too large for an answer.
            return []
        return open_calls(turns[-1]) if turns else []

    async def _turns(self, view: str) -> list[LastTurn]:
        answer = await self._client.call(
            "session/turns", session_id=self._session_id, view=view, from_end=True, limit=1
        )
        return typed.convert(answer["turns"], list[LastTurn])
