"""Rows of files that are not open: read for the catalog without owning the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sessiond.catalog.rows import NOTHING, Fingerprint, Known, Mark, Stored
from sessiond.errors import SessionCorrupt
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.journal import Journal
from sessiond.journal.profile.layout import Layout
from sessiond.journal.scanning import scan
from sessiond.journal.splitter import stored_size
from sessiond.model.entries import Header
from sessiond.service.files.assembly import Assembly
from sessiond.service.files.catalog_records import CatalogRecords, of_part
from sessiond.service.files.crash_recovery import judge_tail
from sessiond.service.files.in_place import AgentFile, AgentFiles
from sessiond.service.files.roots.roots import Roots
from sessiond.service.log.indexer import Indexer
from sessiond.service.ports import Progress
from sessiond.service.sources.agents.opencode.places import stored_place
from sessiond.service.sources.agents.sampling import HeldFile, HeldPart, part_of
from sessiond.service.store.listed import snapshot
from sessiond.visible import printable

T = TypeVar("T")


class NothingSaid(SessionCorrupt):
    """A file in the root of an agent in which the agent has said nothing yet."""

    def __init__(self, path: str) -> None:
        text = "the file is no session yet; the agent has said nothing in it"
        super().__init__(text, path=printable(path), line=1, repairable=False)


class _IsUnfinished(Exception):
    """End of the reading of a part behind which an append may lack its last lines.

    Only all lines of the file tell whether the append is one of sessiond's own, which then never happened.
    """


class Rows:
    """The rows of one profile's files."""

    def __init__(  # noqa: PLR0913 - the parts of one profile
        self,
        layout: Layout,
        files: Files,
        records: CatalogRecords,
        assembly: Assembly,
        *,
        agents: AgentFiles,
        roots: Roots,
    ) -> None:
        self._layout = layout
        self._files = files
        self._records = records
        self._assembly = assembly
        self._agents = agents
        self._roots = roots

    def header_id(self, path: Path) -> str:
        """Return the id in the first line of a file. Raises SessionCorrupt, StorageError."""
        return self.header(path).id

    def kind(self, path: Path) -> str:
        """Return the name of a file's dialect or agent. Raises SessionCorrupt, StorageError."""
        return self._of_either(
            path, lambda _: self._begun(path).dialect.name, lambda found, _: found.name
        )

    def header(self, path: Path) -> Header:
        """Return the first line of a file. Raises SessionCorrupt, StorageError."""
        return self._of_either(
            path, lambda _: self._begun(path).header, lambda found, _: found.header
        )

    def _of_either(
        self, path: Path, own: Callable[[HeldFile], T], others: Callable[[AgentFile, HeldFile], T]
    ) -> T:
        """Return what `own` makes of a dialect's file, or `others` of another agent's.

        Raises NothingSaid for a file in an agent's root that is no session yet. Outside the agents' roots
        nearly all files are a dialect's, so these cost one opening.
        """
        is_agents = stored_place(path) is not None or self._roots.agent_at(path)
        with self._agents.hold(path) as held:
            found = self._agents.recognise(path, held) if is_agents else None
            if found is None:
                try:
                    return own(held)
                except SessionCorrupt:
                    if is_agents:
                        raise NothingSaid(str(path)) from None
                    is_inside = self._layout.has(path)
                    found = None if is_inside else self._agents.recognise(path, held)
                    if found is None:
                        raise
            return others(found, held)

    def _begun(self, path: Path) -> Indexer:
        indexer = Indexer(path, in_place=True)
        rest = scan(self._files, path, indexer.visit, lines_max=1)
        if rest and not indexer.has_begun:
            indexer.visit(0, rest)
        return indexer

    def read(
        self, path: Path, session_id: str, known: Known | None, fingerprint: Fingerprint
    ) -> Stored:
        """Return the row of a file that is not open."""
        return self._of_either(
            path,
            lambda held: self._read(
                Indexer(path, in_place=True, session_id=session_id), held, known, fingerprint
            ),
            lambda found, held: self._read_in_place(found, held, session_id, known, fingerprint),
        )

    def read_new(
        self, path: Path, identify: Callable[[str, bool], str], fingerprint: Fingerprint
    ) -> Stored:
        """Return the row of a file without a record, in one opening.

        `identify` gives the session id by the id in the header; it is told whether the path is a link.
        What it raises ends the reading.
        """

        def own(held: HeldFile) -> Stored:
            indexer = Indexer(path, in_place=True, identify=lambda one: identify(one, held.is_link))
            return self._read(indexer, held, None, fingerprint)

        def others(found: AgentFile, held: HeldFile) -> Stored:
            is_link = found.stored is None and held.is_link
            session_id = identify(found.header.id, is_link)
            return self._read_in_place(found, held, session_id, None, fingerprint)

        return self._of_either(path, own, others)

    def _read_in_place(
        self,
        found: AgentFile,
        held: HeldFile,
        session_id: str,
        known: Known | None,
        fingerprint: Fingerprint,
    ) -> Stored:
        """Return the row of another agent's file; of a large one, from its beginning and its end."""
        if known is not None and not _grew(known.fingerprint, fingerprint):
            self._agents.forget(session_id)
        log, indexer, is_part = self._agents.summary(found, session_id, held)
        try:
            mark = self._mark(known, fingerprint, log.inode) if is_part else None
            epoch = None if mark is None else mark.epoch
            opened = self._assembly.opened(found.path, session_id, known, log, indexer, epoch=epoch)
            opened.partial = is_part
            return self._records.row(snapshot(opened), fingerprint, mark)
        finally:
            log.close()

    def read_whole(
        self,
        path: Path,
        session_id: str,
        known: Known | None,
        fingerprint: Fingerprint,
        progress: Progress,
    ) -> Stored:
        """Return the row of a file that is not open, all of its lines read."""

        def own(held: HeldFile) -> Stored:
            indexer = Indexer(path, in_place=True, session_id=session_id)
            return self._read_lines(indexer, held, known, fingerprint, progress)

        def others(found: AgentFile, _: HeldFile) -> Stored:
            log, indexer = self._agents.open(found, session_id, progress)
            try:
                opened = self._assembly.opened(found.path, session_id, known, log, indexer)
                return self._records.row(snapshot(opened), fingerprint)
            finally:
                log.close()

        return self._of_either(path, own, others)

    def _read(
        self, indexer: Indexer, held: HeldFile, known: Known | None, fingerprint: Fingerprint
    ) -> Stored:
        """Return the row of a dialect's file; of a large one of another program, from its beginning and its end.

        The profile's own files are read whole. Their titles and tags, which sessiond states once and then finds
        sessions by, may stand anywhere, and only a catalog that was lost has no rows of them.
        """
        path = indexer.path
        part = None if self._layout.has(path) else self._part(path, held)
        if part is not None:
            indexer.gap = part.gap
            try:
                return self._read_lines(indexer, part, known, fingerprint)
            except _IsUnfinished:
                indexer.gap = None
                indexer.begin_again()
        return self._read_lines(indexer, held, known, fingerprint)

    def _part(self, path: Path, held: HeldFile) -> HeldPart | None:
        """Return the part of a file that is read; None for a file that is read whole, as a small one."""
        with telling("open", path):
            if held.is_whole:
                return None
            begun = Indexer(path, in_place=True)
            part = part_of(held, begun.visit_lines, lambda: begun.session.first_message is not None)
            return part if part is not None and begun.has_shown_version else None

    def _read_lines(
        self,
        indexer: Indexer,
        held: HeldFile,
        known: Known | None,
        fingerprint: Fingerprint,
        progress: Progress | None = None,
    ) -> Stored:
        """Return the row of all lines of a dialect's file, or of those of a part; `progress` is told of the bytes.

        Raises _IsUnfinished for a part.
        """
        path, done = indexer.path, 0

        def visit(first: int, lines: list[bytes]) -> None:
            nonlocal done
            indexer.visit_lines(first, lines)
            if progress is not None:
                done += sum(map(stored_size, lines))
                progress.report(done, held.found.st_size, "bytes")

        journal = Journal.read_only(held.disk, path, visit)
        try:
            is_part = isinstance(held, HeldPart)
            if is_part and indexer.atoms.first is not None:
                raise _IsUnfinished
            with telling("read", path):
                judge_tail(self._files, journal, indexer)
            if is_part:
                if indexer.atoms.first is not None:
                    raise _IsUnfinished
                indexer.end_part()
            if (upgrade := indexer.upgrade) is not None:
                journal.translate(upgrade.again, upgrade.take)
            session_id = indexer.session_id or indexer.header.id
            mark = self._mark(known, fingerprint, journal.inode) if is_part else None
            epoch = None if mark is None else mark.epoch
            opened = self._assembly.opened(path, session_id, known, journal, indexer, epoch=epoch)
            opened.partial = is_part
            return self._records.row(snapshot(opened), fingerprint, mark)
        finally:
            journal.close()

    def _mark(self, known: Known | None, fingerprint: Fingerprint, inode: int) -> Mark:
        """Return the mark of a file of which a list reads a part: the epoch stands for lines that an opening saw."""
        if known is not None and _goes_on(known, fingerprint):
            return of_part(known.mark)
        return self._records.unseen(inode)

    def moved(self, known: Known, path: Path, fingerprint: Fingerprint) -> Stored:
        """Return the row of a file that only moved, without reading it if possible."""
        return self._records.moved(
            known,
            path,
            archived=self._layout.is_archived(path),
            draft=self._layout.is_pending(path),
        ) or self.read(path, known.session_id, known, fingerprint)


def _grew(before: Fingerprint, now: Fingerprint) -> bool:
    """Return whether a file may have all bytes that it had before, and none of them changed."""
    return before == now or (before.inode == now.inode and before.size < now.size)


def _goes_on(known: Known, now: Fingerprint) -> bool:
    """Return whether a file may have all lines that it had when its mark was made."""
    before, mark = known.fingerprint, known.mark
    # A mark without an inode is that of a file which has another one at each look.
    is_same = NOTHING in (before, now) or before.inode == now.inode or not mark.seen_inode
    return bool(mark.seen_digest) and is_same and (now == NOTHING or before.size <= now.size)
