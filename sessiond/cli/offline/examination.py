"""Checks of `doctor` besides the session files: folders, socket, daemon, catalog, disk, limits.

Law: a check changes nothing, starts nothing and needs no daemon. Each finding says what was
examined, whether it is well, and if not what to do.
"""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote

from msgspec import Struct, structs

from sessiond.build import BUILD
from sessiond.catalog.guarded import FAILURES, read_only, require_openable
from sessiond.cli.connect.probe import ask_once, who_serves
from sessiond.cli.connect.target import find_socket, layout_of
from sessiond.cli.options import DaemonPlace
from sessiond.cli.ui.command_terms import placed
from sessiond.cli.ui.failure import Failure
from sessiond.config.config_file import BadConfiguration, file_of
from sessiond.config.configuration import Sources, load
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.limits import ANSWER_SECONDS, FREE_BYTES_MIN, FREE_DESCRIPTORS_MIN
from sessiond.visible import index_state, printable
from sessiond_client.versions import compared

_SHORTER = "stop the daemon, move the data folder to a shorter path, and give that path with --home"


class Finding(Struct, frozen=True, omit_defaults=True):
    """Result of one check."""

    check: str
    ok: bool
    what: str
    next: str | None = None


def told(finding: Finding) -> Finding:
    """Return the finding with printable names, also for names that are not UTF-8."""
    then = None if finding.next is None else placed(printable(finding.next))
    return structs.replace(finding, what=printable(finding.what), next=then)


def examine(place: DaemonPlace) -> Iterator[Finding]:
    """Yield the findings of every check in order; a check that fails is a finding too."""
    layout = layout_of(place)
    checks: tuple[tuple[str, Callable[[DaemonPlace, Layout], Iterator[Finding]]], ...] = (
        ("config", _configuration),
        ("folders", _folders),
        ("socket", _socket),
        ("daemon", _daemon),
        ("catalog", _catalog),
        ("search", _search),
        ("disk", _disk),
        ("limits", _limits),
    )
    said: str | None = None
    for name, check in checks:
        try:
            yield from check(place, layout)
        except Failure as failure:
            # A bad configuration fails several checks; one finding is enough.
            if failure.what != said:
                yield Finding(name, ok=False, what=failure.what, next=failure.then)
            said = failure.what
        except OSError as error:
            what = f"{error.filename or name}: {error.strerror or error}"
            yield Finding(name, ok=False, what=what, next="look at the path and its permissions")


def _configuration(place: DaemonPlace, _: Layout) -> Iterator[Finding]:
    try:
        file = file_of(os.environ, place.config)
        load(Sources(os.environ, place.config))
    except BadConfiguration as error:
        raise Failure(str(error), f"{error.then}; see `sessiond config --help`") from error
    what = "there is no file, which is fine" if file is None else f"{file} has no problems"
    yield Finding("config", ok=True, what=what)


def _folders(_: DaemonPlace, layout: Layout) -> Iterator[Finding]:
    try:
        layout.require_room()
    except OSError as error:
        what = f"{layout.home}: {error.strerror}"
        yield Finding("folders", ok=False, what=what, next=_SHORTER)
        return
    if not layout.root.exists():
        yield Finding("folders", ok=True, what=f"{layout.root} does not exist yet")
        return
    inner = (layout.sessions, layout.archive, layout.pending, layout.trash)
    for folder in (layout.root, *inner, layout.locks):
        if not folder.exists():
            continue
        if flaw := _not_writable(folder):
            yield flaw
            continue
        mode = folder.stat().st_mode
        if not stat.S_ISDIR(mode):
            then = "move it away; the daemon makes the folder"
            yield Finding("folders", ok=False, what=f"{folder} is no folder", next=then)
        elif stat.S_IMODE(mode) & 0o077:
            what = f"{folder} is open to other users (mode {stat.S_IMODE(mode):04o})"
            yield Finding("folders", ok=False, what=what, next=f"`chmod 700 {quote(str(folder))}`")
        else:
            yield Finding("folders", ok=True, what=f"{folder} is this user's alone")


def _not_writable(folder: Path) -> Finding | None:
    """Return the reason why this user cannot write into a folder; None if there is none."""
    if os.access(folder, os.W_OK | os.X_OK) or not folder.is_dir():
        return None
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        what = f"{folder} is on a file system that is mounted read-only: no entry can be stored"
        then = (
            f"mount it for writing: `mount -o remount,rw {quote(str(_mount_of(folder)))}`;"
            " or give another --home"
        )
    else:
        what = f"{folder} may not be written to by this user"
        named = quote(str(folder))
        then = f"give it to this user: `chown {os.geteuid()} {named}`, then `chmod 700 {named}`"
    return Finding("folders", ok=False, what=what, next=then)


