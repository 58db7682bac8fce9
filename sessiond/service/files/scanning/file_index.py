"""Index of the files in a profile's folders, and in the folders of its roots, by session id.

Pure: the caller passes the names in the folders. Of several files with one id the first folder
decides, then a name that sessiond made, then the older name; an agent has a preference of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path

from sessiond.dialects.agents.places import preference
from sessiond.journal.profile.layout import Layout


class FileIndex:
    """The files in the folders, and the session that each file claims to be."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.folders = (layout.sessions, layout.archive, layout.pending)
        """The profile's own folders; folders of roots come behind them."""
        self._names: dict[Path, set[str]] = {folder: set() for folder in self.folders}
        self._id_at: dict[str, str | None] = {}
        self._files_of: dict[str, list[str]] = {}
        self._gone: list[str] = []

    def id_at(self, path: str) -> str | None:
        """Return the session that a file claims to be; None for an unknown file."""
        return self._id_at.get(path)

    def of(self, session_id: str) -> tuple[str | None, list[str]]:
        """Return the session's own file, and the other files with its id."""
        files = self._files_of.get(session_id, [])
        return (files[0], files[1:]) if files else (None, [])

    def goes_on_at(self, path: str, session_id: str) -> str | None:
        """Return the session's own file if it is to be read in place of the file at `path`; else None.

        Of two copies that are alike none is.
        """
        files = self._files_of.get(session_id, [])
        if not files or files[0] == path:
            return None
        return None if path in files and self._rank(files[0]) == self._rank(path) else files[0]

    def names(self, folder: Path) -> Set[str]:
        """Return the names of the files in a folder, as they were set last."""
        return self._names.get(folder, frozenset())

    def update(
        self,
        folder: Path,
        names: Iterable[str],
        identify: Callable[[str], str | None],
        again: Set[str] = frozenset(),
    ) -> Iterator[str]:
        """Set the names of files that may be sessions; yield the session ids that the change concerns.

        `identify` returns the session id of a file by its name, which sessiond did not make; for the files
        in `again` that is asked again.
        """
        now, is_own = set(names), folder in self.folders
        before, self._names[folder] = self._names.get(folder, set()) - again, now
        for name in before - now:
            path = f"{folder}/{name}"
            self._gone.append(path)
            session_id = self._release(path)
            if session_id is not None:
                yield session_id
        for name in sorted(now - before):
            path = f"{folder}/{name}"
            if (other := self._release(path)) is not None:
                yield other
            session_id = self._layout.id_of(folder / name) if is_own else None
            if session_id is None and folder != self._layout.pending:
                session_id = identify(name)
            self._id_at[path] = None
            if session_id is not None:
                self.claim(path, session_id)
                yield session_id

    def claim(self, path: str, session_id: str) -> None:
        """Record the session of a file that `update` met and that had no session until now."""
        self._id_at[path] = session_id
        files = self._files_of.setdefault(session_id, [])
        files.append(path)
        if len(files) > 1:
            files.sort(key=self._rank)

    def rename(self, path: str, session_id: str) -> None:
        """Record that a file which claimed to be one session is another one."""
        self._release(path)
        self.claim(path, session_id)

    def _release(self, path: str) -> str | None:
        """Forget which session a file claimed to be; return that."""
        session_id = self._id_at.pop(path, None)
        if session_id is not None:
            self._files_of[session_id].remove(path)
            if not self._files_of[session_id]:
                del self._files_of[session_id]
        return session_id

    def take_gone(self) -> list[str]:
        """Return the files that disappeared since the last call."""
        gone, self._gone = self._gone, []
        return gone

    def _rank(self, text: str) -> tuple[object, ...]:
        path = Path(text)
        own = self.folders
        place = own.index(path.parent) if path.parent in own else len(own)
        return place, self._layout.id_of(path) is None, *preference(path.parent.name, path.name)
