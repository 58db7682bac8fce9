"""Facts of a session from the files beside its file: its title, its project, its beginning.

Law: a file beside the source that is missing, damaged or too large says nothing. No such file is written
or locked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Raw

from sessiond.dialects.agents.source_line import decoded, member
from sessiond.dialects.lenient_json import lenient, text
from sessiond.errors import SessiondError
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.limits import IMPORT_BYTES_MAX, RESULT_BYTES_MAX
from sessiond.service.files.agents.compressed import COMPRESSED, unpacked
from sessiond.service.files.agents.source import Beside

__all__ = ["beside"]

_ROLLOUT: Final = r"rollout-.*?([0-9a-f-]{36})\.jsonl(?:\.zst)?"
_NAMES: Final = "session_index.jsonl"
# Years, months and days lie between a rollout and the home of Codex.
_LEVELS_UP: Final = 5
_FORKS_MAX: Final = 100


def beside(path: Path, lines: Sequence[bytes], files: Files) -> Beside:
    """Return what the files beside a file say of the session in these lines. Waits for the disk."""
    if re.fullmatch(_ROLLOUT, path.name):
        return _of_rollout(path, lines, files)
    if path.parent.name == "chats":
        root = _content(path.parent.parent / ".project_root", files)
        return Beside(cwd=None if root is None else root.decode(errors="replace").strip() or None)
    if path.name.startswith("agent-"):
        about = lenient(_content(path.with_suffix(".meta.json"), files) or b"")
        return Beside(title=text(about.get("description")))
    return Beside()


def _of_rollout(path: Path, lines: Sequence[bytes], files: Files) -> Beside:
    head = member(lenient(lines[0]) if lines else {}, "payload")
    title: str | None = None
    for home in list(path.parents)[:_LEVELS_UP]:
        names = _content(home / _NAMES, files)
        if names is not None:
            title = _name_in(names, text(head.get("id")))
            break
    return Beside(title=title, before=_before(path, head, files, _FORKS_MAX))


def _name_in(names: bytes, session_id: str | None) -> str | None:
    """Return the newest name of a session in the index of names."""
    rows = [lenient(line) for line in names.split(b"\n")]
    told = [text(row.get("thread_name")) for row in rows if text(row.get("id")) == session_id]
    return next(filter(None, reversed(told)), None) if session_id else None


def _before(path: Path, head: dict[str, Raw], files: Files, forks: int) -> tuple[bytes, ...] | None:
    """Return the lines of other rollouts that a fork begins with; None if such a rollout is missing."""
    base = member(head, "history_base")
    name, end = text(base.get("thread_id")), decoded(base.get("end_byte_offset"), int, 0)
    if not base:
        return ()
    source = None if name is None or not forks else _rollout(path, name, files)
    content = None if source is None or end > IMPORT_BYTES_MAX else _content(source, files, end)
    if source is None or content is None or len(content) < end:
        return None
    # Half a line at the end, where a tool rewrote the file, is no item.
    first, *lines = content.split(b"\n")
    earlier = _before(source, member(lenient(first), "payload"), files, forks - 1)
    return None if earlier is None else (*earlier, *lines)


def _rollout(path: Path, rollout_id: str, files: Files) -> Path | None:
    """Return the file of another rollout of the same home of Codex."""
    for home in list(path.parents)[:_LEVELS_UP]:
        for folder in ("sessions", "archived_sessions"):
            for found in _below(home / folder, files, _LEVELS_UP):
                named = re.fullmatch(_ROLLOUT, found.name)
                if named is not None and named[1] == rollout_id:
                    return found
    return next((one for one in _below(path.parent, files, 1) if rollout_id in one.name), None)


def _below(folder: Path, files: Files, levels: int) -> Iterator[Path]:
    try:
        names = sorted(files.listdir(folder))
    except OSError:
        return
    for name in names:
        if name.endswith((".jsonl", ".jsonl.zst")):
            yield folder / name
        elif levels > 1 and name.isdigit():
            yield from _below(folder / name, files, levels - 1)


def _content(path: Path, files: Files, end: int | None = None) -> bytes | None:
    """Return the content of a file, or of its first `end` bytes; None if there is none to read."""
    try:
        fd = open_regular(files, path)
    except (OSError, SessiondError):
        return None
    try:
        size = check_regular(files, fd)
        if end is None:
            return b"".join(chunks_of(files, fd, 0, size)) if size <= RESULT_BYTES_MAX else None
        if files.pread(fd, len(COMPRESSED), 0) == COMPRESSED:
            return b"".join(unpacked(files, fd, size, path.name))[:end]
        return b"".join(chunks_of(files, fd, 0, min(size, end)))
    except (OSError, SessiondError):
        return None
    finally:
        files.close(fd)
