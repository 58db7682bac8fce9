"""catalog/roots: list, add or remove folders of other programs, listed beside the profile's own."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from sessiond.errors import InvalidParams, StorageError
from sessiond.methods._shared.access import require_access
from sessiond.methods._shared.common import require_path
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.store.roots import RootInfo


class RootsParams(Params):
    """Action, and the folder that is added or removed; `kind` is the dialect of its program.

    `outputs` false leaves the outputs of tools in its sessions out of searches; it can be added again to change that.
    """

    action: Literal["list", "add", "remove"] = "list"
    path: str | None = None
    kind: str | None = None
    outputs: bool | None = None


class RootsResult(Struct, frozen=True):
    """Roots, then the folders of known programs on this machine that are no roots."""

    roots: list[RootInfo]


def handle(client: Client, params: RootsParams, call: Call[Client]) -> Any:
    """Look at the folders in a worker thread."""
    path = _path(params)
    if params.action != "list":
        require_access(client, "write")
    client.service.work(call, lambda: _act(client, params, path))
    return DEFERRED


def _path(params: RootsParams) -> str:
    """Return the path that the action needs. Raise InvalidParams."""
    unwanted = {
        "kind": params.kind if params.action != "add" else None,
        "outputs": params.outputs if params.action != "add" else None,
        "path": params.path if params.action == "list" else None,
    }
    for name, value in unwanted.items():
        if value is not None:
            raise InvalidParams(f"{name} has no meaning for action {params.action}", path=name)
    if params.action == "list":
        return ""
    if params.path is None:
        raise InvalidParams(f"{params.action} needs the path of a folder", path="path")
    require_path(params.path)
    return params.path


async def _act(client: Client, params: RootsParams, path: str) -> RootsResult:
    roots = client.service.roots
    if params.action == "add":
        return RootsResult(await roots.add(path, params.kind, outputs=params.outputs))
    if params.action == "remove":
        return RootsResult(await roots.remove(path))
    return RootsResult(await roots.look())


METHOD = Method(
    name="catalog/roots",
    params=RootsParams,
    result=RootsResult,
    handle=handle,
    access="status",
    errors=(StorageError,),
)
