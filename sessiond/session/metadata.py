"""What is known of a session as a whole: one `session_info` entry a change.

Law: a title that somebody chose is never overwritten by one that was made. The
two are facts of their own, so this holds after a restart and when the chosen
one is cleared; a dialect that keeps one name only takes a made one if it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import UNSET, Struct

from sessiond.errors import EntryInvalid
from sessiond.model.entries import Entry, SessionInfoEntry
from sessiond.model.ids import MAIN
from sessiond.model.row import InfoEffect, Kind
from sessiond.session.append import Expected, require_expected
from sessiond.session.draft import Draft
from sessiond.session.index import Session

__all__ = ["UpdateRequest", "prompt_seqs", "update"]

_OWN: Final = tuple(
    name for name in SessionInfoEntry.__struct_fields__ if name not in Entry.__struct_fields__
)


class UpdateRequest(Struct):
    """One update: the facts that change, and what makes a title of a prompt's line if it shall."""

    entry: SessionInfoEntry
    make_title: Callable[[bytes], str] | None = None
    expected: Expected | None = None


def update(draft: Draft, request: UpdateRequest) -> None:
    """Stage the facts as one entry; none if the dialect has nothing to keep."""
    draft.require_writable()
    require_expected(draft, MAIN, request.expected)
    entry = request.entry
    if request.make_title is not None:
        entry.auto_title = _made_title(draft, request.make_title)
    if not draft.session.rules.auto_title:
        _keep_as_name(draft, entry)
    if any(getattr(entry, name) is not UNSET for name in _OWN):
        draft.stage(entry, head=MAIN)


def prompt_seqs(session: Session) -> Iterable[int]:
    """The line that a title is made from, if it is stored already."""
    seq = session.kinds.find(Kind.USER)
    return (seq,) if seq > 0 else ()


def _made_title(draft: Draft, make_title: Callable[[bytes], str]) -> str:
    seq = _prompt(draft)
    title = make_title(draft.line_of(seq)) if seq else ""
    if not title:
        raise EntryInvalid(
            "there is no text of a user to make a title of yet; send the title, or ask again later",
            path="auto_title",
        )
    return title


def _keep_as_name(draft: Draft, entry: SessionInfoEntry) -> None:
    made, entry.auto_title = entry.auto_title, UNSET
    chosen = _title(draft) if entry.name is UNSET else entry.name
    if isinstance(made, str) and made and not chosen:
        entry.name = made


def _prompt(draft: Draft) -> int:
    """The first user message, stored or staged; 0 without one."""
    for seq in prompt_seqs(draft.session):
        return seq
    staged = (
        seq for seq, row in enumerate(draft.rows, draft.base_seq + 1) if row.kind == Kind.USER
    )
    return next(staged, 0)


def _title(draft: Draft) -> Any:
    """The title as of what is staged, or None."""
    for row in reversed(draft.rows):
        if isinstance(row.effect, InfoEffect) and "title" in row.effect.facts:
            return row.effect.facts["title"]
    return draft.session.facts.get("title")
