"""Long session files, written once and kept in the cache.

Law: the name of a cached file says what it contains. A file gets its name only when it is whole,
and no measurement changes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.bench.harness.servers import sessions_folder
from tests.bench.harness.workload import (
    SESSION_ID,
    messages,
    native_header,
    native_line,
    pi_header,
    pi_line,
)

__all__ = ["linked", "many_native", "many_pi", "native_file", "path_in", "pi_file"]

# The messages repeat after this many; ids do not.
CYCLE = 3000


def native_file(cache: Path, entries: int, *, size: int | None = None) -> Path:
    """Return a native session of `entries` messages of the mix, or of one size."""
    path = cache / f"native-{entries}-{size or 'mix'}.jsonl"
    return _written(path, native_header(SESSION_ID), native_line, entries, size=size)


def pi_file(cache: Path, entries: int) -> Path:
    """Return a pi session of `entries` messages of the mix."""
    path = cache / f"pi-{entries}-mix.jsonl"
    return _written(path, pi_header(SESSION_ID), pi_line, entries, size=None)


def path_in(home: Path) -> Path:
    """Return the path of the long session in a home, where a daemon finds it by its id."""
    return sessions_folder(home) / f"2026-01-15T10-30-00-000000_{SESSION_ID}.jsonl"


def linked(source: Path, home: Path) -> Path:
    """Put a cached file into a home as a link, for a daemon that only reads it."""
    path = path_in(home)
    os.link(source, path)
    return path


def many_native(cache: Path, sessions: int, entries: int) -> Path:
    """Return a folder of native sessions of `entries` messages each, with a daemon's names."""
    folder = cache / f"native-{sessions}-x-{entries}"
    return _folder(folder, native_header, native_line, sessions, entries)


def many_pi(cache: Path, sessions: int, entries: int) -> Path:
    """Return a session folder of pi with sessions of `entries` messages each."""
    folder = cache / f"pi-{sessions}-x-{entries}"
    return _folder(folder, pi_header, pi_line, sessions, entries)


def _folder(
    folder: Path,
    header: Callable[[str], bytes],
    line: Callable[[int, bytes], bytes],
    sessions: int,
    entries: int,
) -> Path:
    if folder.exists():
        return folder
    rest = b"".join(line(index, body) for index, body in enumerate(messages("mix", entries)))
    part = folder.with_suffix(".part")
    part.mkdir(exist_ok=True)
    for number in range(sessions):
        session_id = f"bench-{number:010d}"
        path = part / f"2026-01-15T10-30-00-{number:06d}_{session_id}.jsonl"
        path.write_bytes(header(session_id) + rest)
    return part.rename(folder)


def _written(
    path: Path,
    header: bytes,
    line: Callable[[int, bytes], bytes],
    entries: int,
    *,
    size: int | None,
) -> Path:
    if path.exists():
        return path
    bodies = messages("mix", min(CYCLE, entries), size=size)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(header)
        file.writelines(line(index, bodies[index % len(bodies)]) for index in range(entries))
    return part.rename(path)
