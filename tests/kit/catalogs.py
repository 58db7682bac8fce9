"""Catalogs: sessions that name their parents, and what may happen to the file of a catalog."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sessiond.catalog.guarded import GuardedDatabase
from sessiond.catalog.rows import Relative

__all__ = [
    "become_circle",
    "become_folder",
    "become_immutable",
    "become_pipe",
    "become_read_only",
    "lose_folder",
    "relative",
]


def relative(
    session_id: str, parent_id: str | None = None, parent_path: str | None = None
) -> Relative:
    """Return a session that names a parent by id, by path or not at all."""
    path = f"/x/{session_id}"
    return Relative(session_id, path, parent_id, parent_path, None, "/p", False, "", "", 0, False)


def become_immutable(_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse changes as `chattr +i` does, because file modes do not bind root."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "touch", refused)


def become_read_only(file: GuardedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse changes of an open database, and to open its file anew. Blocking."""
    file.use(lambda connection: connection.execute("PRAGMA query_only = ON"))
    become_immutable(Path(), monkeypatch)


def become_folder(path: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a folder into the place of a file."""
    path.unlink()
    path.mkdir(mode=0o755)


def become_circle(path: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a link to itself into the place of a file."""
    path.unlink()
    path.symlink_to(path)


def become_pipe(path: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a pipe into the place of a file."""
    path.unlink()
    os.mkfifo(path, 0o644)


def lose_folder(path: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a file with its folder."""
    path.unlink()
    path.parent.rmdir()
