"""The tree of JSON files in which older versions of opencode keep their sessions.

Law: ids come from the names of files and folders; a file that says another id is not believed.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any, Final

from sessiond.dialects.agents.opencode_lines import StoredMessage, StoredPart
from sessiond.dialects.agents.source_line import decoded, member
from sessiond.dialects.lenient_json import lenient, text
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.limits import OPENCODE_MESSAGE_BYTES_MAX, OPENCODE_PROMPT_SECONDS, OPENCODE_TRIES
from sessiond.service.sources.agents.opencode.rows import (
    TOO_LONG,
    Contents,
    MessageBudget,
    MessageMark,
    StoredSession,
    StoreState,
    session_of,
)

_FOLDERS: Final = frozenset({"session", "message"})
_STORAGE: Final = "storage"
_ENDING: Final = ".json"
_BETWEEN_WRITES_SECONDS: Final = 0.02
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

    def sessions(self) -> list[StoredSession]:
        """Return all sessions. Raises StorageError."""
        found: dict[str, StoredSession] = {}
        with telling("read", self._folder):
            for project in _names(self._folder / "session", self._files):
                for session_id, content in self._below("session", project):
                    found.setdefault(session_id, self._session(project, session_id, content))
        return list(found.values())

    def _session(self, project: str, session_id: str, content: bytes) -> StoredSession:
        return session_of(self._columns(project, session_id, lenient(content)))

    def contents(self, session_id: str) -> Contents | None:
        """Return what a session has; None for no such session. Raises StorageError."""
        with telling("read", self._folder):
            for project in _names(self._folder / "session", self._files):
                content = self._content(self._file_of(project, session_id))
                if content is not None:
                    return Contents(
                        self._session(project, session_id, content), self._marks(session_id)
                    )
        return None

    def _marks(self, session_id: str) -> list[MessageMark]:
        """Return the messages in their order, which only their contents tell."""
        times = _times(self._folder / "message" / session_id, self._files)
        found: list[tuple[int, MessageMark]] = []
        for message_id, content in self._below("message", session_id):
            parts = _times(self._folder / "part" / message_id, self._files).values()
            changed_at = times.get(f"{message_id}{_ENDING}", 0)
            mark = MessageMark(message_id, changed_at, len(parts), max(parts, default=0))
            found.append((_created_at(content), mark))
        found.sort(key=lambda one: (one[0], one[1].id))
        return [mark for _, mark in found]

    def messages(self, contents: Contents, ids: Sequence[str]) -> list[StoredMessage]:
        """Return the first of these messages, up to the end of a batch; those that are gone are left out.

        Raises StorageError.
        """
        found: list[StoredMessage] = []
        budget = MessageBudget()
        with telling("read", self._folder):
            folder = self._folder / "message" / contents.session.id
            for message_id in ids:
                content = self._content(folder / f"{message_id}{_ENDING}")
                if content is None:
                    continue
                budget.begin()
                data = budget.take(content)
                parts = [
                    StoredPart(part_id, budget.take(part))
                    for part_id, part in self._below("part", message_id)
                ]
                found.append(StoredMessage(message_id, _created_at(content), data, parts))
                if budget.is_full:
                    break
        return found

    def state(self, session_id: str) -> StoreState:
        """Return the state of the files of a session and its messages. Raises OSError.

        A part is written before the message that has ended with the part.
        """
        projects = _names(self._folder / "session", self._files)
        places = (self._file_of(project, session_id) for project in projects)
        own = next(filter(self._files.exists, places), None)
        if own is None:
            raise FileNotFoundError(errno.ENOENT, "the session is gone")
        stats = [self._files.stat(own)]
        with suppress(FileNotFoundError):
            found = self._files.stats(self._folder / "message" / session_id)
            stats += [found[name] for name in sorted(found)]
        facts = tuple(x for one in stats for x in (one.st_ino, one.st_size, one.st_mtime_ns))
        return StoreState(facts, max(one.st_mtime_ns for one in stats))

    def _file_of(self, project: str, session_id: str) -> Path:
        return self._folder / "session" / project / f"{session_id}{_ENDING}"

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

    def _below(self, *folder: str) -> Iterator[tuple[str, bytes]]:
        """Yield the names, without their ending, and the contents of the files in a folder, by name."""
        path = self._folder.joinpath(*folder)
        for name in sorted(_names(path, self._files)):
            content = self._content(path / name) if name.endswith(_ENDING) else None
            if content is not None:
                yield name.removesuffix(_ENDING), content

    def _content(self, path: Path) -> bytes | None:
        """Return the content of a file; None if opencode is writing, or has just removed, the file."""
        for _ in range(OPENCODE_TRIES):
            content, changed_at = self._read(path)
            is_whole = content is None or content.strip() == b"{}" or bool(lenient(content))
            if is_whole or changed_at + OPENCODE_PROMPT_SECONDS < self._files.now():
                return content
            # opencode writes a file in place, and a look may come between two writes.
            sleep(_BETWEEN_WRITES_SECONDS)
        return None

    def _read(self, path: Path) -> tuple[bytes | None, float]:
        """Return the content of a file, None without one, and the time of its last change."""
        try:
            fd = open_regular(self._files, path)
        except FileNotFoundError:
            return None, 0.0
        try:
            size = check_regular(self._files, fd)
            changed_at = self._files.fstat(fd).st_mtime_ns / 1e9
            if size > OPENCODE_MESSAGE_BYTES_MAX:
                return TOO_LONG, changed_at
            return b"".join(chunks_of(self._files, fd, 0, size)), changed_at
        finally:
            self._files.close(fd)


def _names(folder: Path, files: Files) -> list[str]:
    """Return the names in a folder; none where there is no folder."""
    try:
        return files.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _times(folder: Path, files: Files) -> dict[str, int]:
    """Return the times of the files in a folder in milliseconds; none where there is no folder."""
    try:
        found = files.stats(folder)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {name: one.st_mtime_ns // 1_000_000 for name, one in found.items()}


def _created_at(content: bytes) -> int:
    created: int = decoded(member(lenient(content), "time").get("created"), int, 0)
    return created
