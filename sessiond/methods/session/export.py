"""session/export: write a session to a file of its own, for a program or for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from anyio import to_thread
from msgspec import Meta, Struct

from sessiond.dialects import dialect_named
from sessiond.errors import HeadNotFound, InvalidParams, SessionCorrupt, TooLarge
from sessiond.limits import (
    REDACTION_PATTERN_CHARS_MAX,
    REDACTION_PATTERNS_MAX,
    RESULT_BYTES_MAX,
)
from sessiond.methods._shared.access import require_access
from sessiond.methods._shared.common import SessionParams, ask, require_path
from sessiond.methods._shared.forks import fork_count
from sessiond.methods._shared.place import head_leaf
from sessiond.model.formats import FORMATS, WHOLE_FORMATS, FormatName, WholeFormatName
from sessiond.model.ids import MAIN, HeadName
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.exporting.construct import construct_document
from sessiond.service.exporting.converting import Standing
from sessiond.service.exporting.documents.document import DocumentName, DocumentRequest, document
from sessiond.service.exporting.documents.json_document import PARTS, Part
from sessiond.service.exporting.documents.source import State
from sessiond.service.exporting.export import export
from sessiond.service.exporting.nova import nova_document
from sessiond.service.log.session_info import head_infos
from sessiond.service.log.state_info import state_of

Pattern = Annotated[str, Meta(min_length=1, max_length=REDACTION_PATTERN_CHARS_MAX)]
Pieces = tuple[Iterable[bytes], Callable[[], list[str]]]


class ExportParams(SessionParams):
    """Absolute path of a new file; without a path the answer holds the content.

    The last four are for the formats "json", "markdown" and "html".
    """

    format: FormatName | WholeFormatName | DocumentName = "native"
    path: str | None = None
    head: HeadName | None = None
    branches: Literal["path", "all"] | None = None
    include: list[Part] | None = None
    redact: Annotated[list[Pattern], Meta(max_length=REDACTION_PATTERNS_MAX)] | None = None


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
    _require_fitting(params)

    def look(actor: SessionActor) -> Any:
        pieces = _pieces(client, actor, params, call)
        upto, lines = actor.seq, params.format in FORMATS

        def work(forks: int) -> ExportResult:
            if params.path is None and lines:
                _require_room(actor.opened.journal.span_bytes(0, upto))
            call.progress.report(0, upto + 1, "lines")
            made, notes = pieces(forks)
            if params.path is None:
                content = _as_text(_whole(made), actor.opened.path)
                return ExportResult(content=content, entries=upto, notes=notes())
            client.service.store.write_new(Path(params.path), made)
            return ExportResult(path=params.path, entries=upto, notes=notes())

        async def job() -> ExportResult:
            counts = params.format == "nova"
            forks = await fork_count(client, call, params.session_id) if counts else 0
            if params.path is None:
                return await to_thread.run_sync(work, forks or 0)
            return await client.service.with_named_file(params.path, partial(work, forks or 0))

        return actor.later(call, job)

    return ask(client, call, params.session_id, look)


def _require_fitting(params: ExportParams) -> None:
    """Raise InvalidParams for a parameter that means nothing in the format."""
    if params.include is not None and params.format not in {"json", "nova"}:
        raise InvalidParams('include is for the formats "json" and "nova"', path="include")
    if params.branches is not None and params.format != "markdown":
        raise InvalidParams('branches is for the format "markdown"', path="branches")
    if params.format in {*FORMATS, *WHOLE_FORMATS}:
        for name in ("head", "redact"):
            if getattr(params, name) is not None:
                raise InvalidParams(
                    f'{name} is for documents: a file of the format "{params.format}" has the whole'
                    ' session as it is; export as "json", "markdown" or "html"',
                    path=name,
                )


def _pieces(
    client: Client, actor: SessionActor, params: ExportParams, call: Call[Client]
) -> Callable[[int], Pieces]:
    """Return the work that makes the bytes, bound to the session as it is now. Raise HeadNotFound."""
    upto, opened = actor.seq, actor.opened
    match params.format:
        case "json" | "markdown" | "html" as form:
            leaf = head_leaf(opened.session, params.head or MAIN)
            state = State(upto, leaf, head_infos(opened.session), opened.whole())
            wanted = DocumentRequest(
                form,
                PARTS if params.include is None else params.include,
                params.branches == "all",
                (*(params.redact or ()), *actor.environment.policies.redact),
            )
            return lambda _forks: (document(opened, state, wanted, call.progress), list)
        case "nova":
            info, working = opened.whole(), state_of(opened)
            tags = params.include is None or "tags" in params.include
            return lambda forks: nova_document(opened, info, working, forks, tags=tags)
        case "construct":
            at = Standing(upto, opened.session.heads[MAIN].leaf, opened.info().title)
            return lambda _forks: construct_document(opened, at, call.progress)
        case name:
            at = Standing(upto, opened.session.heads[MAIN].leaf, opened.info().title)
            target, spooled = dialect_named(name), client.service.store.spooled
            return lambda _forks: export(opened, target, at, call.progress, spooled)


def _whole(pieces: Iterable[bytes]) -> bytes:
    """Return the pieces as one. Raise TooLarge before they are more than an answer may have."""
    found: list[bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        _require_room(size)
        found.append(piece)
    return b"".join(found)


def _require_room(size: int) -> None:
    if size > RESULT_BYTES_MAX:
        raise TooLarge(
            "the export is larger than an answer may be: send path, the name of a new file",
            limit=RESULT_BYTES_MAX,
            size=size,
        )


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
    errors=(HeadNotFound,),
    access="read",
)
