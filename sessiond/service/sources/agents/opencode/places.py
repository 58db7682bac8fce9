"""Places of opencode's sessions: the path of a session names its store and its id.

    <data>/opencode.db/ses_…                       a row of the database
    <data>/storage/session/<project>/ses_….json    a session of the older tree of files

No file has the first path: the database stands for a folder.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from sessiond.dialects.agents.places import DATABASE_SUFFIX
from sessiond.journal.disk.files import Files
from sessiond.service.sources.agents.opencode.database import Database, is_database
from sessiond.service.sources.agents.opencode.store import AgentStore
from sessiond.service.sources.agents.opencode.tree import Tree, tree_at

_ENDING = ".json"


class StoredPlace(Struct, frozen=True):
    """The place of a session: its store, a file or a folder, and its id there."""

    store: Path
    session_id: str

    def open(self, files: Files) -> AgentStore | None:
        """Return the store; None if there is none at the place. Raises OSError."""
        if self.store.suffix != DATABASE_SUFFIX:
            return None if tree_at(self.store, files) is None else Tree(self.store, files)
        try:
            found = is_database(self.store, files)
        except FileNotFoundError:
            return None
        return Database(self.store, files) if found else None


def stored_place(path: Path) -> StoredPlace | None:
    """Return the place that a path names; None for the path of any other file. Looks at no file."""
    # Asked for each file of each look, and by texts: parts of a `Path` are slow.
    told = str(path)
    if f"{DATABASE_SUFFIX}/" not in told and not told.endswith(_ENDING):
        return None
    if path.parent.suffix == DATABASE_SUFFIX:
        return StoredPlace(path.parent, path.name)
    if path.suffix == _ENDING and path.parents[1].name == "session":
        return StoredPlace(path.parents[2], path.stem)
    return None


def watched_path(path: Path) -> Path:
    """Return the file or folder whose changes tell of changes of a session."""
    place = stored_place(path)
    if place is None:
        return path
    if place.store.suffix == DATABASE_SUFFIX:
        # The log of the database comes and goes beside the database.
        return place.store.parent
    return place.store / "message" / place.session_id
