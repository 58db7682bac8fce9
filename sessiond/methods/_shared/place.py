"""Place in the tree that a question is about: an entry, a head, or the end of the page before.

Law: a name of a place that was handed out, as a cursor or an etag, fits no entry of another id. A home or a database
that was brought back to an earlier moment has other entries at the same seqs and, perhaps, the same epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from sessiond.errors import EntryNotFound, HeadNotFound, InvalidParams
from sessiond.model.digests import key_digest
from sessiond.model.ids import MAIN
from sessiond.session.index import Session

_PROOF_DIGITS: Final = 12


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


def proof_of(session: Session, seqs: Sequence[int]) -> str:
    """Return digits that entries of other ids do not have at these seqs; 0 is the place before the first entry."""
    return key_digest("\n".join(session.names[seq] for seq in seqs))[:_PROOF_DIGITS]


def cursor_of(session: Session, seqs: Sequence[int], *more: int) -> str:
    """Return the cursor of the next page: the seqs of the lines that it stands on, and more numbers."""
    return ":".join([*map(str, (*seqs, *more)), proof_of(session, seqs)])


def cursor_numbers(
    session: Session, cursor: str, lines: int, count: int, *, nodes: bool = False
) -> list[int]:
    """Return the `count` numbers of a cursor, of which the first `lines` are seqs, the latest first.

    With `nodes` the lines are entries in the tree, none of them a record. Raises InvalidParams.
    """
    *parts, proof = cursor.split(":")
    if len(parts) == count and all(one.isdecimal() and len(one) < 16 for one in parts):
        found = [*map(int, parts)]
        seqs = found[:lines]
        is_falling = seqs == sorted(seqs, reverse=True)
        is_here = is_falling and seqs[0] <= session.seq and proof == proof_of(session, seqs)
        if is_here and (not nodes or all(map(session.is_node, seqs))):
            return found
    raise other_cursor()


def other_cursor() -> InvalidParams:
    """Return the refusal of a cursor that names no place in what the caller asks for."""
    return InvalidParams(
        "no cursor of this method, or the session has other content by now: ask for the first page",
        path="cursor",
    )
