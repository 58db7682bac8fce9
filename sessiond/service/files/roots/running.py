"""Programs of other agents that run now, as the agents' own registries say.

Law: a registry is read when a list is asked for, and what it says is kept for RUNNING_SECONDS and stored
nowhere. Nothing is read unless the agent's folder is a root. A file that is missing, damaged or too large
says nothing, nor does one whose process has ended. Blocking, for worker threads.

Claude Code has a file for each process that runs, `sessions/<pid>.json` beside its folder of projects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.errors import SessiondError
from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import open_regular
from sessiond.limits import RUNNING_FILE_BYTES_MAX, RUNNING_FILES_MAX, RUNNING_SECONDS
from sessiond.service.files.roots.roots import Root, Roots
from sessiond.service.log.session_info import Activity

_KIND: Final = "claude-code"
_NAME: Final = r"[1-9][0-9]{0,9}\.json"
# A state of another name says nothing.
_ACTIVITIES: Final[Mapping[str, Activity]] = {"busy": "busy", "idle": "idle"}
_PID_MAX: Final = 2**31 - 1
# The first fields of a process are its id and its name, which may have spaces; the name ends with ")".
_START_FIELD: Final = 19


class _Registered(Struct, rename="camel"):
    """File of a registry, as far as a list needs it."""

    session_id: str
    pid: int
    status: str
    proc_start: str | int | None = None


class _Listed(Struct):
    """Row of a list, as far as it tells whose session it is."""

    id: str
    path: str | None


_Read = tuple[float, Mapping[str, Activity]]


class RunningPrograms:
    """The registries of the agents whose folders are roots, each read at most once in RUNNING_SECONDS."""

    def __init__(self, files: Files, roots: Roots, monotonic: Callable[[], float]) -> None:
        self._files = files
        self._roots = roots
        self._monotonic = monotonic
        self._read: dict[Path, _Read] = {}

    def marked(self, sessions: list[bytes]) -> list[bytes]:
        """Return the rows of a list, with `running` in those whose program runs."""
        found = [(root, self._of(root)) for root in self._roots.current if root.kind == _KIND]
        found = [(root, running) for root, running in found if running]
        if not found:
            return sessions
        return [_marked(info, found) for info in sessions]

    def _of(self, root: Root) -> Mapping[str, Activity]:
        """Return the sessions of the programs that run, by the registry that belongs to a root."""
        folder, now = _registry(Path(root.path)), self._monotonic()
        if folder is None:
            return {}
        kept = self._read.get(folder)
        if kept is None or not 0 <= now - kept[0] < RUNNING_SECONDS:
            self._read[folder] = kept = now, self._running(folder)
        return kept[1]

    def _running(self, folder: Path) -> dict[str, Activity]:
        running: dict[str, Activity] = {}
        for one in self._registered(folder):
            # Of two programs on one session, the busy one counts.
            if running.get(one.session_id) != "busy" and one.status in _ACTIVITIES:
                running[one.session_id] = _ACTIVITIES[one.status]
        return running

    def _registered(self, folder: Path) -> Iterator[_Registered]:
        """Yield the files of processes that run."""
        try:
            names = self._files.listdir(folder)
        except OSError:
            return
        named = [name for name in names if re.fullmatch(_NAME, name)]
        for name in named[:RUNNING_FILES_MAX]:
            with suppress(OSError, SessiondError, msgspec.DecodeError, UnicodeDecodeError):
                text, written_at = self._content(folder / name)
                one = typed.decode(text, _Registered)
                if str(one.pid) == Path(name).stem and self._runs(one, written_at):
                    yield one

    def _content(self, path: Path) -> tuple[bytes, float]:
        """Return the content of a small file and the time of its last change. Raises OSError."""
        fd = open_regular(self._files, path)
        try:
            text = self._files.pread(fd, RUNNING_FILE_BYTES_MAX + 1, 0)
            if len(text) > RUNNING_FILE_BYTES_MAX:
                text = b""
            return text, self._files.fstat(fd).st_mtime_ns / 1e9
        finally:
            close_quietly(self._files, fd)

    def _runs(self, one: _Registered, written_at: float) -> bool:
        """Return whether the process that wrote its file at this time still runs."""
        # A process from before the machine's start has ended, whoever has its id now.
        if one.pid > _PID_MAX or written_at < self._files.booted_at():
            return False
        if not self._files.is_alive(one.pid):
            return False
        stated, start = str(one.proc_start), self._start_of(one.pid)
        # The time of a start has other spellings on other systems; only equal spellings compare.
        return start is None or not stated.isdigit() or stated == start

    def _start_of(self, pid: int) -> str | None:
        """Return when a process began, in the system's ticks; None where the system does not say."""
        try:
            fd = self._files.open_read(Path(f"/proc/{pid}/stat"))
        except OSError:
            return None
        try:
            fields = self._files.pread(fd, RUNNING_FILE_BYTES_MAX, 0).rpartition(b")")[2].split()
        except OSError:
            return None
        finally:
            close_quietly(self._files, fd)
        return fields[_START_FIELD].decode() if len(fields) > _START_FIELD else None


def _registry(root: Path) -> Path | None:
    """Return the registry that belongs to a folder of projects, or to the folder of one project."""
    for projects in (root, root.parent):
        if projects.name == "projects":
            return projects.parent / "sessions"
    return None


def _marked(info: bytes, found: Sequence[tuple[Root, Mapping[str, Activity]]]) -> bytes:
    listed = typed.decode(info, _Listed)
    for root, running in found:
        state = running.get(listed.id)
        # A session of another folder may have the id of one that runs here.
        if state is not None and listed.path is not None and root.holds(Path(listed.path)):
            return b'%s,"running":"%s"}' % (info[:-1], state.encode())
    return info
