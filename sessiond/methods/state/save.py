"""state/save: write the values of a namespace to a JSON file of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct

from sessiond.methods._shared.common import require_path
from sessiond.methods._shared.values import STATE_ERRORS, NamespaceParams
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.service.states.writer import Later
from sessiond.state.document import Document
from sessiond.state.plain import as_plain


class StateSaveParams(NamespaceParams):
    """Namespace, and the absolute path of a new file. A file that is there is not written over."""

    path: str


class StateSaveResult(Struct, frozen=True):
    """Path of the file, and the number of its keys."""

    path: str
    keys: int


def handle(client: Client, params: StateSaveParams, call: Call[Client]) -> Any:
    """Write the values that are there now, in a worker thread."""
    require_path(params.path)

    def look(document: Document) -> Later:
        values = [(key, record.value) for key, record in document.tagged(())]

        def work() -> StateSaveResult:
            client.service.store.write_new(Path(params.path), as_plain(values))
            return StateSaveResult(params.path, len(values))

        return Later(lambda: client.service.with_named_file(params.path, work))

    return client.service.states.ask(call, params.namespace, look)


METHOD = Method(
    name="state/save",
    params=StateSaveParams,
    result=StateSaveResult,
    handle=handle,
    access="write",
    errors=STATE_ERRORS,
)
