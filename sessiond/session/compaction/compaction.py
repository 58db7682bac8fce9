"""Compaction: one entry that stands for everything before it on its branch.

A plan's summary covers what the plan saw. The summary still holds for a head that only grew since:
the kept entries and the later ones follow the summary. The summary no longer holds once another
compaction stands between, or once the head moved to another branch. Messages that replace the whole
context require a head that did not move at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.errors import EntryInvalid, IdempotencyConflict, InvalidParams, PlanStale
from sessiond.model.entries import Compaction
from sessiond.model.ids import MAIN, derive_entry_id
from sessiond.model.row import CONTEXT_KINDS, Kind
from sessiond.session.append import append
from sessiond.session.append_request import AppendRequest, Expected
from sessiond.session.compaction.plan_id import PlanRef
from sessiond.session.draft import Draft
from sessiond.session.index import Session
from sessiond.session.preconditions import require_expected, require_may_append
from sessiond.session.receipts import Receipt

_SAID: Final = CONTEXT_KINDS - {Kind.CONTEXT_EDIT}
"""Kinds of entries that give a context a message of their own."""
IsResult = Callable[[bytes], bool]
"""Function that tells whether the message of a line answers a tool call, in any spelling."""
Render = Callable[[Draft, str, list[int]], list[Raw]]
"""Function that makes messages of a summary and of kept entries, for a file that holds messages."""


class Figures(Struct, frozen=True):
    """Tokens of a context before and after its compaction."""

    tokens_before: int | UnsetType = UNSET
    tokens_after: int | UnsetType = UNSET


class CompactRequest(Struct):
    """A compact call: a summary and what to keep, or replacement messages.

    `figures` are estimates, for what the caller leaves out.
    """

    session_id: str
    summary: str | UnsetType = UNSET
    first_kept_entry_id: str | UnsetType | None = UNSET
    messages: Sequence[Raw] | UnsetType = UNSET
    tokens_before: int | UnsetType = UNSET
    details: Raw | UnsetType = UNSET
    head: str = MAIN
    expected: Expected | None = None
    lease_id: str | None = None
    idempotency_key: str | None = None
    plan: PlanRef | None = None
    figures: Figures = Figures()

    @property
    def first_kept(self) -> str | None:
        """Id of the first kept entry, which a plan names; None for none."""
        if self.plan is not None:
            return self.plan.first_kept_entry_id
        return self.first_kept_entry_id if isinstance(self.first_kept_entry_id, str) else None


def kept_seqs(
    parent: Callable[[int], int], kind: Callable[[int], int], leaf: int, kept: int
) -> list[int]:
    """Return the entries from `kept` down to `leaf` that give a context messages, in order.

    None if there is no such entry on the path. An earlier compaction gives none.
    """
    found: list[int] = []
    at = leaf
    while kept and at >= kept:
        if kind(at) in CONTEXT_KINDS:
            found.append(at)
        at = parent(at)
    found.reverse()
    return found


def line_to_keep(session: Session, request: CompactRequest) -> Iterable[int]:
    """Yield the first kept entry with a message; staging reads its line if it is a user message."""
    kept, head = request.first_kept_entry_id, session.heads.get(request.head)
    if not isinstance(kept, str) or head is None:
        return
    kinds, parents = session.kinds, session.parents
    first = _first_said(parents.__getitem__, kinds.__getitem__, head.leaf, session.node(kept))
    if kinds[first] == Kind.USER:
        yield first


def compact(
    draft: Draft,
    request: CompactRequest,
    is_result: IsResult | None = None,
    render: Render | None = None,
) -> Receipt:
    """Stage the compaction below the head's leaf and return the receipt of an append."""
    stored = _stored(draft, request)
    if isinstance(request.messages, UnsetType):
        entry = _pointer(request, _stored_figures(draft, stored) if stored else request.figures)
    else:
        entry = _replacement(request, request.messages)
    expected = request.expected
    if not stored:
        draft.require_writable()
        draft.require_lease(request.head, request.lease_id)
        require_expected(draft, request.head, expected)
        if request.plan is not None:
            _require_fits(draft, request.plan, grown=entry.messages is UNSET)
        elif entry.messages is UNSET:
            _require_something_new(draft, request.head)
        if entry.messages is UNSET:
            _require_no_result_first(draft, entry, request.head, is_result)
    if entry.messages is not UNSET and request.plan is not None:
        # The plan names the leaf, and the plan was just checked against the head.
        expected = expected or Expected(leaf_id=request.plan.leaf_id)
    if entry.messages is UNSET and not draft.session.rules.pointer:
        assert render is not None, "a file without pointers needs the messages"
        entry = _rendered(draft, entry, request, render)
        # The messages are those of the head at this moment.
        expected = Expected(leaf_id=draft.id_of(draft.leaf(request.head)))
    return append(
        draft,
        AppendRequest(
            session_id=request.session_id,
            entries=(entry,),
            head=request.head,
            expected=expected,
            lease_id=request.lease_id,
            idempotency_key=request.idempotency_key,
        ),
    )


def require_may_run(draft: Draft, request: CompactRequest) -> int:
    """Return the seq of the compaction stored under the request's key, else 0.

    Raises if the compaction would be refused, so that no summary is written in vain.
    """
    key = request.idempotency_key
    known = [] if key is None else draft.find_all(derive_entry_id(request.session_id, key, 0))
    compactions = [seq for seq in known if draft.kind(seq) == Kind.COMPACTION]
    stored = (compactions or known or [0])[0]
    if not stored:
        require_may_append(draft, request.head, request.lease_id, request.expected)
    elif not compactions:
        raise IdempotencyConflict(
            "the key was used for an entry that is no compaction; use another key",
            entry_id=draft.id_of(stored),
            stored_seq=stored,
        )
    return stored


