"""session/import: copy a session under a new id, in the dialect of its file or as a native session."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from anyio import to_thread
from msgspec import Struct

from sessiond.catalog.finding import Alike, begun_at, copy_of
from sessiond.errors import InvalidParams, SessionCorrupt, StorageError
from sessiond.limits import MATCHES_SHOWN_MAX
from sessiond.methods._shared.common import require_path
from sessiond.methods._shared.copies import make_copy
from sessiond.methods._shared.existing import Existing, Reason, existing
from sessiond.model.deferred import DEFERRED
from sessiond.model.formats import AgentFormatName, FormatName, WholeFormatName
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.log.out_of_sight import require_current_lists
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.service import Service
from sessiond.service.sources.agents.opencode.store import Chosen, choose, found_store
from sessiond.service.sources.importing import (
    ImportedLines,
    ImportReport,
    id_in,
    read_import,
    read_source,
    read_stored,
    source_of,
)


class ImportParams(Params):
    """Absolute path of a file, or its text; `cwd` puts the copy into another project.

    `source_id` names the session in a store of several sessions.
    """

    path: str | None = None
    content: str | None = None
    source_id: str | None = None
    format: Literal["auto"] | FormatName | WholeFormatName | AgentFormatName = "auto"
    cwd: str | None = None
    if_exists: Literal["copy", "skip"] = "copy"
    dry_run: bool = False


class ImportResult(Struct, frozen=True):
    """New session, findings in the source, and ids of sessions with an equal beginning.

    `imported` is false for a dry run and for a source that was skipped; the session, which has no path
    then, is the one that an import would make. `same_as` has the ids of sessions that have the source as
    a whole, for the reason in `same_by`; `grown_from` those that have a part of it.
    """

    session: SessionInfo
    report: ImportReport
    twins: list[str]
    imported: bool
    same_as: list[str]
    same_by: Reason | None
    grown_from: list[str]


def handle(client: Client, params: ImportParams, call: Call[Client]) -> Any:
    """Read, check and copy in a worker thread; the source is never written to."""
    if (params.path is None) == (params.content is None):
        raise InvalidParams("send either path or content", path="path")
    if params.path is not None:
        require_path(params.path)
    elif params.source_id is not None:
        raise InvalidParams("only a store at a path has several sessions", path="source_id")
    client.service.work(call, lambda: _import(client, params, call))
    return DEFERRED


async def _import(client: Client, params: ImportParams, call: Call[Client]) -> ImportResult:
    service = client.service
    session_id = service.environment.new_session_id()
    in_thread: Any = to_thread.run_sync
    if params.path is not None:
        in_thread = partial(service.with_named_file, params.path)
    chosen = await in_thread(lambda: _chosen(params, service))
    parent_id = None if chosen is None else await _copied_parent(service, chosen, call)

    def work() -> _Made:
        if params.path is None:
            source = source_of("content", (params.content or "").encode())
        elif chosen is not None:
            source = read_stored(chosen, Path(params.path), parent_id)
        else:
            source = read_source(Path(params.path), service.files)
        own_id = id_in(source)
        lines, report = read_import(
            source,
            wanted=params.format,
            session_id=session_id,
            cwd=params.cwd,
            progress=call.progress,
            spooled=service.store.spooled,
        )
        return _Made(lines, report, own_id)

    made = await in_thread(work)
    try:
        return await _take(client, params, call, session_id, made)
    finally:
        made.lines.close()


class _Made(Struct, frozen=True):
    """The lines of a copy, the findings in the source, and the id in a file of a dialect."""

    lines: ImportedLines
    report: ImportReport
    own_id: str | None


async def _take(
    client: Client, params: ImportParams, call: Call[Client], session_id: str, found: _Made
) -> ImportResult:
    """Make the session of the lines, unless only what it would be is asked for, or it is here."""
    lines, report = found.lines, found.report
    service = client.service
    makes, here = partial(make_copy, client, session_id, lines.lists), Existing()
    if params.dry_run or params.if_exists == "skip":
        would = await makes(dry_run=True)
        begun = await _begun(service, would, call)
        here = await existing(service, would, lines, found.own_id, begun)
        if not (params.dry_run or here.whole):
            # Another daemon may have it.
            require_current_lists(call)
        if params.dry_run or here.whole:
            return _result(would, report, _twins(begun, would), here, imported=False)
    made = await makes(dry_run=False)
    call.progress.report(lines.count, lines.count, "lines")
    return _result(made, report, await _twins_of(service, made, call), here, imported=True)


def _result(
    session: SessionInfo, report: ImportReport, twins: list[str], here: Existing, *, imported: bool
) -> ImportResult:
    return ImportResult(session, report, twins, imported, here.whole, here.reason, here.parts)


def _chosen(params: ImportParams, service: Service) -> Chosen | None:
    """Return the session of a store to import; None for a file or a text."""
    if params.path is None:
        return None
    path = Path(params.path)
    store = found_store(path, service.files)
    if store is not None:
        return choose(store, path, params.source_id)
    if params.source_id is not None:
        raise InvalidParams("only a store of opencode has several sessions", path="source_id")
    return None


async def _copied_parent(service: Service, chosen: Chosen, call: Call[Client]) -> str | None:
    """Return the session that is the copy of the parent of a session of a store; None for no copy."""
    parent_id = chosen.session.parent_id
    if parent_id is None:
        return None
    try:
        return await service.live_catalog.ask(
            lambda catalog: catalog.ask(
                lambda connection: copy_of(connection, "opencode", parent_id)
            ),
            call,
        )
    except StorageError:
        # The copy then names its parent by the id at the source.
        return None


async def _begun(service: Service, made: SessionInfo, call: Call[Client]) -> list[Alike]:
    """Return the listed sessions that began at the same moment. Raises StorageError."""
    return await service.live_catalog.ask(
        lambda catalog: catalog.ask(
            lambda connection: begun_at(connection, made.created_at, made.id)
        ),
        call,
    )


def _twins(begun: Iterable[Alike], made: SessionInfo) -> list[str]:
    """Return the ids of those of these sessions that have the same first message."""
    alike = [one.session_id for one in begun if one.first_message == made.first_message]
    return alike[:MATCHES_SHOWN_MAX]


async def _twins_of(service: Service, made: SessionInfo, call: Call[Client]) -> list[str]:
    """Return the twins of a session that was imported; none if the lists cannot be read."""
    try:
        return _twins(await _begun(service, made, call), made)
    except StorageError:
        # The import succeeded: a catalog that cannot be read now must not turn it into an error.
        return []


METHOD = Method(
    name="session/import",
    params=ImportParams,
    result=ImportResult,
    handle=handle,
    access="write",
    errors=(
        SessionCorrupt,
        StorageError,
    ),
)
