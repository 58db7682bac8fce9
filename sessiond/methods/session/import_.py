"""session/import: copy a session file under a new id, in the dialect of the file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

from anyio import to_thread
from msgspec import Struct

from sessiond.catalog.finding import twins
from sessiond.errors import InvalidParams, SessionCorrupt, StorageError
from sessiond.limits import MATCHES_SHOWN_MAX
from sessiond.methods._shared.common import DEFERRED, Call, Client, Method, Params, require_path
from sessiond.methods._shared.copies import make_copy
from sessiond.model.formats import AgentFormatName, FormatName, WholeFormatName
from sessiond.service.files.importing import (
    ImportReport,
    read_import,
    read_source,
    source_of,
)
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.service import Service

__all__ = ["METHOD"]


class ImportParams(Params):
    """Absolute path of a file, or its text; `cwd` puts the copy into another project."""

    path: str | None = None
    content: str | None = None
    format: Literal["auto"] | FormatName | WholeFormatName | AgentFormatName = "auto"
    cwd: str | None = None
    if_exists: Literal["copy", "skip"] = "copy"
    dry_run: bool = False


class ImportResult(Struct, frozen=True):
    """New session, findings in the source, and ids of sessions with an equal beginning.

    `imported` is false for a dry run and for a source that was skipped; the session, which has no path
    then, is the one that an import would make.
    """

    session: SessionInfo
    report: ImportReport
    twins: list[str]
    imported: bool


def handle(client: Client, params: ImportParams, call: Call[Client]) -> Any:
    """Read, check and copy in a worker thread; the source is never written to."""
    if (params.path is None) == (params.content is None):
        raise InvalidParams("send either path or content", path="path")
    if params.path is not None:
        require_path(params.path)
    client.service.work(call, lambda: _import(client, params, call))
    return DEFERRED


async def _import(client: Client, params: ImportParams, call: Call[Client]) -> ImportResult:
    service = client.service
    session_id = service.environment.new_session_id()

    def work() -> tuple[list[bytes], ImportReport]:
        if params.path is not None:
            source = read_source(Path(params.path), service.store.files)
        else:
            source = source_of("content", [(params.content or "").encode()])
        return read_import(
            source,
            wanted=params.format,
            session_id=session_id,
            cwd=params.cwd,
            progress=call.progress,
        )

    lines, report = await to_thread.run_sync(work)
    makes = partial(make_copy, client, session_id, lambda: iter([lines]))
    if params.dry_run or params.if_exists == "skip":
        would = await makes(dry_run=True)
        found = await _twins_of(service, would, call)
        if params.dry_run or found:
            return ImportResult(would, report, found, imported=False)
    made = await makes(dry_run=False)
    call.progress.report(len(lines), len(lines), "lines")
    return ImportResult(made, report, await _twins_of(service, made, call), imported=True)


async def _twins_of(service: Service, made: SessionInfo, call: Call[Client]) -> list[str]:
    """Return the ids of the listed sessions with an equal beginning: creation time and first message."""
    try:
        return await service.live_catalog.ask(
            lambda catalog: catalog.ask(
                lambda connection: twins(
                    connection, made.id, made.created_at, made.first_message, MATCHES_SHOWN_MAX
                )
            ),
            call.progress,
        )
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
