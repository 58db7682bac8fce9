"""The store that keeps each session as one file: the port, put together of the profile's parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

import anyio

from sessiond.catalog.query import Query
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.journal.spooled import SpooledLog
from sessiond.limits import LEASE_EPOCHS_RESERVED
from sessiond.model.times import unix_ms
from sessiond.service.environment import Environment
from sessiond.service.external.inotify import best_watcher
from sessiond.service.external.watcher import Changed, Watch, Watcher
from sessiond.service.files.line_texts import LineTexts
from sessiond.service.files.making import SessionMaker
from sessiond.service.files.opening import SessionOpener
from sessiond.service.files.profile import Profile
from sessiond.service.files.root_list import FolderRoots
from sessiond.service.files.roots.running import RunningPrograms
from sessiond.service.files.scanning.folder_scanner import FolderScanner
from sessiond.service.files.trashed import TrashedFiles
from sessiond.service.log.open_session import OpenSession
from sessiond.service.sources.agents.opencode.places import watched_path
from sessiond.service.store.roots import ShownAt
from sessiond.state import codec
from sessiond.state.documents import Documents
from sessiond.state.folder import Decode, DocumentFolder
from sessiond.state.key_file import KeySource
from sessiond.state.secret_store import SecretStore

D = TypeVar("D", covariant=True)


class FileStore:
    """The session files of one profile, whose folders exist (`Layout.make_folders`)."""

    def __init__(
        self,
        layout: Layout,
        files: Files,
        environment: Environment,
        watcher: Watcher | None = None,
    ) -> None:
        """Take the watcher of files and folders; without one, the best that the system has."""
        self.profile = profile = Profile(layout, files, environment)
        self._watcher = watcher or best_watcher(
            profile.paths, environment.report_trouble, watched_path
        )
        self.data_folder = str(layout.root)
        self.catalog = profile.catalog
        self.texts = profile.texts
        self.opener = opener = SessionOpener(profile)
        maker = SessionMaker(profile, opener)
        places, trashed = profile.session_files, TrashedFiles(profile)

        self.create, self.make, self.promote = maker.create, maker.make, maker.promote
        self.require_free, self.write_new = maker.require_free, maker.write_new
        self.root_of_copy = profile.roots.root_of_copy
        self.open, self.reopen, self.settle = opener.open, opener.reopen, opener.settle
        self.place_of = opener.place_of
        self.identify, self.find_entry = opener.identify, opener.find_entry
        self.has, self.require_there = places.has, places.require_folder
        self.archive, self.unarchive = places.archive, places.unarchive
        self.now, self.written_at = places.now, places.written_at
        self.discard, self.restore, self.repair = places.discard, places.restore, places.repair
        self.discard_unused = places.discard_unused
        self.trashed, self.purge = trashed.page, trashed.purge
        self.erase, self.purged = trashed.erase, trashed.purged
        self.forget = trashed.forget
        self.verify, self.plan_repair = profile.checks.verify, profile.checks.plan_repair
        self.row, self.note = profile.records.row, profile.records.note
        texts = LineTexts(profile)
        self.texts_behind, self.check_hits = texts.behind, texts.check
        self.whereabouts = profile.roots.whereabouts
        running = RunningPrograms(files, profile.roots, environment.monotonic)
        self.with_activity = running.marked

        # The clock or the catalog may be lost; the other one still exceeds all earlier epochs.
        now_ms = unix_ms(environment.now()) or 0
        now_us = now_ms * 1000
        # Where the files went back to an earlier moment, the clock exceeds all revisions: in tenths of milliseconds,
        # which changes do not outrun, and fourteen digits, which encoders in Lua keep.
        tenths = now_ms * 10
        first = self.catalog.reserve("lease_epoch", now_us, LEASE_EPOCHS_RESERVED)
        self.next_lease_epoch = count(first).__next__
        # One daemon serves a profile.
        self.lease_table = self.company = self.database = None
        report = environment.report_trouble
        values = self._folder(layout.state, partial(codec.decode_as, codec.STATE))
        self.documents = Documents(values, tenths, report)
        encrypted = self._folder(layout.secrets, partial(codec.decode_as, codec.SECRETS))
        self.keys = keys = KeySource(files, layout.home, environment.key_settings)
        self.secrets = SecretStore(keys, partial(Documents, encrypted, tenths, report))

    def spooled(self) -> SpooledLog:
        """Return an empty log for a session in the making; its maker closes the log. Raises StorageError."""
        return SpooledLog(self.profile.files, self.profile.layout.pending)

    def open_elsewhere(self) -> Collection[str]:
        """Return no ids: one daemon serves the files of a profile."""
        return ()

    def raw_documents(self, kind: str) -> DocumentFolder[bytes]:
        """Return the files of one kind of document, as their bytes."""

        def whole(data: bytes, namespace: str) -> bytes:
            codec.decode_as(kind, data, namespace)
            return data

        layout = self.profile.layout
        return self._folder(layout.state if kind == codec.STATE else layout.secrets, whole)

    def _folder(self, folder: Path, decode: Decode[D]) -> DocumentFolder[D]:
        return DocumentFolder(
            self.profile.files,
            folder,
            decode,
            stamp=self.profile.environment.file_stamp,
            report=self.profile.environment.report_trouble,
        )

    def watch(self, opened: OpenSession, changed: Changed) -> Watch:
        """Call `changed` for each change of the file that has an open session's path."""
        return self._watcher.watch(lambda: opened.path, changed)

    async def run(self, wake: Callable[[], None], is_watched: Callable[[], bool]) -> None:
        """Deliver notices of files and folders until cancelled."""
        del is_watched
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watcher.run)
            tasks.start_soon(self._watcher.folders.run, wake)

    def scanner(self, has_open: Callable[[str], bool]) -> FolderScanner:
        """Return the scanner that compares the folders with the catalog."""
        return FolderScanner(self.profile, has_open, self._watcher.folders)

    def claim(self, opened: OpenSession, work: str) -> None:
        """Return None: one daemon serves a profile."""
        del opened, work

    def routine(self, work: str, seconds: float) -> None:
        """Return None: one daemon serves a profile."""
        del work, seconds

    def root_list(self, on_change: Callable[[ShownAt], Awaitable[None]]) -> FolderRoots:
        """Return the roots; `on_change` is awaited after a change."""
        return FolderRoots(self.profile, on_change)

    def folder_of(self, path: str) -> str:
        """Return the path of the root that is meant, or the path itself."""
        root = self.profile.roots.find(path)
        return path if root is None else root.path

    def older(self, before_ns: int) -> Query:
        """Return the query of the sessions in the sessions folder that were written before a time."""
        folder = str(self.profile.layout.sessions)
        return Query(written_before_ns=before_ns, root=folder, sort="written", descending=False)

    def close(self) -> None:
        """Close the catalog, the search index and the watcher."""
        self.profile.close()
        self._watcher.close()
