"""Facts of a session from the files beside its file: its title, its project, its beginning.

Law: a file beside the source that is missing, damaged or too large says nothing. No such file is written
or locked.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate, chain
from pathlib import Path
from typing import Final

from sessiond.dialects.agents.source_line import decoded, member
from sessiond.dialects.lenient_json import lenient, text
from sessiond.errors import SessiondError
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files, FileStat
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.journal.store import Replaced
from sessiond.limits import RESULT_BYTES_MAX
from sessiond.service.sources.agents.compressed import COMPRESSED, unpacked
from sessiond.service.sources.agents.sampling import HeldFile
from sessiond.service.sources.agents.source import Beside
from sessiond.service.sources.agents.sources import Span, first_line, lines_of

_ROLLOUT: Final = r"rollout-.*?([0-9a-f-]{36})\.jsonl(?:\.zst)?"
_NAMES: Final = "session_index.jsonl"
# Years, months and days lie between a rollout and the home of Codex.
_LEVELS_UP: Final = 5
_FORKS_MAX: Final = 100


def beside(path: Path, first: bytes, files: Files) -> Beside:
    """Return what the files beside a file say of the session with this first line. Waits for the disk."""
    name = path.name
    if re.fullmatch(_ROLLOUT, name):
        if not first:
            return Beside()
        thread = text(member(lenient(first), "payload").get("id"))
        return Beside(title=ThreadNames(files).of(path, thread), before=_before(path, first, files))
    if (chats := _chats_above(path)) is not None:
        root = _content(chats.parent / ".project_root", files)
        return Beside(cwd=None if root is None else root.decode(errors="replace").strip() or None)
    if name.startswith("agent-"):
        about = lenient(_content(path.with_suffix(".meta.json"), files) or b"")
        return Beside(title=text(about.get("description")))
    return Beside()


def _chats_above(path: Path) -> Path | None:
    """Return the folder of chats of Gemini CLI that has a file, or the folder of the file; None for any other file."""
    if "/chats/" not in str(path):
        return None
    return next((one for one in (path.parent, path.parent.parent) if one.name == "chats"), None)


class ThreadNames:
    """The names that Codex gives to its threads: the index of names of each home, read once a change."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._read: dict[Path, tuple[tuple[int, int], dict[str, str]]] = {}
        self._told: dict[Path, dict[str, str]] = {}

    def of(self, rollout: Path, thread_id: str | None) -> str | None:
        """Return the newest name of a thread; None if there is none to read."""
        if not thread_id or not re.fullmatch(_ROLLOUT, rollout.name):
            return None
        homes = _homes_of(rollout.parent)
        with suppress(OSError):
            found = self._files.together(rollout, lambda disk: _first_index(homes, disk))
            return None if found is None else self._names(*found).get(thread_id)
        return None

    def changes(self, folders: Iterable[Path]) -> dict[str, str]:
        """Return the names that changed since the last call, of the homes that have these folders."""
        changed: dict[str, str] = {}
        for home in {folder.parent for folder in folders}:
            names, told = self._at(home) or {}, self._told.get(home, {})
            if names is not told:
                changed |= {one: name for one, name in names.items() if told.get(one) != name}
                self._told[home] = names
        return changed

    def _at(self, home: Path) -> dict[str, str] | None:
        """Return the names of the threads of a home; None where there is no index of names."""
        with suppress(OSError):
            found = self._files.together(home, lambda disk: _first_index((home / _NAMES,), disk))
            return None if found is None else self._names(*found)
        return None

    def _names(self, index: Path, found: FileStat) -> dict[str, str]:
        """Return the names in an index, which is read if it has changed."""
        state = found.st_size, found.st_mtime_ns
        known = self._read.get(index)
        if known is None or known[0] != state:
            self._read[index] = known = state, _names_in(_content(index, self._files) or b"")
        return known[1]


@lru_cache(maxsize=64)
def _homes_of(folder: Path) -> tuple[Path, ...]:
    """Return the places of an index of names for the rollouts in a folder."""
    return tuple(home / _NAMES for home in (folder, *folder.parents)[:_LEVELS_UP])


def _first_index(places: Iterable[Path], disk: Files) -> tuple[Path, FileStat] | None:
    """Return the first of these files that is there, with its state."""
    for index in places:
        with suppress(OSError):
            return index, disk.stat(index)
    return None


