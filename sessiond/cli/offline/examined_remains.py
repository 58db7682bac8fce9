"""Checks of `doctor` beside the session files: remains of crashes, repairs and deletes.

Law: no remains keep a session from being read, so all of them are well. They take room and may be
the last copy of a user's data, so each finding names what they are and who may remove them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sessiond.catalog.guarded import FAILURES, read_only
from sessiond.cli.connect.probe import who_serves
from sessiond.cli.connect.target import layout_of
from sessiond.cli.offline.examination import Finding
from sessiond.cli.options import DaemonPlace
from sessiond.errors import SessiondError
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.holder import holders, may_live
from sessiond.journal.profile.layout import Layout
from sessiond.journal.scanning import scan
from sessiond.service.database.scanning.rows import is_in_database
from sessiond.service.log.indexer import Indexer
from sessiond.service.sources.agents.opencode.paths import Paths
from sessiond.visible import counted


def examine_remains(place: DaemonPlace) -> Iterator[Finding]:
    """Yield a finding for each kind of remains."""
    layout, files = layout_of(place), Files()
    try:
        yield from _half_made(layout, files, is_served=who_serves(layout) is not None)
        yield from _cut_ends(layout, files)
        yield from _trash(layout, files)
        yield from _locks(layout, files)
        yield from _catalog(layout, files)
    except (SessiondError, OSError) as error:
        then = f"look at {layout.root} and its permissions"
        yield Finding("remains", ok=False, what=str(error), next=then)


def _half_made(layout: Layout, files: Files, *, is_served: bool) -> Iterator[Finding]:
    found = [*layout.half_made(files)]
    if found and not is_served:
        # While a daemon runs these may be files that it is making now.
        what = f"{counted(len(found), 'file')} that a crash left half written, the first {found[0]}"
        yield Finding("remains", ok=True, what=what, next="the next start of a daemon removes them")


def _cut_ends(layout: Layout, files: Files) -> Iterator[Finding]:
    found = [*layout.cut_ends(files)]
    if found:
        what = f"{counted(len(found), 'torn end')} that a crash left and an opening moved aside"
        then = f"look at them, then remove them; the first is {found[0]}"
        yield Finding("remains", ok=True, what=what, next=then)


def _trash(layout: Layout, files: Files) -> Iterator[Finding]:
    paths = [layout.trash / name for name in _names(files, layout.trash)]
    owned = [path for path in paths if layout.is_trashed(files, path)]
    if owned:
        sessions = {layout.trashed_id(path) for path in owned}
        size = sum(path.lstat().st_size for path in owned if os.path.lexists(path))
        what = f"{counted(len(owned), 'file')} of {counted(len(sessions), 'session')}, {size} bytes"
        yield Finding(
            "trash", ok=True, what=what, next="`sessiond purge` removes a deleted session"
        )
        bad = [path for path in owned if path.suffix == ".jsonl" and not _has_header(files, path)]
        if bad:
            what = f"{counted(len(bad), 'file')} that cannot be read, the first {bad[0]}"
            then = "they cannot be brought back as sessions; `sessiond dump` shows their lines"
            yield Finding("trash", ok=True, what=what, next=then)
    strange = [path for path in paths if path not in owned]
    if strange:
        what = f"{counted(len(strange), 'file')} that belong to no session, the first {strange[0]}"
        then = "no purge removes them: move them away or remove them by hand"
        yield Finding("trash", ok=True, what=what, next=then)


def _has_header(files: Files, path: Path) -> bool:
    indexer = Indexer(path)
    try:
        rest = scan(files, path, indexer.visit, lines_max=1)
        if rest and not indexer.has_begun:
            indexer.visit(0, rest)
    except SessiondError:
        return False
    return indexer.has_begun


def _catalog(layout: Layout, files: Files) -> Iterator[Finding]:
    """Yield a finding if the catalog's files differ from the folders' files; each list compares them too."""
    if not layout.catalog.exists():
        return
    try:
        listed_paths = "SELECT path FROM sessions WHERE listed = 1"
        rows = read_only(layout.catalog, lambda one: one.execute(listed_paths).fetchall())
    except FAILURES:
        return  # the check of the database reports it
    # Whether a session is in its database, only the database tells.
    listed = {path for (path,) in rows if not is_in_database(path)}
    there = {str(path) for path in layout.scan(files, drafts=True)}
    paths = Paths(files)
    gone = sum(not paths.exists(path) for path in listed)
    new = len(there - listed)
    if gone or new:
        what = f"{counted(gone, 'listed file')} missing, {counted(new, 'file')} not listed yet"
        yield Finding("catalog", ok=True, what=what, next="the next `sessiond list` corrects it")


def _locks(layout: Layout, files: Files) -> Iterator[Finding]:
    stale = [
        path
        for path, holder in (holders(files, layout.locks) if layout.locks.exists() else [])
        if not may_live(files, holder)
    ]
    if stale:
        what = f"{counted(len(stale), 'record')} of processes that are gone, the first {stale[0]}"
        then = (
            "they lock nothing; leave them: the next opening of such a file makes its last entries"
            " durable again"
        )
        yield Finding("locks", ok=True, what=what, next=then)


def _names(files: Files, folder: Path) -> list[str]:
    return sorted(files.listdir(folder)) if folder.exists() else []
