"""Checks of session files, of a profile's open or not, without a change. Blocking."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from sessiond.errors import SessionCorrupt
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.service.files.checking.repairing import plan_in_memory, plan_repair
from sessiond.service.files.checking.verifying import (
    WHOLE,
    VerifyScope,
    no_session,
    verified,
    verify_file,
    verify_memory,
)
from sessiond.service.files.in_place import AgentFiles
from sessiond.service.files.locations import SessionFiles
from sessiond.service.log.indexer import Indexer
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Progress
from sessiond.service.sources.documents.found import NewSession, document_at
from sessiond.service.store.checks import Repair, Verification
from sessiond.session.draft import read_only


def verify_any(files: Files, path: Path, look: VerifyScope = WHOLE) -> Verification:
    """Check every line of a file of any format that can be read. Raises StorageError."""
    found = _of_an_agent(AgentFiles(files, path.parent), path, look)
    return found or _of_a_document(files, path) or verify_file(files, path, look)


def _of_an_agent(agents: AgentFiles, path: Path, look: VerifyScope) -> Verification | None:
    found = agents.recognise(path)
    return None if found is None else agents.verify(found, look.progress)


def _of_a_document(files: Files, path: Path) -> Verification | None:
    """Return the problems of a session that is one JSON document; None for any other file."""
    document, size = None, 0
    try:
        document = document_at(files, path)
        if document is None:
            return None
        size = files.stat(path).st_size
        lines = document.lines(NewSession(path.stem, None, None))
    except SessionCorrupt as corrupt:
        made = no_session(corrupt, size)
        return structs.replace(made, dialect=None if document is None else document.name)
    indexer = Indexer(path)
    for seq, line in enumerate(lines):
        indexer.visit(seq, line)
    made = verified(indexer, lines=1, size=size)
    return structs.replace(made, dialect=document.name)


class FileChecks:
    """Checks of session files as they lie on disk.

    The file of an open session is checked up to its last known line; later bytes are being written.
    """

    def __init__(
        self, session_files: SessionFiles, layout: Layout, files: Files, agents: AgentFiles
    ) -> None:
        self._session_files = session_files
        self._agents = agents
        self._layout = layout
        self._files = files

    def verify(
        self, session_id: str, opened: OpenSession | None, progress: Progress
    ) -> Verification:
        """Return the problems of a session's file. Raises SessionNotFound, StorageError."""
        if opened is not None and opened.path is None:
            return verify_memory(opened)
        path, look = self._place(session_id, opened, progress)
        found = _of_an_agent(self._agents, path, look) or verify_file(self._files, path, look)
        is_read_only = found.read_only or (opened is not None and opened.read_only)
        return structs.replace(found, read_only=is_read_only)

    def plan_repair(
        self, session_id: str, opened: OpenSession | None, *, dry_run: bool, progress: Progress
    ) -> Repair:
        """Return what a repair would do.

        Raises SessionNotFound, SessionCorrupt, SessionReadOnly for another agent's, StorageError.
        """
        if opened is not None and opened.path is None:
            return plan_in_memory(opened, dry_run=dry_run)
        if self._agents.recognise(self._path(session_id, opened)) is not None:
            raise read_only("other_agent")
        path, look = self._place(session_id, opened, progress)
        return plan_repair(self._files, path, look, dry_run=dry_run)

    def _place(
        self, session_id: str, opened: OpenSession | None, progress: Progress
    ) -> tuple[Path, VerifyScope]:
        path = self._path(session_id, opened)
        size = None
        if opened is not None and opened.path is not None:
            size = opened.journal.size_bytes + opened.journal.slack_bytes
        return path, VerifyScope(size, self._layout.id_of(path), progress)

    def _path(self, session_id: str, opened: OpenSession | None) -> Path:
        if opened is None or opened.path is None:
            return self._session_files.require(session_id)
        return opened.path
