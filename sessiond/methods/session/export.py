"""session/export: write a session to a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anyio import to_thread
from msgspec import Struct

from sessiond.dialects import dialect_named
from sessiond.errors import SessionCorrupt
from sessiond.methods._shared.access import require_access
from sessiond.methods._shared.common import (
    Call,
    Client,
    Method,
    SessionParams,
    ask,
    require_path,
    require_result_fits,
)
from sessiond.model.formats import FormatName
from sessiond.model.ids import MAIN
from sessiond.service.actor.actor import SessionActor
from sessiond.service.exporting.converting import Standing
from sessiond.service.exporting.export import export

__all__ = ["METHOD"]


class ExportParams(SessionParams):
    """Absolute path of a new file; without a path the answer holds the content."""

    format: FormatName = "native"
    path: str | None = None


class ExportResult(Struct, frozen=True, omit_defaults=True):
    """Path of the file, or its content; `notes` names what the export had to change."""

    path: str | None = None
    content: str | None = None
    entries: int = 0
    notes: list[str] = []


def handle(client: Client, params: ExportParams, call: Call[Client]) -> Any:
    """Write the lines that exist now, in a worker thread."""
    if params.path is not None:
        require_access(client, "write")
        require_path(params.path)

    def look(actor: SessionActor) -> Any:
        upto, opened = actor.seq, actor.opened
        at = Standing(upto, opened.session.heads[MAIN].leaf, opened.info().title)

        def work() -> ExportResult:
            if params.path is None:
                require_result_fits(actor.opened.journal.span_bytes(0, upto))
            call.progress.report(0, upto + 1, "lines")
            pieces, notes = export(opened, dialect_named(params.format), at, call.progress)
            if params.path is None:
                lines = b"".join(pieces)
                require_result_fits(len(lines))
                content = _as_text(lines, actor.opened.path)
                return ExportResult(content=content, entries=upto, notes=notes())
            client.service.store.write_new(Path(params.path), pieces)
            return ExportResult(path=params.path, entries=upto, notes=notes())

        return actor.later(call, lambda: to_thread.run_sync(work))

    return ask(client, call, params.session_id, look)


def _as_text(lines: bytes, path: Path | None) -> str:
    """Return the lines as text of an answer, which is UTF-8. Raise SessionCorrupt."""
    try:
        return lines.decode()
    except UnicodeDecodeError as error:
        line = lines.count(b"\n", 0, error.start) + 1
        raise SessionCorrupt(
            f"line {line} is not UTF-8, as an answer must be: export to a path, which keeps every"
            " byte, or call session/repair first",
            path=None if path is None else str(path),
            line=line,
            repairable=True,
        ) from None


METHOD = Method(
    name="session/export",
    params=ExportParams,
    result=ExportResult,
    handle=handle,
    access="read",
)
