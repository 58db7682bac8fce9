"""The store of opencode: a database, or the tree of files of older versions. Only ever read.

Law: nothing is written in the store's folder. Ids in a tree come from the names of files and folders,
never from their contents. One session is in memory at a time.

    <data>/opencode.db
    <data>/storage/{session/<project>/<session>.json,message/<session>/<message>.json,part/<message>/<part>.json}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from sessiond.dialects.agents.opencode_lines import StoredMessage, session_lines
from sessiond.errors import InvalidParams, SessionCorrupt
from sessiond.journal.disk.files import Files
from sessiond.limits import MATCHES_SHOWN_MAX
from sessiond.service.sources.agents.opencode.database import Database, is_database
from sessiond.service.sources.agents.opencode.rows import Contents, StoredSession, StoreState
from sessiond.service.sources.agents.opencode.tree import Tree, tree_at
from sessiond.visible import printable


class AgentStore(Protocol):
    """A store of sessions. Blocking, for worker threads."""

    def sessions(self) -> list[StoredSession]:
        """Return all sessions. Raises StorageError, SessionCorrupt."""
        ...

    def contents(self, session_id: str) -> Contents | None:
        """Return what a session has; None for no such session. Raises StorageError, SessionCorrupt."""
        ...

    def messages(self, contents: Contents, ids: Sequence[str]) -> list[StoredMessage]:
        """Return the first of these messages, up to the end of a batch; those that are gone are left out.

        Raises StorageError, SessionCorrupt, TooLarge.
        """
        ...

    def state(self, session_id: str) -> StoreState:
        """Return the state of a session's files, which a change changes. Raises OSError."""
        ...


class Chosen(Struct, frozen=True):
    """One session of a store, and what it had a moment ago, for a list that reads it once."""

    store: AgentStore
    session: StoredSession
    contents: Contents | None = None


def found_store(path: Path, files: Files) -> AgentStore | None:
    """Return the store at a path; None for any other file or folder."""
    try:
        tree = tree_at(path, files)
        if tree is not None:
            return Tree(tree, files)
        return Database(path, files) if is_database(path, files) else None
    except OSError:
        # The reader of session files says what is wrong with the path.
        return None


def stored_lines(store: AgentStore, session: StoredSession) -> Iterator[bytes]:
    """Return the lines that stand for a session, which are read a batch of messages at a time.

    The call and the lines may raise StorageError, SessionCorrupt, TooLarge.
    """
    contents = store.contents(session.id)
    if contents is None:
        raise SessionCorrupt("opencode has just removed the session", path=session.id)
    return session_lines(contents.session.columns, _messages(store, contents))


def _messages(store: AgentStore, contents: Contents) -> Iterator[StoredMessage]:
    ids = [mark.id for mark in contents.marks]
    while found := store.messages(contents, ids):
        ids = ids[ids.index(found[-1].id) + 1 :]
        yield from found


def choose(store: AgentStore, path: Path, source_id: str | None) -> Chosen:
    """Return the session that an id names, or the only one. Raises InvalidParams, SessionCorrupt."""
    found = store.sessions()
    if not found:
        raise SessionCorrupt(f"{printable(path.name)} has no session", path=printable(path))
    if source_id is None and len(found) == 1:
        return Chosen(store, found[0])
    for one in found:
        if one.id == source_id:
            return Chosen(store, one)
    latest = sorted(found, key=lambda one: one.time_updated, reverse=True)
    said = (
        f"the store has {len(found)} sessions: name one of them"
        if source_id is None
        else "the store has no session of this id"
    )
    available = [one.id for one in latest[:MATCHES_SHOWN_MAX]]
    raise InvalidParams(said, path="source_id", available=available)


def parents_first(sessions: Sequence[StoredSession]) -> list[StoredSession]:
    """Return the sessions in the order of their beginnings, each behind its parent."""
    by_id = {one.id: one for one in sessions}
    ordered: dict[str, StoredSession] = {}
    for one in sorted(sessions, key=lambda one: (one.time_created, one.id)):
        line: dict[str, StoredSession] = {}
        above: StoredSession | None = one
        # A parent may be missing, and a damaged store may have a cycle.
        while above is not None and above.id not in ordered and above.id not in line:
            line[above.id] = above
            above = by_id.get(above.parent_id or "")
        ordered.update(reversed(line.items()))
    return list(ordered.values())
