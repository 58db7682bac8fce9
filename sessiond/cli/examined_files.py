"""What `doctor` finds in the session files of a profile.

Law: files are read and nothing else, whoever writes to them meanwhile.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from sessiond.cli.daemons import layout_of, who_serves
from sessiond.cli.examination import Finding
from sessiond.cli.options import Place
from sessiond.cli.progress import Steps
from sessiond.errors import SessiondError
from sessiond.journal.files import Files
from sessiond.journal.scanning import scan
from sessiond.service.indexer import Indexer

__all__ = ["examine_files"]


def examine_files(place: Place) -> Iterator[Finding]:
    """A finding for each file that is not well, and one that counts the others."""
    layout = layout_of(place)
    files = Files()
    paths = [*layout.scan(files, drafts=True)]
    # A line without an end may be one that the daemon is writing.
    is_served = who_serves(layout) is not None
    steps = Steps("doctor")
    well = 0
    for done, path in enumerate(paths):
        steps.show(done, len(paths), "files")
        flaws = [*_flaws(files, path, is_served=is_served)]
        well += not flaws
        yield from flaws
    steps.end()
    yield Finding("files", ok=True, what=f"{well} of {len(paths)} session files are well")


def _flaws(files: Files, path: Path, *, is_served: bool) -> Iterator[Finding]:
    try:
        mode = path.stat().st_mode
        indexer = Indexer(path)
        tail = scan(files, path, indexer.visit, lines_max=sys.maxsize)
        session = indexer.session
    except FileNotFoundError:
        return  # it was moved or deleted meanwhile
    except (SessiondError, OSError) as error:
        then = f"sessiond dump {path} shows its lines; move it away if it is no session"
        yield Finding("files", ok=False, what=str(error), next=then)
        return
    if stat.S_IMODE(mode) & 0o077:
        what = f"{path} is open to others (mode {stat.S_IMODE(mode):04o})"
        yield Finding("files", ok=False, what=what, next=f"chmod 600 {path}")
    if session.problem_count:
        first = session.problems[0]
        count = session.problem_count
        what = f"{path}: {count} problems, the first in line {first.line}: {first.detail}"
        yield Finding("files", ok=False, what=what, next=f"sessiond verify {path}")
    if tail and not is_served:
        what = f"{path}: the last line is torn"
        then = "nothing: the daemon mends it when it opens the session"
        yield Finding("files", ok=False, what=what, next=then)
