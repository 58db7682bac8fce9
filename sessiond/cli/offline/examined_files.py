"""Checks of `doctor` on the session files of a profile.

Law: files are only read, also while another program writes to them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from sessiond.cli.connect.probe import who_serves
from sessiond.cli.connect.target import layout_of
from sessiond.cli.offline.examination import Finding
from sessiond.cli.options import DaemonPlace
from sessiond.cli.ui.progress import Steps
from sessiond.errors import SessiondError
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.service.files.checking.verifying import VerifyScope
from sessiond.service.files.checks import verify_any
from sessiond.visible import counted, printable

# No problems while a daemon runs: it may be writing these bytes now.
_IN_WRITING = frozenset({"torn_tail", "incomplete_atom"})


def examine_files(place: DaemonPlace) -> Iterator[Finding]:
    """Yield a finding for each file that is not well, and one that counts the other files."""
    layout = layout_of(place)
    files = Files()
    try:
        paths = [*layout.scan(files, drafts=True)]
    except (SessiondError, OSError) as error:
        # A folder that cannot be read is a finding, as an unreadable file is.
        then = f"look at {layout.root} and its permissions"
        yield Finding("files", ok=False, what=str(error), next=then)
        return
    is_served = who_serves(layout) is not None
    steps = Steps("doctor")
    well = 0
    for done, path in enumerate(paths):
        steps.report(done, len(paths), "files")
        flaws = [*_flaws(layout, files, path, is_served=is_served)]
        well += all(flaw.ok for flaw in flaws)
        yield from flaws
    steps.end()
    yield from _twins(layout, paths)
    yield Finding("files", ok=True, what=f"session files without a problem: {well} of {len(paths)}")


def _twins(layout: Layout, paths: list[Path]) -> Iterator[Finding]:
    """Yield a finding for each further file of a session id.

    Only the first file, in the layout's order, is the session.
    """
    by_id: dict[str, list[Path]] = {}
    for path in paths:
        session_id = layout.id_of(path)
        if session_id is not None:
            by_id.setdefault(session_id, []).append(path)
    for session_id, found in by_id.items():
        first, *others = sorted(found, key=lambda path: (layout.folders.index(path.parent), path))
        for other in others:
            what = f"{other} has the session id {session_id}, but {first} is the session of that id"
            then = f"to keep it: `sessiond import {quote(str(other))}`; then move it away"
            yield Finding("files", ok=False, what=what, next=then)


def _flaws(layout: Layout, files: Files, path: Path, *, is_served: bool) -> Iterator[Finding]:
    if printable(path) != str(path):
        what = f"{path} has a name that is not UTF-8, so no list can show the file"
        yield Finding("files", ok=False, what=what, next="rename it")
    try:
        about = path.stat()
        found = verify_any(files, path, VerifyScope(named=layout.id_of(path)))
    except FileNotFoundError:
        return  # the file was moved or deleted meanwhile
    except (SessiondError, OSError) as error:
        yield Finding("files", ok=False, what=str(error), next=f"look at {path}")
        return
    mode = stat.S_IMODE(about.st_mode)
    if about.st_uid != os.geteuid():
        what = f"{path} belongs to another user (uid {about.st_uid})"
        yield Finding("files", ok=False, what=what, next=f"chown it, or move it away: {path}")
    if mode & 0o077:
        what = f"{path} is open to other users (mode {mode:04o})"
        yield Finding("files", ok=False, what=what, next=f"`chmod 600 {quote(str(path))}`")
    problems = [each for each in found.problems if not (is_served and each.kind in _IN_WRITING)]
    if problems:
        first = problems[0]
        what = f"{path}: {counted(found.problem_count, 'problem')}, the first in line {first.line}"
        if not (found.repairable or found.read_only or found.dialect is None):
            # A reference to a lost entry cannot be repaired, and no method fails over it.
            yield Finding("files", ok=True, what=f"{what}: {first.detail}; no repair is needed")
            return
        named = quote(str(path))
        then = f"see `sessiond verify {named}`"
        if found.repairable:
            then += f", then `sessiond repair {named}`"
        elif found.dialect is None:
            then = f"`sessiond dump {named}` shows its lines; move it away if it is no session"
        yield Finding("files", ok=False, what=f"{what}: {first.detail}", next=then)
