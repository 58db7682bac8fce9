"""Row maker: the program of a process that reads new files for a scan; `row_makers` starts it.

It reads messages from its standard input until their end, and writes an answer to each: one row a file, and
none where the daemon has to read the file itself. It opens no file for writing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sessiond import typed
from sessiond.build import BUILD
from sessiond.catalog.rows import Records, Stored
from sessiond.daemon.environment import real_environment
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.limits import PLACES_THREADS_MAX
from sessiond.service.files.assembly import Assembly
from sessiond.service.files.catalog_records import CatalogRecords
from sessiond.service.files.in_place import AgentFiles
from sessiond.service.files.roots.roots import Roots
from sessiond.service.files.rows import Rows
from sessiond.service.files.scanning.row_makers import Asked, Setup, receive, send
from sessiond.service.sources.agents.opencode.paths import Paths
from sessiond.service.thread_pool import ThreadPool

if TYPE_CHECKING:
    from sessiond.catalog.catalog import Catalog


class _IsLink(Exception):
    """End of the reading of a link: whether a list shows its file is the daemon's to decide."""


class _RowMaker:
    """The rows of files of one profile's roots, without the profile's catalog."""

    def __init__(self, setup: Setup) -> None:
        layout, disk = Layout(Path(os.fsdecode(setup.home)), setup.profile), Files()
        environment = real_environment(lambda _what, _bug: "")
        roots = Roots(layout, disk, environment.report_trouble, ThreadPool(PLACES_THREADS_MAX))
        roots.current = tuple(setup.roots)
        self._files = roots.files
        # Of a catalog, the rows of new files need that it has none of them.
        catalog = cast("Catalog", Records(()))
        records = CatalogRecords(catalog, Paths(self._files), environment.new_epoch)
        assembly = Assembly(layout, self._files, records, environment, roots=roots)
        agents = AgentFiles(self._files, layout.pending)
        self._rows = Rows(layout, self._files, records, assembly, agents=agents, roots=roots)

    def rows(self, asked: Sequence[Asked]) -> list[Stored | None]:
        """Return the rows of files. One thread reads them, since nearly all lie at one place."""
        rows: list[Stored | None] = [None] * len(asked)

        def read() -> None:
            for at, one in enumerate(asked):
                rows[at] = self._row(one)

        # The rows before a place fell silent stay.
        with suppress(TimeoutError):
            self._files.visit(Path(asked[0].path), read)
        return rows

    def _row(self, asked: Asked) -> Stored | None:
        try:
            return self._rows.read_new(Path(asked.path), _named_by_header, asked.fingerprint)
        except Exception:  # noqa: BLE001 - the daemon reads the file itself, and tells what it meets
            return None


def _named_by_header(header_id: str, is_link: bool) -> str:  # noqa: FBT001
    if is_link:
        raise _IsLink
    return header_id


def main() -> None:
    """Answer until the daemon asks no more."""
    fd_in, fd_out = sys.stdin.fileno(), sys.stdout.fileno()
    setup = receive(fd_in, typed.unpacker(Setup).decode)
    if setup is None or setup.build != BUILD:
        return
    maker, decode = _RowMaker(setup), typed.unpacker(list[Asked]).decode
    send(fd_out, [])
    while (asked := receive(fd_in, decode)) is not None:
        send(fd_out, maker.rows(asked))


if __name__ == "__main__":
    main()
