"""Clean-up at a start: files that earlier daemons left behind."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sessiond.errors import SessionCorrupt, SessiondError, StorageError
from sessiond.journal.disk.files import FileStat
from sessiond.limits import DRAFT_SECONDS
from sessiond.service.files.catalog_records import fingerprint_of
from sessiond.service.files.roots.places import DamagedNote, read_note
from sessiond.service.files.store import FileStore


def remove_half_made(store: FileStore) -> None:
    """Remove the files that an earlier daemon was making when it ended.

    A purge would not find such a file: it has the words of a session, but not the name.
    """
    with suppress(StorageError):
        for path in store.profile.layout.half_made(store.profile.files):
            with suppress(OSError):
                store.profile.files.unlink(path)


def settle_notes(store: FileStore) -> None:
    """Record where drafts for roots came to, and remove the notes of drafts that are drafts no more.

    A daemon that was killed right after the move of a draft has recorded the new path nowhere else,
    and an opening by id would not find the file.
    """
    left: list[str] = []
    with suppress(OSError):
        names = set(store.profile.files.listdir(store.profile.layout.pending))
        for draft_id, _ in store.profile.layout.draft_notes(names):
            if store.profile.layout.pending_path(draft_id).name not in names:
                with suppress(SessiondError, OSError):
                    _record_place(store, draft_id)
                    left.append(draft_id)
    store.opener.remove_notes(left)


def _record_place(store: FileStore, draft_id: str) -> None:
    """Record the path of a draft's note if the file there is the draft's and has no other record.

    Raises StorageError, OSError: the note is still needed then.
    """
    try:
        note = read_note(store.profile.files, store.profile.layout.note_path(draft_id))
        path = None if note is None else Path(note.path)
        if (
            path is None
            or not store.profile.files.exists(path)
            or store.profile.rows.header_id(path) != draft_id
        ):
            return
    except (DamagedNote, SessionCorrupt):
        return
    if store.profile.session_files.find(draft_id) is None:
        known = store.profile.records.known(draft_id)
        if known is None:
            store.profile.records.place(draft_id, path)
        else:
            # The mark names the file by its inode and lines, so the epoch outlives only a move.
            store.profile.catalog.place(draft_id, str(path), known.mark)


def remove_stray_indexes(store: FileStore) -> None:
    """Remove the kept indexes of sessions whose files are gone, and copies of lines without an index.

    Both have words of their session; a kill leaves such a copy.
    """
    indexes = store.profile.indexes
    with suppress(SessiondError):
        indexed = store.profile.layout.indexed_ids(store.profile.files)
        for session_id in set(indexes.copies.names() if indexes.copies else ()) - set(indexed):
            indexes.forget(session_id)
        # Each search lists the folders, so it is left to the few that one listing does not show.
        there = (
            set(store.profile.layout.session_ids(store.profile.files)) if indexed else set[str]()
        )
        for session_id in indexed:
            if session_id not in there and store.profile.session_files.find(session_id) is None:
                indexes.forget(session_id)


def settle_drafts(store: FileStore, is_ending: Callable[[], bool] = lambda: False) -> None:
    """Promote drafts that became conversations, and move abandoned ones to the trash.

    A draft is abandoned when it has no assistant message and its file was not written to for
    DRAFT_SECONDS. A draft that cannot be read or moved stays where it is. A draft is read only if
    the catalog does not know the file as it is now: an unchanged draft still has no answer. Once
    `is_ending`, the rest is left to the next start.
    """
    oldest = store.profile.files.now() - DRAFT_SECONDS
    settled = store.profile.catalog.settled_drafts()
    for path, found in _drafts(store).items():
        if is_ending():
            return
        is_forgotten = found.st_mtime_ns / 1e9 < oldest
        if is_forgotten or settled.get(str(path)) != fingerprint_of(found):
            with suppress(SessiondError, OSError):
                _settle_draft(store, path, is_forgotten=is_forgotten)


def _drafts(store: FileStore) -> dict[Path, FileStat]:
    """Return the files of drafts; none if the folder cannot be read."""
    folder = store.profile.layout.pending
    try:
        found = store.profile.files.stats(folder)
    except OSError:
        return {}
    drafts = {folder / name: stat for name, stat in sorted(found.items())}
    return {
        path: stat for path, stat in drafts.items() if store.profile.layout.id_of(path) is not None
    }


def _settle_draft(store: FileStore, path: Path, *, is_forgotten: bool) -> None:
    session_id = store.profile.layout.id_of(path)
    assert session_id is not None, "it is the file of a draft"
    # An opening promotes a draft that became a conversation.
    opened = store.open(session_id)
    try:
        if opened.pending and is_forgotten:
            store.profile.session_files.discard_draft(opened)
    finally:
        opened.journal.close()
