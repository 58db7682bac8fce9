"""state/load: take JSON files of another program over as namespaces."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Raw, Struct

from sessiond.errors import SessiondError, TooLarge
from sessiond.methods._shared.common import require_path
from sessiond.methods._shared.values import STATE_ERRORS
from sessiond.model.deferred import DEFERRED
from sessiond.model.ids import Namespace
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.state.document import Draft, Write
from sessiond.state.plain import LoadProblem, PlainFile, read_plain


class StateLoadParams(Params):
    """File, or folder of files; `namespace` names that of a file, whose own name is the default."""

    path: str
    namespace: Namespace | None = None


class LoadedRow(Struct, frozen=True):
    """Namespace with the number of its keys that were loaded; `changed` had other values before."""

    namespace: str
    keys: int
    changed: int
    revision: int


class StateLoadResult(Struct, frozen=True):
    """Namespaces that were loaded, and what was not."""

    loaded: list[LoadedRow]
    problems: list[LoadProblem]


def handle(client: Client, params: StateLoadParams, call: Call[Client]) -> Any:
    """Read the files in a worker thread, then put each one into the line of its namespace."""
    require_path(params.path)
    client.service.work(call, lambda: _load(client, params))
    return DEFERRED


async def _load(client: Client, params: StateLoadParams) -> StateLoadResult:
    files, path = client.service.files, Path(params.path)
    read = partial(read_plain, files, path, params.namespace)
    found, problems = await client.service.with_named_file(params.path, read)
    loaded: list[LoadedRow] = []
    for one in found:
        try:
            loaded.append(await client.service.states.carry_out(one.namespace, _act(one)))
        except TooLarge as refused:
            _refuse(refused, len(found))
            problems.append(LoadProblem(f"{path / one.namespace}.json", refused.message))
    return StateLoadResult(loaded, problems)


def _refuse(refused: SessiondError, count: int) -> None:
    """Raise the refusal of a single file; one of several files is only reported."""
    if count == 1:
        raise refused


def _act(file: PlainFile) -> Any:
    def act(draft: Draft) -> LoadedRow:
        with draft.all_or_nothing():
            changed = _put_all(draft, file.values)
        return LoadedRow(file.namespace, len(file.values), changed, draft.revision)

    return act


def _put_all(draft: Draft, values: Mapping[str, Raw]) -> int:
    """Store the values that differ from those that are there; return their number."""
    changed = 0
    for key, value in values.items():
        found = draft.get(key)
        if found is None or found.value != value:
            draft.put(Write(key, value))
            changed += 1
    return changed


METHOD = Method(
    name="state/load",
    params=StateLoadParams,
    result=StateLoadResult,
    handle=handle,
    access="write",
    errors=STATE_ERRORS,
)
