"""Files of every format that can be read: what is wrong with one, and what its lines are.

Law: the registries of the dialects, agents and documents say what a file is; no command has a list of
its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from sessiond.cli.offline.found_files import found_files
from sessiond.cli.ui.failure import Failure
from sessiond.dialects.agents import AGENTS
from sessiond.dialects.agents.reading import Reading
from sessiond.errors import SessiondError
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.profile.names import id_in_name
from sessiond.journal.scanning import chunks_of
from sessiond.journal.source import FileSource, LineSource
from sessiond.model.formats import WholeFormatName
from sessiond.service.files.checking.verifying import VerifyScope
from sessiond.service.files.checks import verify_any
from sessiond.service.files.in_place import AgentFiles
from sessiond.service.ports import Progress
from sessiond.service.sources.documents.found import document_at
from sessiond.service.store.checks import Verification
from sessiond.visible import counted


class Content(Struct, frozen=True):
    """The bytes of a file, some at a time, and whose they are: an agent's or a document's, or neither."""

    chunks: Iterator[bytes]
    agent: Reading | None = None
    document: WholeFormatName | None = None


def checked(path: Path, progress: Progress) -> Verification:
    """Return what is wrong with a file. Raises StorageError, Failure for a store of several sessions."""
    _require_one_session(path)
    return verify_any(Files(), path, VerifyScope(named=id_in_name(path.name), progress=progress))


def content_of(path: Path) -> Content:
    """Return the content of a file: where it has no lines of its own, the lines that stand for it.

    A file of no known format has its own bytes. Raises OSError, Failure for a store of several sessions.
    """
    _require_one_session(path)
    files = Files()
    agents = AgentFiles(files, path.parent)
    with suppress(SessiondError):
        if (found := agents.recognise(path)) is not None:
            reading, source = AGENTS[found.name].reading(), agents.source(found)
            if not isinstance(source, FileSource):
                return Content(_lines_of(source), reading)
            source.close()
            return Content(_bytes_of(files, path), reading)
        if (document := document_at(files, path)) is not None:
            return Content(_bytes_of(files, path), document=document.name)
    return Content(_bytes_of(files, path))


def _require_one_session(path: Path) -> None:
    sessions = [one.source_id for one in found_files([str(path)]) if one.source_id is not None]
    if sessions:
        raise Failure(
            f"{path} holds {counted(len(sessions), 'session')}", f"name one: {path}/{sessions[0]}"
        )


def _bytes_of(files: Files, path: Path) -> Iterator[bytes]:
    fd = open_regular(files, path)
    try:
        yield from chunks_of(files, fd, 0, check_regular(files, fd))
    finally:
        files.close(fd)


def _lines_of(source: LineSource) -> Iterator[bytes]:
    try:
        while lines := source.more():
            yield from (line + b"\n" for line in lines)
    finally:
        source.close()