def _mount_of(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.is_mount())


def _socket(place: DaemonPlace, _: Layout) -> Iterator[Finding]:
    path = find_socket(place)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        yield Finding("socket", ok=True, what=f"{path} does not exist: no daemon listens")
        return
    if not stat.S_ISSOCK(mode):
        then = "move it away, or choose another path with --socket"
        yield Finding("socket", ok=False, what=f"{path} is not a socket", next=then)
    elif stat.S_IMODE(mode) & 0o077:
        what = f"{path} is open to other users (mode {stat.S_IMODE(mode):04o})"
        yield Finding("socket", ok=False, what=what, next="restart the daemon: `sessiond restart`")
    else:
        yield Finding("socket", ok=True, what=f"{path} is this user's alone")


def _daemon(place: DaemonPlace, layout: Layout) -> Iterator[Finding]:
    path = find_socket(place)
    serving = who_serves(layout)
    try:
        info = ask_once(path, "server/info", seconds=ANSWER_SECONDS)
    except TimeoutError:
        what = f"the process that listens on {path} gives no answer"
        yield Finding("daemon", ok=False, what=what, next="look at the process, or end it")
        return
    if info is None:
        if serving is None:
            yield Finding("daemon", ok=True, what="none runs")
            return
        what = f"{serving} serves this profile and {serving.place}"
        then = "give the daemon's socket with --socket, or stop the daemon"
        yield Finding("daemon", ok=False, what=what, next=then)
    elif (other := compared(info["version"], info.get("build", ""), BUILD)) is not None:
        yield Finding("daemon", ok=False, what=other, next="`sessiond restart` replaces it")
    elif Path(info["data_folder"]) != layout.root:
        what = f"the daemon on {path} serves {info['data_folder']}, not {layout.root}"
        yield Finding(
            "daemon", ok=False, what=what, next="give the --home or --socket of the other daemon"
        )
    else:
        what = f"pid {info['pid']}, version {info['version']}, since {info['started_at']}"
        yield Finding("daemon", ok=True, what=what)


def _catalog(_: DaemonPlace, layout: Layout) -> Iterator[Finding]:
    yield _database("catalog", layout.catalog)


def _search(place: DaemonPlace, layout: Layout) -> Iterator[Finding]:
    yield _database("search", layout.search)
    try:
        stats = ask_once(find_socket(place), "server/stats", seconds=ANSWER_SECONDS)
    except TimeoutError:
        # The check of the daemon says so.
        return
    index = None if stats is None else stats.get("index")
    if index is not None and (state := index_state(index)) is not None:
        well = index["problem"] is None
        then = None if well else "remove the cause: the daemon tries again at each search"
        yield Finding("search", ok=well, what=f"the daemon's index: {state}", next=then)


def _database(check: str, path: Path) -> Finding:
    try:
        require_openable(path)
    except OSError as error:
        what = f"{path} is not kept, and made again at each start: {error.strerror}"
        return Finding(check, ok=False, what=what, next=_SHORTER)
    if not path.exists():
        return Finding(check, ok=True, what=f"{path} does not exist yet")
    then = f"`sessiond stop`, then `rm {quote(str(path))}`: the daemon makes it again from the session files"
    try:
        (said,) = read_only(path, lambda one: one.execute("PRAGMA quick_check(1)").fetchone())
    except sqlite3.OperationalError as error:
        # An unreadable database says nothing about its content.
        if _not_writable(path.parent):
            return Finding(
                check, ok=True, what=f"{path} cannot be checked in a folder that is not writable"
            )
        what = f"{path} could not be checked: {error}"
        return Finding(check, ok=False, what=what, next=f"look at {path} and its permissions")
    except FAILURES as error:
        # SQLite repeats a damaged name in its words, which are no UTF-8 then.
        return Finding(check, ok=False, what=f"{path}: {error}", next=then)
    well = said == "ok"
    return Finding(check, ok=well, what=f"{path}: {said}", next=None if well else then)


def _disk(_: DaemonPlace, layout: Layout) -> Iterator[Finding]:
    folder = layout.root
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    what = f"{free // 1024**2} MiB are free for {folder}"
    well = free >= FREE_BYTES_MIN
    yield Finding("disk", ok=well, what=what, next=None if well else "make room")


def _limits(_: DaemonPlace, __: Layout) -> Iterator[Finding]:
    # A daemon raises its limit as far as it may.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    well = (
        hard == resource.RLIM_INFINITY or hard >= Files().descriptors_used() + FREE_DESCRIPTORS_MIN
    )
    what = (
        "a daemon may open enough files"
        if well
        else f"too few files may be open: ulimit -n is {hard}"
    )
    yield Finding("limits", ok=well, what=what, next=None if well else "raise ulimit -n")
