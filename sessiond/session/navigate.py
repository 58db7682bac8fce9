"""Navigation in the tree: a head goes to an entry that a person selected.

Law: a person who selects a user message wants to rephrase it. The head then goes before the message
and the text comes back, also where the message is the leaf. Any other entry becomes the leaf.
Navigation to the head's own position writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.errors import EntryInvalid, PlanStale
from sessiond.model.ids import MAIN
from sessiond.model.row import Kind
from sessiond.session.draft import Draft
from sessiond.session.index import Session
from sessiond.session.moves import (
    ALWAYS,
    BranchRequest,
    Condition,
    branch,
    is_move,
    label,
)
from sessiond.session.preconditions import require_expected

_NODE_OF_MOVE: Final = {"custom": Kind.CUSTOM, "branch_summary": Kind.BRANCH_SUMMARY}
_SAID: Final = frozenset({int(Kind.USER), int(Kind.CUSTOM_MESSAGE)})


class NavigateRequest(Struct):
    """A navigate call.

    `text_of` returns the user's text in a line; None for a line without one. `supplied` is a
    summary from another source than the caller; it is used where the head leaves entries and
    `summary` is empty.
    """

    entry_id: str | None
    text_of: Callable[[str, int, bytes], str | None]
    head: str = MAIN
    summary: str = ""
    supplied: str = ""
    details: Raw | UnsetType = UNSET
    label: str | None = None
    condition: Condition = ALWAYS


class Navigated(Struct, frozen=True):
    """The head's position, whether it moved, and the text for the editor."""

    leaf_id: str | None
    head: str
    seq: int
    moved: bool
    editor_text: str | None


class Way(NamedTuple):
    """The move that a call asks for: the head's position, the requested entry and the destination.

    `text` is that of the requested user message; None for any other entry.
    """

    leaf: int
    target: int
    to: int
    text: str | None


def lines_to_look_at(session: Session, request: NavigateRequest) -> Iterator[int]:
    """Yield the lines that a call reads.

    These are the target if it may be a user's message, and the head's leaf if it may be a move.
    """
    target = session.node(request.entry_id) if request.entry_id is not None else 0
    if session.kinds[target] in _SAID:
        yield target
    head = session.heads.get(request.head)
    if head is not None and _may_be_move(session, session.kinds[head.leaf]):
        yield head.leaf


def navigate(draft: Draft, request: NavigateRequest) -> Navigated:
    """Stage the move, with a summary of the entries left and a label if they are given."""
    leaf, target, to, text = require_may_go(draft, request)
    condition, before = request.condition, draft.leaf(request.head)
    if to == leaf and request.summary:
        raise EntryInvalid(
            "the head is there already and leaves no entries; send no summary", path="summary"
        )
    summary = request.summary or (request.supplied if to != leaf else "")
    if not summary and request.details is not UNSET:
        raise EntryInvalid("details belong to a summary; send a summary too", path="details")
    with draft.all_or_nothing():
        if to != leaf:
            branch(
                draft,
                BranchRequest(draft.id_of(to), request.head, summary, request.details, condition),
            )
        at = draft.leaf(request.head)
        if request.label is not None:
            labelled = draft.id_of(at if summary else target)
            if labelled is None:
                raise EntryInvalid(
                    "the place before the first entry takes no label; name an entry", path="label"
                )
            label(draft, labelled, request.label)
    at = draft.leaf(request.head)
    return Navigated(draft.id_of(at), request.head, draft.seq, at != before, text)


def require_may_go(draft: Draft, request: NavigateRequest) -> Way:
    """Return the move that the call asks for. Raise if it would be refused, so that no summary is written in vain."""
    draft.require_writable()
    condition = request.condition
    draft.require_lease(request.head, condition.lease_id)
    require_expected(draft, request.head, condition.expected)
    return way(draft, request)


def require_stayed(draft: Draft, request: NavigateRequest, planned: Way) -> None:
    """Raise PlanStale if the head is elsewhere than it was when its branch was summarised. Raises HeadNotFound."""
    at = way(draft, request).leaf
    if at != planned.leaf:
        raise PlanStale(
            "the head moved while its branch was summarised; call again for a summary of what is there now",
            plan_leaf_id=draft.id_of(planned.leaf),
            leaf_id=draft.id_of(at),
        )


def way(draft: Draft, request: NavigateRequest) -> Way:
    """Return the move that the call asks for. Raises EntryNotFound, HeadNotFound."""
    leaf = _place(draft, draft.leaf(request.head))
    target = draft.node(request.entry_id) if request.entry_id is not None else 0
    if not target or draft.kind(target) not in _SAID:
        return Way(leaf, target, target, None)
    text = request.text_of(request.entry_id or "", draft.kind(target), draft.line_of(target))
    to = target if text is None else draft.parent(target)
    return Way(leaf, target, to, text)


def _place(draft: Draft, leaf: int) -> int:
    """Return a head's position: its leaf, or a move's parent where the leaf is a move."""
    if not _may_be_move(draft.session, draft.kind(leaf)):
        return leaf
    is_one = is_move(draft.wire_of(leaf), draft.session.rules.moves)
    return draft.parent(leaf) if is_one else leaf


def _may_be_move(session: Session, kind: int) -> bool:
    return kind == _NODE_OF_MOVE.get(session.rules.moves)
