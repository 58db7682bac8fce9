"""Profile: what the session files of one profile are kept with, put together once."""

from __future__ import annotations

from pathlib import Path

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.fulltext import TextIndex
from sessiond.journal.disk.files import Files
from sessiond.journal.kept_copies import KeptCopies
from sessiond.journal.profile.layout import Layout
from sessiond.limits import KEPT_COPIES_BYTES_MAX, PLACES_THREADS_MAX
from sessiond.service.environment import Environment
from sessiond.service.files.assembly import Assembly
from sessiond.service.files.catalog_records import CatalogRecords
from sessiond.service.files.checks import FileChecks
from sessiond.service.files.in_place import AgentFiles
from sessiond.service.files.kept_index import KeptIndexes
from sessiond.service.files.locations import SessionFiles
from sessiond.service.files.roots.roots import Roots
from sessiond.service.files.rows import Rows
from sessiond.service.sources.agents.opencode.paths import Paths
from sessiond.service.thread_pool import ThreadPool


class Profile:
    """The folders, the catalog and the files of one profile; the folders exist."""

    def __init__(self, layout: Layout, files: Files, environment: Environment) -> None:
        self.layout = layout
        self._disk = files
        self._places = ThreadPool(PLACES_THREADS_MAX)
        self.roots = Roots(layout, files, environment.report_trouble, self._places)
        self.files = files = self.roots.files
        self.environment = environment
        self.catalog = Catalog(layout.catalog, environment.report_trouble)
        self.texts = TextIndex(layout.search, environment.report_trouble)
        self.paths = Paths(files)
        self.records = CatalogRecords(self.catalog, self.paths, environment.new_epoch)
        copies = KeptCopies(files, layout.indexes, KEPT_COPIES_BYTES_MAX)
        self.indexes = KeptIndexes(files, layout.index_path, copies)
        self.agents = AgentFiles(files, layout.pending, self.indexes)
        self.session_files = SessionFiles(
            layout,
            files,
            self.records,
            self.indexes,
            environment,
            roots=self.roots,
            agents=self.agents,
            paths=self.paths,
        )
        self.assembly = Assembly(layout, files, self.records, environment, roots=self.roots)
        self.rows = Rows(
            layout, files, self.records, self.assembly, agents=self.agents, roots=self.roots
        )
        self.checks = FileChecks(self.session_files, layout, files, self.agents)

    def files_at(self, path: Path) -> Files:
        """Return the disk for a session's file: a guarded one outside the profile, where looks have an end."""
        return self.files if self.roots.place_of(str(path)) else self._disk

    def close(self) -> None:
        """Close the catalog and the search index, and end the threads of looks outside the profile."""
        self._places.end()
        self.catalog.close()
        self.texts.close()
