"""A language server's client that does no work of its own, for tests and measurements of time.

Law: nothing of an answer is looked into before it is whole, so what is measured is the server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import msgspec

from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["LspLink", "language_server"]

_HIERARCHY = {"textDocument": {"documentSymbol": {"hierarchicalDocumentSymbolSupport": True}}}


class LspLink:
    """A connection to a language server."""

    def __init__(self, process: Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self.process = process
        self._asked = 0
        self.published: list[Any] = []
        """Diagnostics that came so far."""

    def ask(self, method: str, params: object) -> Any:
        """Return the result of a request."""
        return self.answer(method, params)["result"]

    def answer(self, method: str, params: object) -> Mapping[str, Any]:
        """Return the answer to a request, which may be an error."""
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        while True:
            found = self._receive()
            if found.get("id") == self._asked and "method" not in found:
                return found

    def tell(self, method: str, params: object) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def wait_for_problems(self) -> Any:
        """Return the next diagnostics."""
        while not self.published:
            self._receive()
        return self.published.pop(0)

    def open(self, path: Path) -> Mapping[str, Any]:
        """Open a document; return its name for later messages."""
        item = {"uri": path.as_uri(), "languageId": "jsonl", "version": 1}
        self.tell(
            "textDocument/didOpen", {"textDocument": {**item, "text": path.read_text("utf-8")}}
        )
        return {"textDocument": {"uri": path.as_uri()}}

    def change(self, path: Path, *changes: object) -> None:
        """Change a document."""
        named = {"uri": path.as_uri(), "version": 2}
        params = {"textDocument": named, "contentChanges": changes}
        self.tell("textDocument/didChange", params)

    def _send(self, message: Mapping[str, object]) -> None:
        body = msgspec.json.encode({"jsonrpc": "2.0", **message})
        self._stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._stdin.flush()

    def _receive(self) -> Mapping[str, Any]:
        size = 0
        while (line := self._stdout.readline().strip()) or not size:
            if line.lower().startswith(b"content-length:"):
                size = int(line.partition(b":")[2])
            elif not line and not size:
                raise EOFError("the language server ended")
        found: Mapping[str, Any] = msgspec.json.decode(self._stdout.read(size))
        if found.get("method") == "textDocument/publishDiagnostics":
            self.published.append(found["params"]["diagnostics"])
        return found


@contextmanager
def language_server(
    command: Sequence[str], environment: Mapping[str, str] = os.environ
) -> Iterator[LspLink]:
    """Run a language server; say goodbye to it at the end, and require its exit status 0."""
    with Popen(command, stdin=PIPE, stdout=PIPE, env=dict(environment)) as process:
        try:
            link = LspLink(process)
            started = {"processId": os.getpid(), "rootUri": None, "capabilities": _HIERARCHY}
            link.ask("initialize", started)
            link.tell("initialized", {})
            yield link
            link.ask("shutdown", None)
            link.tell("exit", None)
            status = process.wait(PATIENCE_SECONDS)
        except BaseException:
            process.kill()
            raise
    assert status == 0, status
