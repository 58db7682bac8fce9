"""session/trash: return the deleted sessions, which session/restore brings back."""

from __future__ import annotations

from typing import Any

from anyio import to_thread

from sessiond.methods._shared.common import page_limit
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.store.trash import TrashResult


class TrashParams(Params):
    """Page of the trash."""

    limit: int | None = None
    cursor: str | None = None


def handle(client: Client, params: TrashParams, call: Call[Client]) -> Any:
    """Read the folder in a worker thread."""
    limit = page_limit(params.limit)
    store = client.service.store
    client.service.look(call, lambda: to_thread.run_sync(store.trashed, limit, params.cursor))
    return DEFERRED


METHOD = Method(
    name="session/trash", params=TrashParams, result=TrashResult, handle=handle, access="read"
)
