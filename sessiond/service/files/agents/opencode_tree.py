"""The tree of JSON files in which older versions of opencode keep their sessions.

Law: ids come from the names of files and folders; a file that says another id is not believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sessiond.dialects.agents.opencode_lines import StoredMessage, StoredPart, session_lines
from sessiond.dialects.agents.source_line import decoded, member
from sessiond.dialects.lenient_json import lenient, text
from sessiond.errors import TooLarge
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.limits import IMPORT_BYTES_MAX
from sessiond.service.files.agents.opencode_rows import StoredSession, session_of

__all__ = ["Tree", "tree_at"]

_FOLDERS: Final = frozenset({"session", "message"})
_STORAGE: Final = "storage"
_ENDING: Final = ".json"
# The members of a session's file that are columns of a database, by their names there.
_MEMBERS: Final = {"parentID": "parent_id", "slug": "slug", "title": "title", "version": "version"}


def tree_at(path: Path, files: Files) -> Path | None:
    """Return the folder of the tree that is at a path or in its folder `storage`; None for no tree."""
    for folder in (path, path / _STORAGE):
        if _FOLDERS.issubset(_names(folder, files)):
            return folder
    return None


class Tree:
    """A tree of sessions; `AgentStore` describes the methods."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._folder = folder
        self._files = files
        self._left = IMPORT_BYTES_MAX

    def sessions(self) -> list[StoredSession]:
        """Return all sessions. Raises StorageError."""
        found: dict[str, StoredSession] = {}
        with telling("read", self._folder):
            for project in _names(self._folder / "session", self._files):
                for session_id, content in self._below("session", project):
                    one = session_of(self._columns(project, session_id, lenient(content)))
                    found.setdefault(session_id, one)
        return list(found.values())

    def _columns(self, project: str, session_id: str, said: dict[str, Any]) -> dict[str, Any]:
        columns: dict[str, Any] = {"id": session_id, "project_id": project}
        columns |= {column: text(said.get(name)) for name, column in _MEMBERS.items()}
        for name in ("created", "updated"):
            columns[f"time_{name}"] = decoded(member(said, "time").get(name), int, 0)
        if "revert" in said:
            columns["revert"] = bytes(said["revert"]).decode(errors="replace")
        columns["directory"] = text(said.get("directory")) or self._worktree(project)
        return columns

    def _worktree(self, project: str) -> str:
        """Return the folder of a project, which older files of sessions do not say."""
        about = lenient(self._content(self._folder / "project" / f"{project}{_ENDING}") or b"")
        return text(about.get("worktree")) or ""

    def lines(self, session: StoredSession) -> list[bytes]:
        """Return the lines that stand for a session. Raises StorageError, TooLarge."""
        self._left = IMPORT_BYTES_MAX
        with telling("read", self._folder):
            found = [
                StoredMessage(
                    message_id,
                    decoded(member(lenient(content), "time").get("created"), int, 0),
                    content,
                    [StoredPart(*part) for part in self._below("part", message_id)],
                )
                for message_id, content in self._below("message", session.id)
            ]
        found.sort(key=lambda one: (one.time_created, one.id))
        return list(session_lines(session.columns, found))

    def _below(self, *folder: str) -> Iterator[tuple[str, bytes]]:
        """Yield the names, without their ending, and the contents of the files in a folder, by name."""
        path = self._folder.joinpath(*folder)
        for name in sorted(_names(path, self._files)):
            content = self._content(path / name) if name.endswith(_ENDING) else None
            if content is not None:
                yield name.removesuffix(_ENDING), content

    def _content(self, path: Path) -> bytes | None:
        """Return the content of a file; None if opencode has just removed the file."""
        try:
            fd = open_regular(self._files, path)
        except FileNotFoundError:
            return None
        try:
            size = check_regular(self._files, fd)
            self._left -= size
            if self._left < 0:
                said = "the session is too large to be imported"
                raise TooLarge(said, limit=IMPORT_BYTES_MAX, size=IMPORT_BYTES_MAX - self._left)
            return b"".join(chunks_of(self._files, fd, 0, size))
        finally:
            self._files.close(fd)


def _names(folder: Path, files: Files) -> list[str]:
    """Return the names in a folder; none where there is no folder."""
    try:
        return files.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
