"""Place in the tree that a question is about: an entry or a head."""

from __future__ import annotations

from typing import Protocol

from sessiond.errors import EntryNotFound, HeadNotFound, InvalidParams
from sessiond.model.ids import MAIN
from sessiond.session.index import Session

__all__ = ["AtEntryOrHead", "head_leaf", "leaf_of"]


class AtEntryOrHead(Protocol):
    """Parameters that name an entry or a head."""

    @property
    def entry_id(self) -> str | None:
        """Entry of the tree."""
        ...

    @property
    def head(self) -> str | None:
        """Head; main if neither is given."""
        ...


def leaf_of(session: Session, at: AtEntryOrHead) -> int:
    """Return the seq of the named place, 0 before the first entry. Raise EntryNotFound, HeadNotFound."""
    if at.entry_id is not None:
        if at.head is not None:
            raise InvalidParams("send entry_id or head, not both", path="head")
        seq = session.node(at.entry_id)
        if not seq:
            raise EntryNotFound(
                "no entry of this id in the tree", entry_id=at.entry_id, path="entry_id"
            )
        return seq
    return head_leaf(session, at.head or MAIN)


def head_leaf(session: Session, name: str) -> int:
    """Return the seq of a head's leaf. Raise HeadNotFound."""
    head = session.heads.get(name)
    if head is None:
        raise HeadNotFound("no head of this name", head=name)
    return head.leaf