def _stored_figures(draft: Draft, stored: int) -> Figures:
    """Return the figures in a stored compaction: those that the first try stored."""
    try:
        return typed.decode(draft.wire_of(stored), Figures)
    except msgspec.DecodeError:
        return Figures()


def _pointer(request: CompactRequest, figures: Figures) -> Compaction:
    if isinstance(request.summary, UnsetType) or not request.summary.strip():
        raise EntryInvalid("the summary is empty", path="summary")
    kept = request.first_kept_entry_id
    before = request.tokens_before
    if request.plan is not None:
        kept = request.plan.first_kept_entry_id
        before = request.plan.tokens_before if isinstance(before, UnsetType) else before
    return Compaction(
        summary=request.summary,
        first_kept_entry_id=None if isinstance(kept, UnsetType) else kept,
        tokens_before=figures.tokens_before if isinstance(before, UnsetType) else before,
        tokens_after=figures.tokens_after,
        details=request.details,
    )


def _replacement(request: CompactRequest, messages: Sequence[Raw]) -> Compaction:
    guarded = request.expected is not None and request.expected.leaf_id is not UNSET
    if request.plan is None and not guarded:
        raise InvalidParams(
            "messages replace the context that the caller saw; name it with expected.leaf_id or plan_id",
            path="expected.leaf_id",
        )
    return Compaction(
        messages=list(messages), tokens_before=request.tokens_before, details=request.details
    )


def _rendered(
    draft: Draft, entry: Compaction, request: CompactRequest, render: Render
) -> Compaction:
    """Return the compaction by the messages of its summary and its kept entries.

    For a retry these are the stored messages, if they begin with the same summary. Raises
    EntryNotFound, EntryInvalid.
    """
    assert isinstance(entry.summary, str), "a compaction without messages has a summary"
    stored = _stored(draft, request)
    if stored:
        messages = _stored_messages(draft, stored, render(draft, entry.summary, []))
    else:
        kept = draft.node(request.first_kept, "first_kept_entry_id") if request.first_kept else 0
        leaf = draft.leaf(request.head)
        if kept and not draft.is_above(kept, leaf):
            raise EntryInvalid(
                "first_kept_entry_id is not on the path of the head",
                entry_id=request.first_kept,
                path="first_kept_entry_id",
            )
        messages = render(draft, entry.summary, kept_seqs(draft.parent, draft.kind, leaf, kept))
    return Compaction(messages=messages, tokens_before=entry.tokens_before, details=entry.details)


def _stored_messages(draft: Draft, stored: int, said: list[Raw]) -> list[Raw]:
    """Return the messages of a stored compaction if they begin with this summary, at any time."""
    try:
        found = typed.decode(draft.wire_of(stored), Compaction).messages
    except msgspec.DecodeError:
        return said
    if isinstance(found, UnsetType) or not found or _untimed(found[0]) != _untimed(said[0]):
        return said
    return found


def _untimed(message: Raw) -> dict[str, Any]:
    found = typed.decode(message, dict[str, Any])
    return found | {"timestamp": None}


def _stored(draft: Draft, request: CompactRequest) -> int:
    """Return the entry of the call if it was stored before, else 0; a retry is not checked again."""
    key = request.idempotency_key
    return 0 if key is None else draft.find(derive_entry_id(request.session_id, key, 0))


def _require_something_new(draft: Draft, head: str) -> None:
    """Raise EntryInvalid right below a compaction: there is nothing new to summarise."""
    leaf = draft.leaf(head)
    if leaf and draft.kind(leaf) == Kind.COMPACTION:
        raise EntryInvalid(
            "the head's leaf is a compaction, so there is nothing new to compact; append entries first",
            entry_id=draft.id_of(leaf),
            path="head",
        )


def _require_fits(draft: Draft, plan: PlanRef, *, grown: bool) -> None:
    """Raise PlanStale unless the head is where the plan was made.

    With `grown` the head may have gained entries since that are no compactions.
    """
    leaf = draft.leaf(plan.head)
    planned = draft.find(plan.leaf_id)
    at = leaf
    while at > planned and draft.kind(at) != Kind.COMPACTION:
        at = draft.parent(at)
    if planned and at == planned and (grown or leaf == planned):
        return
    raise PlanStale(
        "the head moved and the plan no longer fits; make a new plan with session/plan_compaction",
        plan_leaf_id=plan.leaf_id,
        leaf_id=draft.id_of(leaf),
    )


def _require_no_result_first(
    draft: Draft, entry: Compaction, head: str, is_result: IsResult | None
) -> None:
    """Raise EntryInvalid if the kept part would begin with the result of a call that is gone."""
    kept = entry.first_kept_entry_id
    if not isinstance(kept, str):
        return
    first = _first_said(draft.parent, draft.kind, draft.leaf(head), draft.find(kept))
    kind = draft.kind(first)
    if kind == Kind.USER and is_result is not None:
        line = draft.known_line_of(first)
        is_first_result = line is not None and is_result(line)
    else:
        is_first_result = kind == Kind.TOOL
    if is_first_result:
        raise EntryInvalid(
            "the kept entries would begin with a tool result whose call is gone;"
            " keep from the message with the call on, or from the next one",
            entry_id=draft.id_of(first),
            path="first_kept_entry_id",
        )


def _first_said(
    parent: Callable[[int], int], kind: Callable[[int], int], leaf: int, kept: int
) -> int:
    """Return the first entry from `kept` on that gives the context a message; 0 for none."""
    first, at = 0, leaf
    while kept and at >= kept:
        if kind(at) in _SAID:
            first = at
        at = parent(at)
    return first