def _names_in(index: bytes) -> dict[str, str]:
    """Return the newest name of each thread."""
    names: dict[str, str] = {}
    for row in map(lenient, index.split(b"\n")):
        thread, name = text(row.get("id")), text(row.get("thread_name"))
        if thread and name:
            names[thread] = name
    return names


def spans_before(path: Path, first: bytes, files: Files) -> list[Span] | None:
    """Return the spans with which a rollout begins, by its first line; None if a rollout is missing."""
    spans: list[Span] = []
    while base := member(lenient(first), "payload", "history_base"):
        name, end = text(base.get("thread_id")), decoded(base.get("end_byte_offset"), int, 0)
        found = None if name is None or len(spans) > _FORKS_MAX else _rollout(path, name, files)
        if found is None:
            return None
        spans.append(Span(found, end))
        first = first_line(files, found)
    return spans[::-1]


def _before(path: Path, first: bytes, files: Files) -> Callable[[], Iterable[list[bytes]]] | None:
    """Return the reader of the lines of other rollouts that a fork begins with; None if one is missing."""
    spans = spans_before(path, first, files)
    if spans is None or not all(_is_whole(span, files) for span in spans):
        return None
    return lambda: chain.from_iterable(_lines_of(files, span) for span in spans)


def _lines_of(files: Files, span: Span) -> Iterator[list[bytes]]:
    with telling("read", span.path):
        try:
            yield from lines_of(files, span)
        except Replaced as replaced:
            raise OSError(errno.ESTALE, "another program has changed it") from replaced


def _is_whole(span: Span, files: Files) -> bool:
    """Return whether a rollout reaches up to the end of a span."""
    try:
        fd = open_regular(files, span.path)
    except (OSError, SessiondError):
        return False
    try:
        size = check_regular(files, fd)
        if files.pread(fd, len(COMPRESSED), 0) == COMPRESSED:
            pieces = unpacked(files, fd, size, span.path.name)
            size = next((one for one in accumulate(map(len, pieces)) if one >= span.end), 0)
    except (OSError, SessiondError):
        return False
    finally:
        files.close(fd)
    return size >= span.end


def _rollout(path: Path, rollout_id: str, files: Files) -> Path | None:
    """Return the file of another rollout of the same home of Codex."""
    near = [path.parent, *_days_of(path, rollout_id)]
    homes = list(path.parents)[:_LEVELS_UP]
    far = [home / name for home in homes for name in ("sessions", "archived_sessions")]
    for folders, levels in ((near, 1), (far, _LEVELS_UP)):
        for found in chain.from_iterable(_below(one, files, levels, rollout_id) for one in folders):
            named = re.fullmatch(_ROLLOUT, found.name)
            if named is not None and named[1] == rollout_id:
                return found
    return None


def _days_of(path: Path, rollout_id: str) -> list[Path]:
    """Return the folders of the day in the id of a rollout, which is a UUID with its time.

    A fork mostly finds its beginning there, without a look through the folders of all years.
    """
    try:
        moment = datetime.fromtimestamp(int(rollout_id.replace("-", "")[:12], 16) / 1000, UTC)
        days = [moment + timedelta(days=days) for days in (0, -1, 1)]
    except (ValueError, OverflowError, OSError):
        return []
    above = path.parents[3] if len(path.parents) > _LEVELS_UP else path.parent
    return [above / f"{day:%Y/%m/%d}" for day in days]


def _below(folder: Path, files: Files, levels: int, named: str) -> Iterator[Path]:
    """Yield the rollouts in a folder, and in the folders of years, months and days below, by their names."""
    try:
        names = sorted(files.listdir(folder))
    except OSError:
        return
    for name in names:
        if named in name and name.endswith((".jsonl", ".jsonl.zst")):
            yield folder / name
        elif levels > 1 and name.isdigit():
            yield from _below(folder / name, files, levels - 1, named)


def _content(path: Path, files: Files) -> bytes | None:
    """Return the content of a file; None if there is none to read."""
    with suppress(OSError, SessiondError), HeldFile(files, path) as held:
        size = held.found.st_size
        return b"".join(chunks_of(held, 0, 0, size)) if size <= RESULT_BYTES_MAX else None
    return None
