"""state/list: list the namespaces, or the keys of one, without values."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from sessiond.errors import InvalidParams
from sessiond.methods._shared.values import STATE_ERRORS, KeyRow, Tags, key_row
from sessiond.model.deferred import DEFERRED
from sessiond.model.ids import Namespace, is_open_namespace
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.states.states import AllDocuments, States
from sessiond.state.document import Document
from sessiond.state.folder import Aside


class StateListParams(Params):
    """Namespace whose keys are listed, with the tags that they must all have."""

    namespace: Namespace | None = None
    tags: Tags = ()


class NamespaceRow(Struct, frozen=True):
    """Namespace with the number of its keys; `bytes` counts keys, tags and values."""

    namespace: str
    keys: int
    bytes: int
    revision: int


class StateKeys(Struct, frozen=True):
    """Keys of a namespace; `revision` is that of the namespace."""

    keys: list[KeyRow]
    revision: int


class StateNamespaces(Struct, frozen=True):
    """Namespaces, the files that were put aside, and the revision of the store."""

    namespaces: list[NamespaceRow]
    aside: list[Aside]
    revision: int


def handle(client: Client, params: StateListParams, call: Call[Client]) -> Any:
    """Answer from memory; the files that were put aside are looked for in a worker thread."""
    if params.namespace is None:
        if params.tags:
            raise InvalidParams("tags are those of keys: name a namespace", path="tags")
        states = client.service.states
        states.list_all(call, lambda found: _namespaces(states, found))
        return DEFERRED

    def look(document: Document) -> StateKeys:
        rows = [key_row(key, record) for key, record in document.tagged(params.tags)]
        return StateKeys(rows, document.revision)

    return client.service.states.ask(call, params.namespace, look)


async def _namespaces(states: States, found: AllDocuments) -> StateNamespaces:
    documents = [one for one in found.documents if is_open_namespace(one.namespace)]
    aside = await states.aside()
    rows = [
        NamespaceRow(one.namespace, len(one.records), one.size, one.revision) for one in documents
    ]
    return StateNamespaces(rows, aside, states.documents.committed_revision)


METHOD = Method(
    name="state/list",
    params=StateListParams,
    result=StateKeys | StateNamespaces,
    handle=handle,
    errors=STATE_ERRORS,
)
