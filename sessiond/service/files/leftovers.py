"""What earlier daemons left behind, put in order before anybody asks."""

from __future__ import annotations

from contextlib import suppress

from sessiond.errors import SessiondError, StorageError
from sessiond.limits import DRAFT_SECONDS
from sessiond.service.files.store import Store

__all__ = ["remove_half_made", "settle_drafts"]


def remove_half_made(store: Store) -> None:
    """Remove the files that sessiond was making when it was ended, before anybody asks.

    A purge would not find such a file: it has the words of a session, but not the name.
    """
    with suppress(StorageError):
        for path in store.layout.half_made(store.files):
            with suppress(OSError):
                store.files.unlink(path)


def settle_drafts(store: Store) -> None:
    """What became of drafts, before anybody asks: conversations move in, the forgotten to the trash.

    A draft is forgotten when it has no assistant message and nobody touched it for
    DRAFT_SECONDS. One that cannot be read or moved stays where it is.
    """
    oldest = store.files.now() - DRAFT_SECONDS
    for path in store.layout.drafts(store.files):
        session_id = store.layout.id_of(path)
        if session_id is None:
            continue
        with suppress(SessiondError, OSError):
            touched = store.files.stat(path).st_mtime_ns / 1e9
            # Opening promotes a draft that has become a conversation.
            opened = store.open(session_id)
            try:
                if opened.pending and touched < oldest:
                    store.keeping.discard_draft(opened)
            finally:
                opened.journal.close()
