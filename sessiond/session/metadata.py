"""Facts about a session as a whole: one `session_info` entry per change, where the dialect keeps the facts in one.

Law: a title that a person chose is never overwritten by a generated one. The two are separate
facts, so the law holds after a restart and when the chosen title is cleared. A dialect that keeps
one name takes a generated title only if the session has no name. A dialect that has entries for models
and thinking levels gets such entries, as its program writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import UNSET, Struct

from sessiond.errors import EntryInvalid
from sessiond.model.entries import Entry, ModelChange, SessionInfoEntry, ThinkingLevelChange
from sessiond.model.ids import MAIN
from sessiond.model.row import Kind
from sessiond.session.append_request import Expected
from sessiond.session.draft import Draft
from sessiond.session.index import Session
from sessiond.session.preconditions import require_expected

_OWN: Final = tuple(
    name for name in SessionInfoEntry.__struct_fields__ if name not in Entry.__struct_fields__
)


class UpdateRequest(Struct):
    """An update: the facts that change, and the function that makes a title from a prompt's line.

    `make_title` is None if the call asks for no generated title.
    """

    entry: SessionInfoEntry
    make_title: Callable[[bytes], str] | None = None
    expected: Expected | None = None


def update(draft: Draft, request: UpdateRequest) -> None:
    """Stage the facts as entries; stage none if the dialect keeps none of them."""
    draft.require_writable()
    require_expected(draft, MAIN, request.expected)
    entry = request.entry
    if request.make_title is not None:
        entry.auto_title = _made_title(draft, request.make_title)
    if not draft.session.rules.auto_title:
        _keep_as_name(draft, entry)
    changes = [*_changes(entry)] if draft.session.rules.settings_are_entries else []
    if any(getattr(entry, name) is not UNSET for name in _OWN):
        draft.stage(entry, head=MAIN)
    for change in changes:
        draft.stage(change, head=MAIN)


def prompt_seqs(session: Session) -> Iterable[int]:
    """Return the stored line that a title is made from; empty if no such line is stored yet."""
    seq = session.kinds.find(Kind.USER)
    return (seq,) if seq > 0 else ()


def _made_title(draft: Draft, make_title: Callable[[bytes], str]) -> str:
    seq = _prompt(draft)
    title = make_title(draft.line_of(seq)) if seq else ""
    if not title:
        raise EntryInvalid(
            "there is no user's text yet to make a title from; send the title, or ask again later",
            path="auto_title",
        )
    return title


def _changes(entry: SessionInfoEntry) -> Iterator[Entry]:
    """Take a model with its provider, and a thinking level, out of the facts; yield each as an entry.

    An entry states a value: a fact that is to be cleared stays, and the dialect refuses it.
    """
    if isinstance(entry.model, str) and entry.provider is not None:
        yield ModelChange(model_id=entry.model, provider=entry.provider)
        entry.model = entry.provider = UNSET
    if isinstance(entry.thinking_level, str):
        yield ThinkingLevelChange(thinking_level=entry.thinking_level)
        entry.thinking_level = UNSET


def _keep_as_name(draft: Draft, entry: SessionInfoEntry) -> None:
    made, entry.auto_title = entry.auto_title, UNSET
    chosen = draft.fact("title") if entry.name is UNSET else entry.name
    if isinstance(made, str) and made and not chosen:
        entry.name = made


def _prompt(draft: Draft) -> int:
    """Return the first user message, stored or staged; 0 without one."""
    for seq in prompt_seqs(draft.session):
        return seq
    staged = (
        seq for seq, row in enumerate(draft.rows, draft.base_seq + 1) if row.kind == Kind.USER
    )
    return next(staged, 0)
